"""Which servers of an engine may hand KV caches to which others, and which designs may only prefill or only
decode.

| | vLLM (NIXL) | SGLang (Mooncake, NIXL) | TensorRT-LLM |
|---|---|---|---|
| pp of decode | 1 | 1, or that of prefill | any |
| pp of prefill | 1; any by push (GPUs), unless recurrent or compressed | any | any |
| tp of both | one divides the other | one divides the other | powers of two |
| unlike tp | not recurrent; no repeated KV heads to a smaller tp | not windows, indexers | any |
| cp | none | none that decodes | none that prefills |
| devices | the same attention backend | one generation | NVIDIA; latent caches of Hopper alone |

llama.cpp has no such servers (server README at 0c1e5709).

vLLM 0.33. Pulls 45880 and 50494 (pipelined prefill by `NixlPushConnector`, both after 0.23), issues 40674 and
52913 (no other), pull 52779 (cp: no consumers, none with dcp); docs/features/nixl_connector_compatibility.md
(what must be alike: version, model, attention backend, the cache's precision; what may differ: tp);
kv_connector/utils.py and nixl/base_worker.py (how tp must divide). The page on compatibility names the
attention backend and no device: so generations meet whose backend is the same, by
docs/design/attention_backends.md and platforms/cuda.py (`_get_backend_priorities`). vLLM for Gaudi,
docs/features/heterogeneous_pd.md: prefill on NVIDIA, decode on Gaudi, validated for plain attention.

SGLang 0.5.16 to 0.5.23. disaggregation/common/conn.py (page size, the cache's precision, ranks of tp, cp and
pp); nixl/conn.py, mooncake/conn.py, issue 38552 (windows and indexers). Nothing is said of unlike devices.

TensorRT-LLM 1.3, 1.4rc. docs/source/features/disagg-serving.md (tp and pp may differ, so may GPU models; all
layers have one number of KV heads); cacheFormatter.cpp and that of MLA (precision, tokens a block, cp);
cacheSplitConcat.cu (powers of two); model_config.py (`enable_flash_mla`: blocks of 64 tokens on Hopper).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from cluster_configs.schema import Device
from model_zoo.schema import Attention, LinearAttention, Mamba2, Mla, ModelCard
from planner.designs.shape import Precisions
from planner.engines import named

Role = Literal["mixed", "prefill", "decode"]
Kind = Literal["heads", "sinks", "latent", "other"]

LIKE_ATTENTION: Final[dict[tuple[str, str], dict[str, str]]] = {
    ("heads", "bf16"): {
        **dict.fromkeys(("ampere", "ada", "hopper", "blackwell_rtx"), "FLASH_ATTN"),
        "blackwell_dc": "FLASHINFER",
    },
    ("heads", "fp8"): {
        **dict.fromkeys(("ampere", "ada", "blackwell_dc"), "FLASHINFER"),
        "hopper": "FLASH_ATTN",
    },
    ("sinks", "bf16"): {
        **dict.fromkeys(("ampere", "ada", "blackwell_rtx"), "TRITON_ATTN"),
        "hopper": "FLASH_ATTN",
        "blackwell_dc": "FLASHINFER",
    },
    ("latent", "bf16"): {
        **dict.fromkeys(("ampere", "ada", "blackwell_rtx"), "TRITON_MLA"),
        "hopper": "FLASH_ATTN_MLA",
        "blackwell_dc": "FLASHINFER_MLA",
    },
    ("latent", "fp8"): {
        **dict.fromkeys(("ada", "blackwell_rtx"), "TRITON_MLA"),
        "hopper": "FLASHMLA",
        "blackwell_dc": "FLASHINFER_MLA",
    },
}
"""The attention backend that vLLM takes by itself, by kind of attention and precision of the cache: the first
of its list that has the compute capability, the precision and sinks. Not listed: pairs of one generation."""

KEPT: Final = 1 << 13
"""Answers on sides that are kept: some hundred a plan."""

PLUGINS: Final = {"gaudi2", "gaudi3", "tpu"}
"""Generations that vLLM runs on by plugins, with connectors of their own."""

FLASHINFER_HEADS: Final = {64, 128, 256}
"""Sizes of heads that FLASHINFER has; others fall to another backend."""

COMPATIBILITY: Final = "nixl_connector_compatibility"
"""The page of vLLM's documentation that most rules stand on."""

SINKS: Final = ("gpt-oss",)
"""Models whose attention has sinks, which no card says."""


