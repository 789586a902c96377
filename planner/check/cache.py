"""What a plan says of its cache in use: room a GPU, sequences that hold it, blocks half empty, who waits.

Little's law gives the sequences and what they hold; a normal law for the sum of what they hold gives the
chance that it exceeds the room. Under Poisson arrivals the number of sequences varies, too: by nothing at
least, by n / (1 - utilisation) at most (processor sharing: negative binomial, whose skewness counts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, sqrt
from statistics import NormalDist

from model_zoo.schema import ModelCard
from planner.check import idle_cache as kept
from planner.check import kv, queueing
from planner.check.case import Case, Load, gpus_of, rests
from planner.check.tier_node import cache_rooms
from planner.check.violation import FIGURE, MODEL, Violation, at_most, same
from planner.plans.schema import Cache, Replica, Stage

RESERVING = {"trtllm"}
"""Engines that hold room for the longest output from the start."""

BEYOND_WINDOWS = {"trtllm", "sglang"}
"""Engines whose layers with a window may hold room for the whole context."""

POINTS = 0.03
"""A chance may be off by so much: the normal law is one of large numbers."""

UNLIKE = 0.1
"""Room used may be more by so much: buckets differ in TPOT, and a plan states one."""

MANY = 20
"""Places from which on the normal law of what is held is good."""

MOST_BUSY = 0.9999
"""Utilisation at most: how many are inside at random arrivals varies with 1 / (1 - utilisation)."""

MOST_SKEWED = 1.5
"""Skewness beyond which one term of Edgeworth's series falls below zero near the mean: few sequences of a
server that is always busy."""

BURST = 3.0
"""Standard deviations of a Poisson number in flight that a batch may have beyond the mean."""

UNLIMITED_TOKENS = 1e12
"""Room stated for models whose state does not grow."""


def violations(case: Case) -> Iterator[Violation]:
    """Every statement about a cache that our own count contradicts."""
    if case.card is not None:
        yield from _batches(case, case.card)
    for index, replica in enumerate(case.plan.replicas):
        cache, where = replica.cache, f"replicas[{index}].cache"
        load = case.loads[replica.id]
        if cache is None or case.card is None or replica.role in ("chain", "prefill") or not load.decode_rps:
            continue
        yield from _room(replica, cache, where)
        yield from _sequences(replica, cache, load, where)
        rooms = [room for room in _rooms(case, case.card, replica) if room[1]]
        yield from _used(case, case.card, replica, cache, rooms, where)
        yield from _blocks(case, replica, cache, where)
        if replica.kv_tokens < UNLIMITED_TOKENS:
            yield from _chances(case, case.card, replica, cache, rooms, where)


ENDLESS_MS = 1e9
"""Where no limit holds an answer."""

Room = tuple[Sequence[Stage], float, float]
"""Stages whose caches share room; bytes of it in one replica, and the least that they may be."""


def _rooms(case: Case, card: ModelCard, replica: Replica) -> Iterator[Room]:
    """On the GPUs of each stage, and where layers lie beside them."""
    for part in replica.memory:
        room = replica.attn_dp * part.kv_bytes
        yield [replica.stages[part.stage]], room, room
    yield from cache_rooms(case, card, replica)


@dataclass(frozen=True)
class _Held:
    """What a decoding sequence holds at a random time where `stages` have their room: bytes, mean and
    variance; `most_bytes` where its engine reserves, or holds what lies beyond windows; `need_bytes` of a
    prompt when it enters, mean and variance."""

    mean_bytes: float
    variance: float
    most_bytes: float
    need_bytes: float
    need_variance: float

    @staticmethod
    def of(case: Case, card: ModelCard, replica: Replica, stages: Sequence[Stage], load: Load) -> _Held:
        def size(tokens: float, windows: bool = True) -> float:
            return sum(kv.sequence_bytes(card, replica, stage, tokens, windows) for stage in stages)

        reserved, need, needs, total = case.workload.max_osl or 0, 0.0, 0.0, 0.0
        mean = square = most = 0.0
        for bucket, rate in load.buckets:
            isl, weight = queueing.own_tokens(case, replica, bucket), rate * (bucket.osl - 1)
            start, middle, end = (size(isl + part * bucket.osl) for part in (0, 0.5, 1))
            held = max(bucket.osl, reserved) if replica.engine in RESERVING else 0.5 * bucket.osl
            longest = size(isl + held, windows=replica.engine not in BEYOND_WINDOWS)
            total, mean, most = total + weight, mean + weight * middle, most + weight * longest
            square += weight * (middle**2 + (end - start) ** 2 / 12)
            need += rate / load.rps * start
            needs += rate / load.rps * start**2
        mean, most = mean / total, most / total
        return _Held(
            mean, max(square / total - mean**2, 0.0), max(most, mean), need, max(needs - need**2, 0.0)
        )


def _batches(case: Case, card: ModelCard) -> Iterator[Violation]:
    """No more sequences in flight than the cache holds of the smallest requests that come, or, where that is
    more, than Little's law finds there with a burst on top: those beyond the cache wait.

    A plan states the times of all replicas of a role together, so Little's law speaks of these together:
    where it finds too many in one, it finds as many too few in others.
    """
    found = [
        (index, replica, _most_held(case, card, replica), _most_inside(case, replica))
        for index, replica in enumerate(case.plan.replicas)
        if replica.role != "chain" and not case.measured(replica)
    ]
    for index, replica, held, inside in found:
        beyond = replica.max_batch - max(held, inside)
        others = [(other, most) for _, other, _, most in found if other.role == replica.role]
        spare = sum(other.count * max(most - other.max_batch, 0.0) for other, most in others)
        if not at_most(replica.count * beyond, spare + MODEL * replica.count * replica.max_batch):
            text = f"{replica.max_batch:,} sequences at once, but the cache holds {held:,.0f} of the "
            text += f"smallest requests, and {inside:,.0f} come at most"
            yield Violation("batch_beyond_cache", f"replicas[{index}].max_batch", text)


def _most_held(case: Case, card: ModelCard, replica: Replica) -> float:
    """How many of the smallest requests that come here the fullest cache holds."""
    load = case.loads[replica.id]
    fullest = [
        room / least
        for stages, room, _ in _rooms(case, card, replica)
        if room and (least := _least_bytes(case, card, replica, stages, load)) > 0
    ]
    return min(fullest, default=inf)


def _most_inside(case: Case, replica: Replica) -> float:
    """Requests in flight on one replica by the plan's own times, with a burst on top; each rank's own is
    rounded up. Where nodes may be lost, after that, too, when answers may take as long as limits say."""
    predicted, slo = case.plan.predicted, case.workload.slo
    inside = [_inside(case, replica, predicted.ttft_ms.value, predicted.tpot_ms.value)]
    for _, rest in rests(case):
        if replica.id in rest.groups:
            limits = slo.ttft_ms or ENDLESS_MS, slo.tpot_ms or ENDLESS_MS
            inside.append(_inside(rest, rest.groups[replica.id], *limits))
    return max(inside)


def _inside(case: Case, replica: Replica, ttft_ms: float, tpot_ms: float) -> float:
    """Requests in flight on one replica at these times, of which its own phases count."""
    load = case.loads[replica.id]
    first_s = max(ttft_ms / 1e3, replica.step.prefill_s) if replica.role != "decode" else 0.0
    step_s = max(tpot_ms / 1e3, replica.token_s) if replica.role != "prefill" else 0.0
    inside = (load.rps * first_s + load.decode_tok_per_s * step_s) / replica.count
    return inside + BURST * sqrt(inside) + replica.attn_dp


def _least_bytes(case: Case, card: ModelCard, replica: Replica, stages: Sequence[Stage], load: Load) -> float:
    """Bytes that the smallest request of a group holds where `stages` have their room: halfway through its
    answer, or from the start where its engine reserves; on prefill servers its prompt."""
    sizes = []
    for bucket in dict(load.buckets) or case.workload.buckets:
        answer = bucket.osl / 2
        if replica.role == "prefill":
            answer = 0.0
        elif replica.engine in RESERVING:
            answer = max(bucket.osl, case.workload.max_osl or 0)
        tokens = queueing.own_tokens(case, replica, bucket) + answer
        sizes.append(sum(kv.sequence_bytes(card, replica, stage, tokens) for stage in stages))
    return min(sizes)


def _room(replica: Replica, cache: Cache, where: str) -> Iterator[Violation]:
    gpus = gpus_of(replica)
    if not same(cache.tokens_per_gpu * gpus, replica.kv_tokens, FIGURE):
        text = (
            f"{cache.tokens_per_gpu:,.0f} tokens on each of {gpus} GPUs, but {replica.kv_tokens:,.0f} in all"
        )
        yield Violation("cache_room_wrong", f"{where}.tokens_per_gpu", text)


def _sequences(replica: Replica, cache: Cache, load: Load, where: str) -> Iterator[Violation]:
    """Sequences that decode by Little's law hold room, and a batch holds them. Who waits for room may be
    among the former; a tenth may be the law's error in a small batch."""
    decoding = queueing.sequences(replica, load) / replica.count
    inside = decoding * (1 - cache.delayed)
    least = 0.9 * inside
    most = replica.max_batch
    if not (at_most(least, cache.sequences, MODEL) and at_most(cache.sequences, most, MODEL)):
        text = f"{cache.sequences:.4g} sequences, but by Little's law {least:.4g} at least, {most} at most"
        yield Violation("cache_sequences_wrong", f"{where}.sequences", text)


