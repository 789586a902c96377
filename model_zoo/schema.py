"""A model card: the facts of one checkpoint from which memory, FLOPs, bytes and messages follow.

A card names its layer kinds once (`mixers`, `ffns`) and gives their order run-length encoded (`layers`), so
that a pipeline stage [a, b) has exactly the layers it has. `derive` lists the weight matrices of every
kind: parameters, bytes and FLOPs all follow from that one list. Sizes are whole-model (before tp / ep).

Precisions (contracts.md): bf16 fp8 fp8_block nvfp4 mxfp4 int4_wo int8 (fp32 for states only).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from planner.errors import Misplaced
from planner.reading.names import Title

Size = Annotated[int, Field(ge=1, le=2**31)]
Amount = Annotated[int, Field(ge=0, le=10**40)]
MOST_LAYERS = 1000
"""Of one model: a wrong figure cannot exhaust memory."""

Precision = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo", "int8"]

WEIGHT_BYTES: dict[str, float] = {
    # scales: fp8_block an fp32 a 128x128 block, nvfp4 an fp8 a 16, mxfp4 an e8m0 a 32, int4 an fp16 a 128
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4 / (128 * 128),
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4_wo": 0.5 + 2 / 128,
    "int8": 1.0,
}
"""Bytes a weight, scales included."""

KV_BYTES: dict[str, float] = {"bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""Bytes a KV cache element."""


class Gemm(NamedTuple):
    """One weight matrix: `n` outputs x `k` inputs. `split`: which side tp divides ("out", "in", or "none" =
    every rank holds it whole)."""

    name: str
    n: int
    k: int
    split: Literal["out", "in", "none"]

    @property
    def params(self) -> int:
        return self.n * self.k


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Indexer(Strict):
    """Sparse attention's scorer: every query scores all cached index keys and attends to the `top_k` best
    tokens.

    `shared`: takes the choice of an earlier layer, so it has neither weights nor cache of its own (GLM-5.2).
    """

    heads: Size
    head_dim: Size
    top_k: Size
    shared: bool = False


class Part(Strict):
    """A mixer or FFN. `precision`: its matrices (named as in `matrices`) that the checkpoint stores
    otherwise than `Weights` says for their kind."""

    precision: dict[str, Precision] = {}


class Attention(Part):
    """Softmax attention with its own KV heads; `window` = sliding window or attention chunk in tokens.

    `compress` (DeepSeek-V4): beside the window, one cache entry a `compress` tokens; entries are both key
    and value (`shared_kv`); Q and the output go through low ranks, the output in `o_groups` blocks.
    """

    kind: Literal["attention"] = "attention"
    heads: Size
    kv_heads: Size
    head_dim: Size
    v_head_dim: Size | None = None  # default head_dim
    window: Size | None = None
    output_gate: bool = False  # a gate as wide as Q's output (Qwen3.5)
    joint_norm: bool = False  # Q and K are normalised over all heads at once (MiniMax-M2)
    k_is_v: bool = False  # K and V share one projection, but are cached apart (Gemma 4)
    shared_kv: bool = False  # one cached vector is both K and V (DeepSeek-V4)
    compress: Size | None = None
    q_lora_rank: Size | None = None
    o_lora_rank: Size | None = None
    o_groups: Size = 1
    indexer: Indexer | None = None

    @model_validator(mode="after")
    def _heads_share_evenly(self) -> Attention:
        if self.heads % self.kv_heads:
            text = f"{self.heads} attention heads do not divide into {self.kv_heads} KV heads"
            raise Misplaced(text, "kv_heads")
        return self


class Mla(Part):
    """Multi-head latent attention: one latent of kv_lora_rank + qk_rope a token, whole on every tp rank."""

    kind: Literal["mla"] = "mla"
    heads: Size
    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope: Amount
    qk_rope: Amount
    v_head_dim: Size
    output_gate: bool = False  # a gate as wide as the heads' output (Kimi-K3)
    indexer: Indexer | None = None
    window: Size | None = None


class LinearAttention(Part):
    """Gated delta rule and its kin (GDN, KDA): a fixed state a sequence, no KV cache.

    `decay_rank`: rank of the projection to a decay a channel (KDA); None: one decay a head (GDN).
    """

    kind: Literal["linear"] = "linear"
    key_heads: Size
    value_heads: Size
    key_dim: Size
    value_dim: Size
    conv: Size = 4
    decay_rank: Size | None = None
    gate_rank: Size | None = None  # None: the output gate has full rank


class Mamba2(Part):
    """State-space mixer: heads x head_dim x state recurrent values a sequence, no KV cache."""

    kind: Literal["mamba2"] = "mamba2"
    heads: Size
    head_dim: Size
    groups: Size
    state: Size
    conv: Size = 4


Mixer = Annotated[Attention | Mla | LinearAttention | Mamba2, Field(discriminator="kind")]


class DenseFfn(Part):
    """A plain feed-forward block."""

    kind: Literal["dense"] = "dense"
    inner: Size
    matrices: Literal[2, 3] = 3  # 3: gated (SwiGLU), 2: plain