@dataclass(frozen=True)
class Side:
    """What of a server decides which others it pairs with: designs that differ in experts only are one side.
    Hashable. `used`: the precisions of its weights and its cache; `drafter`: whose cache goes along."""

    engine: str
    vendor: str
    generation: str
    tp: int
    pp: int
    attn_dp: int
    cp: int
    used: Precisions
    drafter: str = ""

    @staticmethod
    def of(
        engine: str, device: Device, shape: tuple[int, int, int, int], used: Precisions, drafter: str = ""
    ) -> Side:
        """The side that a replica on `device` is; `shape` = (tp, pp, attn_dp, cp)."""
        return Side(named(engine).name, device.vendor, device.generation, *shape, used, drafter)

    @property
    def as_partner(self) -> Side:
        """A side with the same partners among those that may have their role: without the parts of its shape
        that no rule between two sides looks at."""
        if self.engine == "trtllm":
            return replace(self, tp=1, pp=1, attn_dp=1, cp=1)
        return replace(self, pp=min(self.pp, 2) if self.engine == "vllm" else self.pp, attn_dp=1, cp=1)


@dataclass(frozen=True)
class Cached:
    """What a model caches. `heads`: numbers of KV heads that its layers have, one latent counting as one."""

    kind: Kind
    heads: tuple[int, ...]
    latent: bool  # one vector a token and layer, whole on every tp rank
    windows: bool
    indexed: bool
    compressed: bool
    recurrent: bool

    @staticmethod
    def of(card: ModelCard) -> Cached:
        """What pairs need to know of all its mixers."""
        mixers = list(card.mixers.values())
        caching = [m for m in mixers if isinstance(m, Attention | Mla)]
        plain = [m for m in caching if isinstance(m, Attention)]
        latent = all(isinstance(m, Mla) or m.shared_kv for m in caching)
        indexed = any(m.indexer is not None for m in caching)
        compressed = any(m.compress is not None for m in plain)
        recurrent = any(isinstance(m, LinearAttention | Mamba2) for m in mixers)
        usual = all(m.head_dim in FLASHINFER_HEADS and m.v_head_dim is None for m in plain)
        kind: Kind = "other"
        if not (indexed or compressed or recurrent) and usual and len(plain) in (0, len(caching)):
            sinks = any(name in f"{card.name} {card.hf_id}" for name in SINKS)
            kind = "latent" if not plain else "sinks" if sinks else "heads"
        heads = tuple(sorted({m.kv_heads if isinstance(m, Attention) else 1 for m in caching}))
        windows = any(m.window is not None for m in caching)
        return Cached(kind, heads, latent, windows, indexed, compressed, recurrent)


@lru_cache(maxsize=KEPT)
def unpaired(prefill: Side, decode: Side, model: Cached) -> str | None:
    """Why `decode` cannot go on with the caches of `prefill`, with the source, or None: they are a pair."""
    if prefill.engine != decode.engine:
        return f"{prefill.engine} and {decode.engine} have no connector in common"
    reason = no_role("prefill", prefill, model) or no_role("decode", decode, model)
    if reason:
        return reason
    if prefill.used != decode.used:
        return "prefill and decode servers need weights and caches in the same precision"
    if prefill.drafter != decode.drafter:
        return "prefill and decode servers need the same drafter, whose cache of a prompt goes along"
    rules = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
    return rules[prefill.engine](prefill, decode, model)


@lru_cache(maxsize=KEPT)
def no_role(role: Role, side: Side, model: Cached) -> str | None:
    """Why a server cannot have `role`, with whatever partner, with the source, or None."""
    if role == "mixed":
        return None
    if side.engine == "llama.cpp":
        return "llama.cpp has no prefill and decode servers (server README)"
    if side.engine == "vllm":
        return _no_role_vllm(role, side, model)
    if side.engine == "sglang":
        return _no_cp(role, side, "decode", "SGLang", "disaggregation/common/conn.py")
    return _no_role_trtllm(role, side, model)


def _no_role_vllm(role: Role, side: Side, model: Cached) -> str | None:
    if side.cp > 1:
        return f"vLLM's NIXL connector takes no cache divided by context, cp={side.cp} (pull 52779)"
    if side.pp == 1:
        return None
    if role == "decode":
        return f"vLLM's NIXL connectors take no decode server with pp={side.pp} (issue 52913, pull 45880)"
    if side.generation in PLUGINS:
        return f"vLLM's plugin for {side.generation} pushes no caches, as pp={side.pp} needs (pull 45880)"
    if model.recurrent or model.compressed:
        kind = "recurrent" if model.recurrent else "compressed"
        return f"vLLM hands over {kind} caches from pp=1 only, not pp={side.pp} (pulls 45880, 50494)"
    return None


