"""KV cache kept between requests: what is found follows from how long it is kept, what rests from Little's
law, and both have room and links.

Stated gaps are log-normal: F(T) = Φ((ln T - μ)/σ), and of the mean gap Φ((ln T - μ - σ²)/σ) lies below T, so
a block that is kept for T waits T (1 - F) + that much. Counted ones are spread evenly over each class of age.
Plans cut gaps into classes, so both are met within `CLASSES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, inf, log, log1p, sqrt
from statistics import NormalDist

from model_zoo.schema import ModelCard
from planner.check import kv
from planner.check.case import Case, gpus_of
from planner.check.violation import EXACT, FIGURE, GB, MODEL, Violation, at_most, same
from planner.inputs.reuse import Idle, Reuse
from planner.inputs.workload import Bucket
from planner.plans.schema import Kept, Replica, Stage

NORMAL = NormalDist()
CLASSES = 0.05
"""Relative error allowed for gaps in classes."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with what is kept."""
    for index, replica in enumerate(case.plan.replicas):
        if replica.kept is not None and case.card is not None:
            yield from _one(case, case.card, replica, replica.kept, f"replicas[{index}].kept")
    for number, part in enumerate(case.plan.tiers):
        group = case.groups.get(part.replica)
        if part.what != "cache":
            continue
        if group is None or group.kept is None or group.kept.place != part.tier:
            yield Violation(
                "kept_elsewhere", f"tiers[{number}]", f"{part.replica} keeps no cache in {part.tier}"
            )
        elif not same(part.bytes, group.kept.bytes, FIGURE):
            text = f"{part.bytes / GB:.4g} GB, {part.replica} keeps {group.kept.bytes / GB:.4g} GB"
            yield Violation("kept_elsewhere", f"tiers[{number}].bytes", text)


def _one(case: Case, card: ModelCard, replica: Replica, k: Kept, where: str) -> Iterator[Violation]:
    buckets = case.workload.buckets
    if len(k.found_tokens) != len(buckets) or replica.role == "decode":
        text = f"{len(k.found_tokens)} figures for {len(buckets)} buckets, of role {replica.role}"
        yield Violation("kept_shape", f"{where}.found_tokens", text)
        return
    for number, (stated, bucket) in enumerate(zip(k.found_tokens, buckets, strict=True)):
        own = found_tokens(case, number, k.keep_s)
        if not at_most(stated, min(own * (1 + CLASSES), bucket.isl) + 1.0, FIGURE):
            text = f"{stated:,.0f} tokens of a prompt found, {k.keep_s:.4g} s of keeping find {own:,.0f}"
            yield Violation("found_overstated", f"{where}.found_tokens[{number}]", text)
    load = case.loads[replica.id]
    prompt = sum(rate * b.isl for b, rate in load.buckets)
    met = sum(rate * k.found_tokens[_number(case, b)] for b, rate in load.buckets)
    if prompt and not same(k.hit, met / prompt, FIGURE):
        yield Violation("hit_wrong", f"{where}.hit", f"{k.hit:.4g}, found tokens give {met / prompt:.4g}")
    if not at_most(k.keep_s, k.lasts_s, MODEL):
        text = f"counted on for {k.keep_s:.4g} s, there is room for {k.lasts_s:.4g} s"
        yield Violation("kept_too_short", f"{where}.lasts_s", text)
    each = [_idle_bytes(case, card, replica, stage) * stage.gpus for stage in replica.stages]
    rests = sum(each) / _servers(replica)  # every GPU of a stage holds what is of its own rank
    if not at_most(rests, k.bytes, CLASSES):
        text = f"{k.bytes / GB:.4g} GB, by Little's law {rests / GB:.4g} GB rest"
        yield Violation("kept_understated", f"{where}.bytes", text)
    yield from _beside(case, card, replica, k, where)


