"""What a plan says of its cache in use: room a GPU, sequences that hold it, blocks half empty, who waits.

Little's law gives the sequences and what they hold; a normal law for the sum of what they hold gives the
chance that it exceeds the room. Under Poisson arrivals the number of sequences varies, too: by nothing at
least, by n / (1 - utilisation) at most (processor sharing).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist

from model_zoo.schema import ModelCard
from planner.check import kept, kv, queueing
from planner.check.case import Case, Load
from planner.check.tiers import cache_rooms
from planner.check.violation import FIGURE, MODEL, Violation, at_most, same
from planner.plans.schema import Cache, Replica

RESERVING = {"trtllm"}
"""Engines that hold room for the longest output from the start."""

POINTS = 0.03
"""A chance may be off by so much: the normal law is one of large numbers."""

MOST_BUSY = 0.99

UNLIMITED_TOKENS = 1e12
"""Room stated for models whose state does not grow."""


def violations(case: Case) -> Iterator[Violation]:
    """Every statement about a cache that our own count contradicts."""
    for index, replica in enumerate(case.plan.replicas):
        cache, where = replica.cache, f"replicas[{index}].cache"
        load = case.loads[replica.id]
        if cache is None or case.card is None or replica.role in ("chain", "prefill") or not load.decode_rps:
            continue
        yield from _room(replica, cache, where)
        yield from _sequences(replica, cache, load, where)
        held = _Held.of(case, replica, load)
        yield from _used(case, case.card, replica, cache, held, where)
        yield from _blocks(cache, held, where)
        if replica.kv_tokens < UNLIMITED_TOKENS:
            yield from _chances(case, replica, cache, held, where)


@dataclass(frozen=True)
class _Held:
    """Tokens that a decoding sequence holds at a random time: mean and variance, and `most` where its engine
    reserves."""

    mean: float
    variance: float
    most: float

    @staticmethod
    def of(case: Case, replica: Replica, load: Load) -> _Held:
        reserved = case.workload.max_osl or 0
        rows = [
            (rate * (b.osl - 1), queueing.own_tokens(case, replica, b), b.osl)
            for b, rate in load.buckets
            if b.osl > 1
        ]
        total = sum(weight for weight, _, _ in rows)
        mean = sum(w * (isl + osl / 2) for w, isl, osl in rows) / total
        square = sum(w * ((isl + osl / 2) ** 2 + osl**2 / 12) for w, isl, osl in rows) / total
        whole = sum(w * (isl + max(osl, reserved)) for w, isl, osl in rows) / total
        return _Held(mean, max(square - mean**2, 0.0), whole if replica.engine in RESERVING else mean)


def _room(replica: Replica, cache: Cache, where: str) -> Iterator[Violation]:
    gpus = sum(stage.gpus for stage in replica.stages)
    if not same(cache.tokens_per_gpu * gpus, replica.kv_tokens, FIGURE):
        text = (
            f"{cache.tokens_per_gpu:,.0f} tokens on each of {gpus} GPUs, but {replica.kv_tokens:,.0f} in all"
        )
        yield Violation("cache_room_wrong", f"{where}.tokens_per_gpu", text)


def _sequences(replica: Replica, cache: Cache, load: Load, where: str) -> Iterator[Violation]:
    """Those that decode by Little's law hold room, and a batch holds them. Who waits for room may be among
    the former; a tenth may be the law's error in a small batch."""
    decoding = queueing.sequences(replica, load) / replica.count
    inside = decoding * (1 - cache.delayed)
    least = 0.9 * inside
    most = replica.max_batch
    if not (at_most(least, cache.sequences, MODEL) and at_most(cache.sequences, most, MODEL)):
        text = f"{cache.sequences:.4g} sequences, but by Little's law {least:.4g} at least, {most} at most"
        yield Violation("cache_sequences_wrong", f"{where}.sequences", text)


def _used(
    case: Case, card: ModelCard, replica: Replica, cache: Cache, held: _Held, where: str
) -> Iterator[Violation]:
    """Room held, between what decoding sequences hold and that with all prompts in work and blocks that are
    not full."""
    load, low, high = case.loads[replica.id], 0.0, 0.0
    prompt_s = 2 * replica.step.prefill_s + case.plan.predicted.ttft_ms.value / 1e3
    rate = load.rps / replica.count * (replica.role == "mixed")
    rooms = [
        ([replica.stages[part.stage]], replica.attn_dp * part.kv_bytes, replica.attn_dp * part.kv_bytes)
        for part in replica.memory
    ]
    for stages, most, least in [*rooms, *cache_rooms(case, card, replica)]:
        if not most:
            continue
        decoding, prompts = (
            many * sum(kv.sequence_bytes(card, replica, stage, tokens) for stage in stages)
            for many, tokens in ((cache.sequences, held.mean), (rate * prompt_s, load.prompt))
        )
        low = max(low, decoding / most)
        both = decoding * held.most / held.mean + prompts
        high = max(high, both / least / max(1 - cache.block_waste, 1e-9) if least > 0 else inf)
    if not (at_most(min(low, 1.0), cache.used, MODEL) and at_most(cache.used, high, MODEL)):
        text = (
            f"{cache.used:.4g} of the room, but {cache.sequences:.4g} sequences hold {low:.4g} to {high:.4g}"
        )
        yield Violation("cache_used_wrong", f"{where}.used", text)


def _blocks(cache: Cache, held: _Held, where: str) -> Iterator[Violation]:
    """Half a block of each sequence is empty."""
    empty = (cache.block_tokens - 1) / 2
    least, most = empty / (held.most + empty), empty / (held.mean + empty)
    if not (at_most(least, cache.block_waste, MODEL) and at_most(cache.block_waste, most, MODEL)):
        text = f"{cache.block_waste:.4g} of it, but half a block of {cache.block_tokens} tokens is {most:.4g}"
        yield Violation("cache_blocks_wrong", f"{where}.block_waste", text)


def _chances(case: Case, replica: Replica, cache: Cache, held: _Held, where: str) -> Iterator[Violation]:
    """Who waits and who is preempted, as often as what is held exceeds the room."""
    begun = kept.fixed_tokens(case) if replica.kept is not None else 0.0
    room = replica.kv_tokens / replica.attn_dp - begun
    count = cache.sequences / replica.attn_dp
    busy = min(replica.utilisation, MOST_BUSY) if case.workload.rate_rps else 0.0
    swing = held.mean**2 / (1 - busy) if case.workload.rate_rps else 0.0
    narrow, wide = (sqrt(max(count * v, 1e-9)) for v in (held.variance, held.variance + swing))
    chances = [
        1 - NormalDist().cdf((room - count * tokens) / spread)
        for tokens in (held.mean, held.most / max(1 - cache.block_waste, 1e-9))
        for spread in (narrow, wide)
    ]
    low, high = min(chances), max(chances)
    if not low - POINTS <= cache.delayed <= high + POINTS:
        text = f"{cache.delayed:.3g} of requests wait, but {low:.3g} to {high:.3g} meet a full cache"
        yield Violation("cache_delayed_wrong", f"{where}.delayed", text)
    most = 0.0 if replica.engine in RESERVING else high + POINTS
    if not at_most(cache.preempted, most):
        text = f"{cache.preempted:.3g} of requests are preempted, but at most {most:.3g} meet a full cache"
        yield Violation("cache_preempted_wrong", f"{where}.preempted", text)