ROUGHLY = 2.0
"""Prompts come in bursts, wait for their turn, and fill whole blocks and at least a token each."""

NOTHING = 1e-4
"""Share of the room that nobody tells from none."""


def _used(
    case: Case, card: ModelCard, replica: Replica, cache: Cache, rooms: Sequence[Room], where: str
) -> Iterator[Violation]:
    """Room held, between what decoding sequences hold and that with all prompts in work and blocks that are
    not full."""
    load, low, high = case.loads[replica.id], 0.0, 0.0
    prompt_s = 2 * replica.step.prefill_s + case.plan.predicted.ttft_ms.value / 1e3
    rate = load.rps / replica.count * (replica.role == "mixed")
    for stages, most, least in rooms:
        held = _Held.of(case, card, replica, stages, load)
        low = max(low, cache.sequences * held.mean_bytes / most)
        both = cache.sequences * held.most_bytes + rate * prompt_s * held.need_bytes
        high = max(high, both / least / max(1 - cache.block_waste, 1e-9) if least > 0 else inf)
    if not (
        at_most(min(low, 1.0), max(cache.used, NOTHING), MODEL)
        and at_most(cache.used, max(ROUGHLY * high, NOTHING), UNLIKE)
    ):
        text = f"{cache.used:.4g} of the room, but {cache.sequences:.4g} sequences hold "
        yield Violation("cache_used_wrong", f"{where}.used", f"{text}{low:.4g} to {high:.4g}")


