"""Servers that hand caches over: none in a role or with a partner that its engine refuses.

A table of its own, by what engines' pages and sources say: vLLM 0.33, features/nixl_connector_compatibility,
design/attention_backends, nixl/base_worker.py, pulls 45880, 50494, 52779, vllm-gaudi's heterogeneous_pd;
SGLang 0.5.23, disaggregation/common/conn.py, issue 38552; TensorRT-LLM 1.4rc, features/disagg-serving,
cacheFormatter.cpp, cacheSplitConcat.cu, model_config.py. Devices of two generations are believed only where
such a page speaks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model_zoo.schema import Attention, LinearAttention, Mamba2, Mla, ModelCard
from planner.check.case import Case
from planner.check.violation import Violation
from planner.plans.schema import Replica

EARLIER = frozenset({"ampere", "ada"})
ONE_BACKEND: dict[tuple[str, str], list[frozenset[str]]] = {
    ("kv heads", "bf16"): [EARLIER | {"hopper", "blackwell_rtx"}],  # FlashAttention; FlashInfer from B200 on
    ("kv heads", "fp8"): [EARLIER | {"blackwell_dc"}],  # FlashInfer; FlashAttention 3 on Hopper
    ("with sinks", "bf16"): [EARLIER | {"blackwell_rtx"}],  # Triton; FlashAttention 3 on Hopper
    ("latent", "bf16"): [EARLIER | {"blackwell_rtx"}],  # Triton; one of its own each on Hopper and B200
    ("latent", "fp8"): [frozenset({"ada", "blackwell_rtx"})],
}
"""Generations on which vLLM chooses the same kernels, by what is cached and in which precision."""

NVIDIA = EARLIER | {"volta", "turing", "hopper", "blackwell_dc", "blackwell_rtx"}
GAUDI = {"gaudi2", "gaudi3"}
HEAD_SIZES = {64, 128, 256}


@dataclass(frozen=True)
class Held:
    """What the model's layers hold of a sequence."""

    what: str  # as in ONE_BACKEND; "" where the pages name no kernels for it
    fewest_heads: int
    even: bool  # all layers have the same number of KV heads
    whole: bool  # latents, which every rank holds whole
    sliding: bool
    indexed: bool
    packed: bool  # one entry for several tokens
    states: bool  # recurrent


