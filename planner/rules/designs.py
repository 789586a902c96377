"""Which parallel designs an engine starts. (Which devices and precisions it serves: `device_rules`.)

Read in vLLM 0.33 (config/parallel.py, config/model.py, quantization/utils/fp8_utils.py,
layers/vocab_parallel_embedding.py, fused MoE methods' EPLB), SGLang 0.5.23 (arg_groups/parallel_hook.py,
validation_hook.py), TensorRT-LLM (llmapi/llm_args.py and exported configurations) and the llama.cpp server
README. A reason is one plain clause; None means that the engine starts.

| | tp x attn_dp | experts | pp |
|---|---|---|---|
| vLLM | any (attention dp for MoE only) | ep = 1 or all ranks of the stage (a switch) | any |
| SGLang | any (attention dp for MoE only) | ep divides the ranks | any |
| TensorRT-LLM | attention dp only with tp = 1 | moe_tp x ep free | any |
| llama.cpp | tp = 1 | whole on each GPU | layer split |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms
from model_zoo.schema import Attention, Gemm, Layer, LinearAttention, Mamba2, Mla, ModelCard, MoeFfn
from planner.designs.precision import MatrixPrecision, precisions
from planner.designs.shape import Designs, Precisions
from planner.engines import ENGINES, named

VOCAB_PADDING = 64
"""vLLM and SGLang pad the vocabulary to a multiple of this, then divide it by tp."""

REDUNDANT_SHARE = 1 / 8
"""Experts that do not divide by ep are filled up with redundant ones (EPLB slots): at most this share more.
DeepSeek's 256 over 72 ranks: 288 slots, exactly 1/8 more."""

MOST_COPIES = 1 / 2
"""Redundant experts offered for balance, as a share of the experts."""

COPIES_A_RANK = 1
"""And on each rank, beyond what fills it up: then no replica need carry more than a rank's fair part, however
skewed the loads, as sum(e) ceil(w[e] * ep / sum(w)) <= experts + ep."""


OFFLOADS = {e.name: e.offloads for e in sorted(ENGINES, key=lambda e: e.name) if e.offloads}
"""Engines that keep parts of a model in host memory, and how."""

STAGE_GPUS = (*range(1, 9), 10, 12, 16, 20, 24, 32, 36, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144)
"""GPUs of one stage that are tried: all up to a node, then whole nodes and racks."""

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)
"""Pipeline depths that are tried."""


def why_invalid(
    card: ModelCard,
    engine: str,
    tp: int,
    pp: int = 1,
    attn_dp: int = 1,
    moe_tp: int = 1,
    ep: int = 1,
    used: Precisions | None = None,
    cp: int = 1,
) -> str | None:
    """Why `engine` refuses the design, or None. `used`: precisions, default the checkpoint's."""
    if min(tp, pp, attn_dp, moe_tp, ep, cp) < 1:
        return "tp, pp, attn_dp, moe_tp, ep and cp are at least 1"
    return (
        why_not_depth(card, pp)
        or why_not_tp(card, engine, tp, used)
        or why_not_together(card, engine, tp, attn_dp, moe_tp, ep, cp)
        or why_not_moe(card, moe_tp, ep, used)
    )


def why_not_depth(card: ModelCard, pp: int) -> str | None:
    """Every stage needs a layer."""
    return f"{len(card.stack)} layers cannot fill {pp} stages" if pp > len(card.stack) else None