def _no_role_trtllm(role: Role, side: Side, model: Cached) -> str | None:
    if len(model.heads) > 1:
        counts = " and ".join(map(str, model.heads))
        return f"TensorRT-LLM hands over caches of one number of KV heads, not {counts} (disagg-serving.md)"
    if side.tp & (side.tp - 1):
        return f"TensorRT-LLM hands over caches at tp a power of two, not {side.tp} (cacheSplitConcat.cu)"
    return _no_cp(role, side, "prefill", "TensorRT-LLM", "cacheFormatter.cpp")


def _no_cp(role: Role, side: Side, at: Role, engine: str, source: str) -> str | None:
    if side.cp > 1 and role == at:
        return f"{engine}'s {at} servers of a pair have no context parallelism, cp={side.cp} ({source})"
    return None


def _vllm(p: Side, d: Side, model: Cached) -> str | None:
    if reason := _why_not_multiple(p, d, "kv_connector/utils.py") or _why_not_unlike_tp(p, d, model):
        return reason
    if p.generation == d.generation:
        return None
    if p.vendor == "nvidia" and d.generation.startswith("gaudi"):
        return _why_not_gaudi(p, d, model)
    own, other = (_attention(side, model) for side in (p, d))
    if own is None or other is None:
        return f"vLLM says nothing of pairs of {p.generation} and {d.generation} ({COMPATIBILITY})"
    if own != other:
        met = f"{own} on {p.generation}, {other} on {d.generation}"
        return f"vLLM's pairs need one attention backend: {met} ({COMPATIBILITY})"
    return None


def _why_not_unlike_tp(p: Side, d: Side, model: Cached) -> str | None:
    """Where the heads of a cache are dealt anew on the way."""
    if p.tp == d.tp:
        return None
    both = f"tp={p.tp} and tp={d.tp}"
    if model.recurrent:
        return f"vLLM hands over recurrent states between like tp, not {both} ({COMPATIBILITY}, note 5)"
    if p.pp > 1 and model.windows and not model.latent:
        return f"vLLM hands over windows of a pipeline between like tp, not {both} (pull 50494)"
    if "tpu" in (p.generation, d.generation):
        return f"vLLM hands over caches of TPUs between like tp, not {both} (nixl_connector.py)"
    if p.tp > d.tp and not model.latent and p.tp > min(model.heads, default=p.tp):
        return f"{both}: vLLM hands no repeated KV heads, of {min(model.heads)}, to fewer (base_worker.py)"
    return None


def _why_not_gaudi(p: Side, d: Side, model: Cached) -> str | None:
    plain = model.kind == "heads" and not model.windows and p.used.kv == "bf16"
    if plain and p.tp == d.tp and p.pp == 1:
        return None
    return "vLLM hands caches to Gaudi for plain attention in 16 bits at one tp only (heterogeneous_pd)"


def _attention(side: Side, model: Cached) -> str | None:
    """The backend that vLLM takes by itself; None where no page says."""
    return LIKE_ATTENTION.get((model.kind, side.used.kv), {}).get(side.generation)


def _sglang(p: Side, d: Side, model: Cached) -> str | None:
    if reason := _why_not_multiple(p, d, "disaggregation/common/conn.py"):
        return reason
    if d.pp not in (1, p.pp):
        return f"SGLang decodes at prefill's pp={p.pp} or 1, not {d.pp} (disaggregation/common/conn.py)"
    if p.tp != d.tp and not model.latent and (model.windows or model.indexed):
        return f"SGLang hands over windows and indexes at one tp, not {p.tp} and {d.tp} (issue 38552)"
    if p.generation != d.generation:
        both = " and ".join(sorted((p.generation, d.generation)))
        return f"SGLang says nothing of pairs of {both} (pd_disaggregation)"
    return None


def _trtllm(p: Side, d: Side, model: Cached) -> str | None:
    pair = {p.generation, d.generation}
    if len(pair) == 2 and "hopper" in pair and model.latent:
        other = next(g for g in pair if g != "hopper")
        return f"TensorRT-LLM has blocks of 64 tokens of a latent on hopper, not on {other} (model_config.py)"
    return None


def _why_not_multiple(p: Side, d: Side, source: str) -> str | None:
    if max(p.tp, d.tp) % min(p.tp, d.tp):
        return f"tp={p.tp} and tp={d.tp}: {p.engine} needs one to be a multiple of the other ({source})"
    return None