class MoeFfn(Part):
    """Routed experts, of which a token takes `top_k`, and shared ones, as one, that every token takes."""

    kind: Literal["moe"] = "moe"
    experts: Size
    top_k: Size
    inner: Size  # width of one routed expert
    matrices: Literal[2, 3] = 3
    shared_inner: Amount = 0  # summed width of the shared experts
    latent: Size | None = None  # hidden size inside routed experts where it is not the model's
    float_router: bool = False  # engines hold its router in 32 bits (MiniMax-M2)

    @model_validator(mode="after")
    def _a_token_takes_some(self) -> MoeFfn:
        if self.top_k > self.experts:
            raise Misplaced(f"a token takes {self.top_k} of {self.experts} experts", "top_k")
        return self


Ffn = Annotated[DenseFfn | MoeFfn, Field(discriminator="kind")]


class Run(Strict):
    """`times` repetitions of the layers `of`, each "mixer/ffn" with "-" for none: ["gdn/moe", "attn/moe"]."""

    times: Size
    of: list[str] = Field(min_length=1)


class Weights(Strict):
    """Precision of each kind of weight as the checkpoint stores it, and of the KV cache it is meant for."""

    attention: Precision = "bf16"
    dense: Precision = "bf16"  # dense FFN and shared experts
    experts: Precision = "bf16"
    embedding: Precision = "bf16"  # embedding and LM head
    lm_head: Precision | None = None  # where it differs from the embedding
    int4_group: Size = 128  # weights that share one 16-bit scale in int4_wo
    kv: Literal["bf16", "fp8", "nvfp4"] = "bf16"


class Layer(NamedTuple):
    """One layer as it stands in the model: either part may be missing (Nemotron-H, Nemotron-NAS)."""

    mixer: Attention | Mla | LinearAttention | Mamba2 | None
    ffn: DenseFfn | MoeFfn | None


class ModelCard(Strict):
    """One checkpoint. Everything derived (parameters, KV bytes) is computed, never stored."""

    name: Title
    hf_id: Title | None = None
    architecture: str | None = None  # its class in engines: `architectures` of its Hugging Face config
    also: list[str] = []  # other ids and spellings of the same shape
    source: str  # where the figures come from
    hidden: Size
    vocab: Size
    tied_embeddings: bool = False
    max_context: Size
    mixers: dict[str, Mixer]
    ffns: dict[str, Ffn]
    layers: list[Run]
    weights: Weights = Weights()
    mtp_layers: int = Field(default=0, ge=0, le=MOST_LAYERS)  # extra multi-token-prediction layers
    mtp_layer: str | None = None  # shape of one, "mixer/ffn"; None: the last layer's
    vision_params: Amount = 0  # vision tower with its projector, bf16
    extra_params: Amount = 0  # text parameters that no matrix list covers (norms, biases, convolutions)
    estimate: bool = False  # some figure is not published

    @model_validator(mode="after")
    def _layers_are_named(self) -> ModelCard:
        """Every layer names one of `mixers` and one of `ffns`, or "-"; there are some, and not too many."""
        count = sum(run.times * len(run.of) for run in self.layers)
        if not 1 <= count <= MOST_LAYERS:
            raise Misplaced(f"a model has 1 to {MOST_LAYERS:,} layers, these are {count:,}", "layers")
        mixers, ffns = {*self.mixers, "-"}, {*self.ffns, "-"}
        for name in [name for run in self.layers for name in run.of] + (
            [self.mtp_layer] if self.mtp_layer else []
        ):
            mixer, slash, ffn = name.partition("/")
            if not slash or mixer not in mixers or ffn not in ffns:
                known = f"MIXER one of {', '.join(sorted(mixers))} and FFN one of {', '.join(sorted(ffns))}"
                raise ValueError(f"layer {name!r} is not MIXER/FFN with {known}")
        return self

    @cached_property
    def moe(self) -> bool:
        """Whether any of its FFNs has routed experts."""
        return any(isinstance(ffn, MoeFfn) for ffn in self.ffns.values())

    @cached_property
    def float_router(self) -> bool:
        """Whether engines hold the routers of its experts in 32 bits."""
        return any(isinstance(ffn, MoeFfn) and ffn.float_router for ffn in self.ffns.values())

    @cached_property
    def stack(self) -> tuple[Layer, ...]:
        """All layers in order."""
        kinds, order = self.kinds
        return tuple(kinds[i] for i in order)

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
        """The distinct layers, and for each layer in order which of them it is."""
        names = [name for run in self.layers for _ in range(run.times) for name in run.of]
        index = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return tuple(self.layer(name) for name in index), tuple(index[name] for name in names)

    def layer(self, name: str) -> Layer:
        """The layer written `name`, "mixer/ffn" with "-" for none."""
        mixer, _, ffn = name.partition("/")
        return Layer(self.mixers.get(mixer), self.ffns.get(ffn))