def why_not_tp(card: ModelCard, engine: str, tp: int, used: Precisions | None = None) -> str | None:
    """Heads, widths, vocabulary and quantisation blocks against tp."""
    if named(engine).name == "llama.cpp":
        return None if tp == 1 else "llama.cpp splits by layers: use pp"
    padded = -(-card.vocab // VOCAB_PADDING) * VOCAB_PADDING
    if engine in ("vllm", "sglang") and padded % tp:
        return f"a vocabulary of {padded} does not divide by tp={tp}"
    for layer in _layers(card):
        reason = _why_not_heads(layer, tp) or _why_not_blocks(card, layer, tp, used)
        if reason:
            return reason
    return None


def why_not_together(
    card: ModelCard, engine: str, tp: int, attn_dp: int, moe_tp: int, ep: int, cp: int = 1
) -> str | None:
    """How attention's and the experts' parallelism must agree in one stage."""
    ranks = tp * attn_dp * cp
    if cp > 1 and (reason := _why_not_context(card, engine, attn_dp)):
        return reason
    if not card.moe:
        if attn_dp > 1:
            return "attention dp is for MoE models: run more replicas"
        return None if ep == 1 and moe_tp in (1, tp, ranks) else "a dense model has no experts to divide"
    if named(engine).name == "llama.cpp":
        whole = (attn_dp, moe_tp, ep) == (1, 1, 1)
        return None if whole else "llama.cpp divides neither experts nor attention dp"
    if ranks != moe_tp * ep:
        return f"tp x attn_dp x cp = {ranks} GPUs of a stage, but moe_tp x ep = {moe_tp * ep}"
    if engine == "vllm" and ep not in (1, ranks):
        return f"vLLM's expert parallelism is a switch: ep is 1 or {ranks}"
    if engine == "trtllm" and attn_dp > 1 and tp > 1:
        return "TensorRT-LLM's attention dp takes all ranks: tp must be 1"
    return None


def _why_not_context(card: ModelCard, engine: str, attn_dp: int) -> str | None:
    """Context parallelism as vLLM has it: every rank keeps 1/cp of each cache; its sparse kernels have none
    (attention_backends.md, DCP). SGLang keeps whole caches; TensorRT-LLM's serves few models."""
    if engine != "vllm":
        return "context parallelism is offered for vLLM only"
    if attn_dp > 1:
        return "context parallelism beside attention dp is not offered"
    mixers = card.mixers.values()
    if any(isinstance(mixer, Attention | Mla) and mixer.indexer for mixer in mixers):
        return "vLLM's sparse attention is not divided by context"
    kept = all(isinstance(mixer, Attention | Mla) for mixer in mixers)
    return None if kept else "recurrent layers cannot be divided by context"


def why_not_moe(card: ModelCard, moe_tp: int, ep: int, used: Precisions | None = None) -> str | None:
    """Experts against ep, their widths against moe_tp."""
    for layer in _layers(card):
        if not isinstance(layer.ffn, MoeFfn):
            continue
        slots = -(-layer.ffn.experts // ep) * ep
        if slots > layer.ffn.experts * (1 + REDUNDANT_SHARE):
            return f"{layer.ffn.experts} experts do not divide by ep={ep}"
        if layer.ffn.inner % moe_tp:
            return f"an expert of width {layer.ffn.inner} does not divide by moe_tp={moe_tp}"
        precision = partial(_matrices(card, used).expert, layer)
        for gemm in expert_gemms(layer.ffn, card.hidden):
            if reason := _why_not_block(gemm, precision(gemm), moe_tp, card, "moe_tp"):
                return reason
    return None


def _layers(card: ModelCard) -> list[Layer]:
    """One layer of each kind of mixer and FFN."""
    return [Layer(mixer, None) for mixer in card.mixers.values()] + [
        Layer(None, ffn) for ffn in card.ffns.values()
    ]


def _matrices(card: ModelCard, used: Precisions | None) -> MatrixPrecision:
    return MatrixPrecision(card, used or precisions(card))


def _why_not_heads(layer: Layer, tp: int) -> str | None:
    """Heads divide by tp; KV heads (and groups) divide by tp or are repeated evenly."""
    mixer = layer.mixer
    if isinstance(mixer, Attention | Mla | Mamba2) and mixer.heads % tp:
        return f"{mixer.heads} heads do not divide by tp={tp}"
    if isinstance(mixer, LinearAttention) and (mixer.key_heads % tp or mixer.value_heads % tp):
        return f"{mixer.key_heads} key and {mixer.value_heads} value heads do not divide by tp={tp}"
    if isinstance(mixer, Attention | Mamba2):
        shared = mixer.kv_heads if isinstance(mixer, Attention) else mixer.groups
        if shared % tp and tp % shared:
            what = "KV heads" if isinstance(mixer, Attention) else "groups"
            return f"{shared} {what} neither divide by tp={tp} nor can be repeated evenly"
    return None


def _why_not_blocks(card: ModelCard, layer: Layer, tp: int, used: Precisions | None) -> str | None:
    """Every divided matrix of the layer but the experts': whole columns, and whole quantisation blocks."""
    matrices = _matrices(card, used)
    gemms = [(g, matrices.attention(layer, g)) for g in mixer_gemms(layer.mixer, card.hidden)]
    gemms += [(g, matrices.dense(layer, g)) for g in ffn_gemms(layer.ffn, card.hidden)]
    reasons = (_why_not_block(gemm, precision, tp, card, "tp") for gemm, precision in gemms)
    return next((reason for reason in reasons if reason), None)


def _why_not_block(gemm: Gemm, precision: str, shards: int, card: ModelCard, name: str) -> str | None:
    """FP8 blocks are 128 x 128; int4 and nvfp4 scale groups lie along the inputs."""
    if gemm.split == "none" or shards == 1:
        return None
    width = gemm.n if gemm.split == "out" else gemm.k
    inputs = gemm.split == "in"
    if inputs and width % shards:
        return f"a width of {width} does not divide by {name}={shards}"
    groups = {"fp8_block": 128, "int4_wo": card.weights.int4_group * inputs, "nvfp4": 16 * inputs}
    block = groups.get(precision, 0)
    if block and (width / shards) % block:
        shard = f"a shard of {width / shards:g} at {name}={shards}"
        return f"{shard} is no multiple of {precision}'s block of {block}"
    return None


def valid_designs(
    card: ModelCard,
    engine: str,
    max_gpus_per_stage: int,
    max_gpus: int,
    max_tp: int | None = None,
    used: Precisions | None = None,
    redundant: bool = False,
    contexts: Sequence[int] = (1,),
) -> Designs:
    """All designs that `engine` starts with stages of STAGE_GPUS and DEPTHS, at most `max_gpus` in a replica.

    `max_tp`: GPUs of the scale-up domain that tp must stay in (default `max_gpus_per_stage`). `redundant`:
    with copies of experts, too, where the engine's balancer keeps them (`device_rules.balances`). `contexts`:
    values of cp. In order of GPUs. Dense models: ep = 1.
    """
    moe = card.moe
    tps = [t for t in STAGE_GPUS if t <= min(max_tp or max_gpus_per_stage, max_gpus)]
    tps = [t for t in tps if why_not_tp(card, engine, t, used) is None]
    widest = min(max_gpus_per_stage, max_gpus)
    several = moe or max(contexts) > 1
    ranks = [g for g in STAGE_GPUS if g <= widest] if several and engine != "llama.cpp" else tps
    stages = [
        (tp, groups // cp, moe_tp, ep, copies, cp)
        for gpus, tp, cp in product(ranks, tps, contexts)
        if gpus % (tp * cp) == 0
        for groups in [gpus // tp]
        for ep in (range(1, gpus + 1) if moe else [1])
        if gpus % ep == 0
        for moe_tp in [gpus // ep if moe else tp * cp]
        if why_not_together(card, engine, tp, groups // cp, moe_tp, ep, cp) is None
        for copies in redundancies(card, moe_tp, ep, redundant)
    ]
    fine = {key: why_not_moe(card, *key, used) is None for key in {stage[2:4] for stage in stages}}
    depths = [pp for pp in DEPTHS if why_not_depth(card, pp) is None]
    found = [
        (stage[0], pp, *stage[1:])
        for stage, pp in product(stages, depths)
        if fine[stage[2:4]] and stage[0] * stage[1] * stage[5] * pp <= max_gpus
    ]
    found.sort(key=lambda design: (design[0] * design[1] * design[2] * design[6], design))
    return Designs(*np.array(found, dtype=np.int64).reshape(-1, 7).T)


def redundancies(card: ModelCard, moe_tp: int, ep: int, balanced: bool = True) -> list[int]:
    """Copies of experts in a layer that fill all ep ranks alike: none where ep divides the experts, and where
    whole experts are `balanced` over ranks up to COPIES_A_RANK more on each."""
    counts = {ffn.experts for ffn in card.ffns.values() if isinstance(ffn, MoeFfn)}
    least = {-n % ep for n in counts} or {0}
    if len(least) > 1:
        return []
    first = least.pop()
    more = COPIES_A_RANK if balanced and moe_tp == 1 and ep > 1 else 0
    most = MOST_COPIES * min(counts, default=0)
    return [
        copies
        for copies in range(first, first + more * ep + 1, ep)
        if copies == 0 or (more and copies <= most)
    ]