def held(card: ModelCard) -> Held:
    """What the layers of a model card hold."""
    mixers = card.mixers.values()
    caching = [m for m in mixers if isinstance(m, Attention | Mla)]
    heads = [m for m in caching if isinstance(m, Attention)]
    latents = len(caching) > len(heads)
    counts = {m.kv_heads for m in heads} | ({1} if latents else set())
    states = any(isinstance(m, LinearAttention | Mamba2) for m in mixers)
    indexed = any(m.indexer for m in caching)
    packed = any(m.compress for m in heads)
    what = ""
    if not (states or indexed or packed or (heads and latents)):
        what = "latent" if latents else "kv heads"
        if heads and not all(m.head_dim in HEAD_SIZES and m.v_head_dim is None for m in heads):
            what = ""
        elif "gpt-oss" in f"{card.name} {card.hf_id}":
            what = "with sinks"
    return Held(
        what=what,
        fewest_heads=min(counts, default=1),
        even=len(counts) < 2,
        whole=all(m.shared_kv for m in heads),
        sliding=any(m.window for m in caching),
        indexed=indexed,
        packed=packed,
        states=states,
    )


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with who hands caches to whom."""
    if case.card is None:
        return
    kept = held(case.card)
    refused = set()
    for index, replica in enumerate(case.plan.replicas):
        stated = replica.role in ("prefill", "decode") and not case.measured(replica)
        if stated and (reason := _role(replica, kept)):
            refused.add(replica.id)
            yield Violation("role_refused", f"replicas[{index}].role", f"{replica.engine}: {reason}")
    for number, route in enumerate(case.plan.routing):
        ends = [case.groups[name] for name in (route.prefill, route.decode) if name is not None]
        if len(ends) < 2 or any(end.id in refused or case.measured(end) for end in ends):
            continue
        if reason := _pair(case, ends[0], ends[1], kept):
            yield Violation("pair_refused", f"routing[{number}]", f"{ends[0].engine}: {reason}")


def _role(r: Replica, kept: Held) -> str | None:
    """Why no server of the group can have its role."""
    if r.engine == "llama.cpp":
        return "no servers that only prefill or only decode"
    if r.engine == "vllm":
        if r.cp > 1:
            return f"no cache divided by context ({r.cp}) is handed over"
        if r.pp > 1 and r.role == "decode":
            return f"decode servers of a pair are no pipeline, here of {r.pp} stages"
        if r.pp > 1 and (kept.states or kept.packed):
            return "states and packed caches are not handed over from a pipeline"
    if r.engine == "sglang" and r.role == "decode" and r.cp > 1:
        return f"decode servers have whole caches, not divided by context ({r.cp})"
    if r.engine == "trtllm":
        if not kept.even:
            return "layers with unlike numbers of KV heads are not handed over"
        if r.tp.bit_count() > 1:
            return f"tp {r.tp} is no power of two"
        if r.role == "prefill" and r.cp > 1:
            return f"prefill servers are not divided by context ({r.cp})"
    return None


def _pair(case: Case, prefill: Replica, decode: Replica, kept: Held) -> str | None:
    """Why the two cannot be a pair, each being allowed in its role."""
    if prefill.precision != decode.precision:
        return "two precisions, where one checkpoint and one cache are needed"
    reason = None
    if prefill.engine == "vllm" and prefill.pp > 1 and _generations(case, prefill) & {*GAUDI, "tpu"}:
        reason = f"no plugin of it pushes caches from a pipeline, here of {prefill.pp} stages"
    elif prefill.engine == "vllm":
        reason = _vllm(prefill, decode, kept, case)
    elif prefill.engine == "sglang":
        reason = _sglang(prefill, decode, kept)
    between = [(p, d) for p in _generations(case, prefill) for d in _generations(case, decode) if p != d]
    for pair in between if reason is None else []:
        if not _meet(prefill, decode, kept, pair):
            return f"no page of it says that {pair[0]} hands such caches to {pair[1]}"
    return reason


def _generations(case: Case, r: Replica) -> set[str]:
    return {case.classes[stage.node_class].device.generation for stage in r.stages}


def _meet(prefill: Replica, decode: Replica, kept: Held, pair: tuple[str, str]) -> bool:
    """Whether a page speaks for two different generations."""
    if prefill.engine == "trtllm":
        return not (kept.whole and "hopper" in pair)
    if prefill.engine != "vllm":
        return False
    if pair[1] in GAUDI and pair[0] in NVIDIA:
        plain = kept.what == "kv heads" and not kept.sliding and prefill.precision.kv == "bf16"
        return plain and prefill.tp == decode.tp and prefill.pp == 1
    families = ONE_BACKEND.get((kept.what, prefill.precision.kv), [])
    return any(set(pair) <= family for family in families)


def _vllm(prefill: Replica, decode: Replica, kept: Held, case: Case) -> str | None:
    tps = f"tp {prefill.tp} and {decode.tp}"
    if prefill.tp == decode.tp:
        return None
    if prefill.tp % decode.tp and decode.tp % prefill.tp:
        return f"{tps}: neither is a multiple of the other"
    if "tpu" in _generations(case, prefill):
        return f"{tps}: caches of TPUs go between like tp only"
    if kept.states:
        return f"{tps}: states go between like tp only"
    if not kept.whole:
        if kept.sliding and prefill.pp > 1:
            return f"{tps}: from a pipeline windows go between like tp only"
        if prefill.tp > max(decode.tp, kept.fewest_heads):
            return f"{tps}: {kept.fewest_heads} KV heads, repeated before, do not go to fewer ranks"
    return None


def _sglang(prefill: Replica, decode: Replica, kept: Held) -> str | None:
    if decode.pp > 1 and decode.pp != prefill.pp:
        return f"pp {decode.pp} after pp {prefill.pp}: it must be that or 1"
    if prefill.tp % decode.tp and decode.tp % prefill.tp:
        return f"tp {prefill.tp} and {decode.tp}: neither is a multiple of the other"
    if prefill.tp != decode.tp and not kept.whole and (kept.sliding or kept.indexed):
        return f"tp {prefill.tp} and {decode.tp}: windows and indexes go between like tp only"
    return None