def _blocks(case: Case, replica: Replica, cache: Cache, where: str) -> Iterator[Violation]:
    """Half a block of each sequence is empty, between the longest bucket's and the shortest's, whose own
    tokens are whole ones."""
    empty, reserved = (cache.block_tokens - 1) / 2, case.workload.max_osl or 0
    own = [(queueing.own_tokens(case, replica, b), b.osl) for b in case.workload.buckets]
    least = empty / (max(max(isl, 1.0) + max(osl, reserved) for isl, osl in own) + empty)
    most = empty / (min(max(isl - 0.5, 0.0) + osl / 2 for isl, osl in own) + empty)
    if not (at_most(least, cache.block_waste, MODEL) and at_most(cache.block_waste, most, MODEL)):
        text = f"{cache.block_waste:.4g} of it, but half a block of {cache.block_tokens} tokens is "
        yield Violation("cache_blocks_wrong", f"{where}.block_waste", f"{text}{least:.4g} to {most:.4g}")


def _beyond(z: float, skew: float) -> float:
    """The chance that a sum is more than `z` standard deviations above its mean: normal, with the first term
    of what its skewness adds (Edgeworth 1905), as far as that is one."""
    skew = min(skew, MOST_SKEWED)
    tail = 1 - NormalDist().cdf(z) + skew / 6 * (z**2 - 1) * NormalDist().pdf(z)
    return min(max(tail, 0.0), 1.0)