def _beside(case: Case, card: ModelCard, replica: Replica, k: Kept, where: str) -> Iterator[Violation]:
    """Room and rates of the place, every GPU of its node taking its share."""
    if k.place == "hbm":
        return
    node = case.classes[replica.stages[0].node_class]
    whole = node.gpus_per_node / gpus_of(replica)
    times = {"gpu": node.gpus_per_node, "node": 1.0, "cluster": node.gpus_per_node / node.gpus}
    host, tiers = node.host, [t for t in node.tiers if t.kind == k.place]
    if k.place == "host":
        room = GB * (host.memory_gb or 0.0) if host else 0.0
        roots = -(-node.gpus_per_node // (host.gpus_per_pcie_root or 1)) if host else 0
        link = GB * roots * ((host.pcie_gb_per_s if host else None) or node.device.host_link[1])
    else:
        room = sum(GB * t.gb * times[t.shared_by] for t in tiers)
        link = sum(GB * t.read_gb_per_s * times[t.shared_by] for t in tiers)
    if not at_most(k.bytes * whole, room, EXACT):
        text = f"{k.bytes * whole / GB:.4g} GB on a node with {room / GB:.4g} GB of {k.place}"
        yield Violation("kept_over", f"{where}.bytes", text)
    load, loads = case.loads[replica.id], 0.0
    for b, rate in load.buckets:
        size = sum(s.gpus * _token_bytes(card, replica, s, b) for s in replica.stages)
        found = max(k.found_tokens[_number(case, b)] - begun_tokens(case), 0.0)
        loads += rate * found * size / _servers(replica)
    if not at_most(loads, GB * k.loads_gb_per_s, MODEL):
        text = f"{k.loads_gb_per_s:.4g} GB/s, what is found is {loads / GB:.4g} GB/s"
        yield Violation("loads_understated", f"{where}.loads_gb_per_s", text)
    if not at_most(GB * k.loads_gb_per_s * whole, link, MODEL):
        text = f"{k.loads_gb_per_s * whole:.4g} GB/s of a node over {link / GB:.4g} GB/s"
        yield Violation("loads_over", f"{where}.loads_gb_per_s", text)


def _number(case: Case, bucket: Bucket) -> int:
    return case.workload.buckets.index(bucket)


def _servers(replica: Replica) -> float:
    """Attention-dp ranks of the whole group."""
    return float(replica.count * replica.attn_dp)


def in_gpu_bytes(case: Case, card: ModelCard, replica: Replica, stage: Stage) -> float:
    """Bytes on one GPU of the stage of what is kept there, summed over replicas and attention-dp ranks."""
    idle = replica.kept is not None and replica.kept.place == "hbm"
    begun = _servers(replica) * begun_bytes(case, card, replica, stage)
    return begun + (_idle_bytes(case, card, replica, stage) if idle else 0.0)


def begun_bytes(case: Case, card: ModelCard, replica: Replica, stage: Stage) -> float:
    """Bytes on one GPU of the stage of beginnings that many prompts have."""
    if replica.kept is None:
        return 0.0
    return fixed_tokens(case) * min(_token_bytes(card, replica, stage, b) for b in case.workload.buckets)


def _idle_bytes(case: Case, card: ModelCard, replica: Replica, stage: Stage) -> float:
    """Bytes on one GPU of the stage of what rests between requests by Little's law, over all ranks."""
    assert replica.kept is not None
    total = 0.0
    for bucket, rate in case.loads[replica.id].buckets:
        seconds = token_seconds(case, _number(case, bucket), replica.kept.keep_s)
        total += rate * seconds * _token_bytes(card, replica, stage, bucket)
    return total


def _token_bytes(card: ModelCard, replica: Replica, stage: Stage, bucket: Bucket) -> float:
    """Bytes of a token on one GPU of the stage, in a whole context."""
    whole = bucket.isl + bucket.osl
    return kv.sequence_bytes(card, replica, stage, whole) / whole


def begun_tokens(case: Case) -> float:
    """Tokens of a prompt in beginnings that many have, on average."""
    return sum(r.share * r.tokens for r in case.workload.reuse if r.tokens is not None)


def fixed_tokens(case: Case) -> float:
    """Tokens of all such beginnings."""
    return float(sum(r.distinct * r.tokens for r in case.workload.reuse if r.tokens is not None))


def found_tokens(case: Case, number: int, keep_s: float) -> float:
    """Tokens of a prompt of a bucket that are found where blocks stay for `keep_s`."""
    if case.workload.idle is not None:
        idle = case.workload.idle
        return sum(h * part for h, part in zip(idle.hits[number], _parts(idle, keep_s), strict=True))
    begun, isl = begun_tokens(case), case.workload.buckets[number].isl
    ways = [r for r in case.workload.reuse if r.gap_s is not None]
    return begun + sum(
        r.share * r.again * max(r.part * isl - begun, 0.0) * _returned(r, keep_s)[0] for r in ways
    )


def token_seconds(case: Case, number: int, keep_s: float) -> float:
    """Token-seconds that a request of a bucket leaves behind, kept for `keep_s`."""
    if case.workload.idle is not None:
        return _counted(case.workload.idle, number, keep_s)
    begun, b = begun_tokens(case), case.workload.buckets[number]
    rested = max(b.isl - begun, 0.0) + b.osl
    total, left = 0.0, 1.0
    for r in case.workload.reuse:
        if r.gap_s is None:
            continue
        found, (share, waited) = max(r.part * b.isl - begun, 0.0), _returned(r, keep_s)
        once = r.again * waited + (1 - r.again * share) * keep_s
        total += r.share * (found * once + (rested - found) * keep_s)
        left -= r.share
    return total + max(left, 0.0) * rested * keep_s


def _returned(r: Reuse, keep_s: float) -> tuple[float, float]:
    """Share of what returns that does within `keep_s`, and its seconds until then, over all that returns."""
    assert r.gap_s is not None
    if keep_s <= 0:
        return 0.0, 0.0
    variance = log1p(r.gap_cv**2)
    if variance == 0:
        return (1.0, r.gap_s) if keep_s >= r.gap_s * (1 - MODEL) else (0.0, 0.0)
    mean, deviation = log(r.gap_s) - variance / 2, sqrt(variance)
    at = (log(keep_s) - mean) / deviation
    return NORMAL.cdf(at), exp(mean + variance / 2) * NORMAL.cdf(at - deviation)


def _parts(idle: Idle, keep_s: float) -> list[float]:
    """Share of each class of age below `keep_s`."""
    starts = [0.0, *idle.ages_s[:-1]]
    return [min(max((keep_s - a) / (b - a), 0.0), 1.0) for a, b in zip(starts, idle.ages_s, strict=True)]


def _counted(idle: Idle, number: int, keep_s: float) -> float:
    total = 0.0
    for kind in idle.kinds:
        if kind.bucket != number:
            continue
        waits, left, before = 0.0, 1.0, 0.0
        for end, back in zip([*idle.ages_s, inf], [*kind.back, 0.0], strict=True):
            span = min(keep_s, end) - before
            if span <= 0:
                break
            gone = back * span / (end - before) if end < inf else 0.0
            waits += span * (left - gone / 2)
            left, before = left - back, end
        total += kind.tokens * waits
    return total