def all_taken(places: int, load: float) -> float:
    """The chance that all of so many places are taken where `load` requests are served on average and the
    others wait (Erlang C): few places are far from normal.

    >>> round(all_taken(2, 1.0), 3)
    0.333
    """
    if load >= places:
        return 1.0
    lost = 1.0
    for taken in range(1, min(places, MANY) + 1):
        lost = load * lost / (taken + load * lost)
    return lost / (1 - load / places * (1 - lost)) if places <= MANY else 0.0


def _chances(
    case: Case, card: ModelCard, replica: Replica, cache: Cache, rooms: Sequence[Room], where: str
) -> Iterator[Violation]:
    """Who waits and who is preempted, as often as what is held exceeds the room: all that are inside, or the
    others and what one more needs. One that comes at random may meet as many as there are on average."""
    load, count = case.loads[replica.id], cache.sequences / replica.attn_dp
    busy = min(replica.utilisation, MOST_BUSY)
    chances = []
    for stages, most, least in rooms:
        held = _Held.of(case, card, replica, stages, load)
        swing = held.mean_bytes**2 / (1 - busy) if case.workload.loop == "open" else 0.0
        full = held.most_bytes / max(1 - cache.block_waste, 1e-9)
        prompts = max(cache.used * most - cache.sequences * held.mean_bytes, 0.0)
        begun = sum(kept.begun_bytes(case, card, replica, stage) for stage in stages)
        for each, room in product((held.mean_bytes, full), (most, least - prompts)):
            met = (max(count - 1, 0.0), count) if case.workload.loop == "open" else (max(count - 1, 0.0),)
            ways = [(others, held.need_bytes, held.need_variance) for others in met]
            for others, need, unsure in ((count, 0.0, 0.0), *ways):
                for more in (0.0, swing):
                    variance = held.variance + more
                    spread = sqrt(max(others * variance + unsure, 1e-9))
                    z = (room / replica.attn_dp - begun - others * each - need) / spread
                    skew = (
                        (1 + busy) / sqrt(max(others, 1.0) * (1 - busy)) * (more / max(variance, 1e-9)) ** 1.5
                    )
                    chances.append(_beyond(z, skew))
        if case.workload.loop == "open":
            left = (least, least - prompts)  # prompts in work hold room, too
            chances += [all_taken(int(room / replica.attn_dp / full), count) for room in left]
    low, high = min(chances, default=0.0), max(chances, default=1.0)
    if not low - POINTS <= cache.delayed <= high + POINTS:
        text = f"{cache.delayed:.3g} of requests wait, but {low:.3g} to {high:.3g} meet a full cache"
        yield Violation("cache_delayed_wrong", f"{where}.delayed", text)
    limit = 0.0 if replica.engine in RESERVING else high + POINTS
    if not at_most(cache.preempted, limit):
        text = f"{cache.preempted:.3g} of requests are preempted, but at most {limit:.3g} meet a full cache"
        yield Violation("cache_preempted_wrong", f"{where}.preempted", text)
