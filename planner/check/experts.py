"""Where experts are: every rank has its slots full, no expert is missing, and the fullest rank is as full as
the recorded loads make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from model_zoo.schema import MoeFfn
from planner.check.case import Case
from planner.check.violation import Violation
from planner.plans.schema import ExpertMap, Experts, Replica

CLOSE = 1e-6


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with `experts`."""
    told = case.plan.experts
    if told is None or case.card is None:
        return
    sparse = [layer.ffn.experts for layer in case.card.stack if isinstance(layer.ffn, MoeFfn)]
    shapes = [len(row) for row in told.tokens]
    if told.tokens and shapes != sparse:
        text = f"loads of {len(shapes)} layers, the model has {len(sparse)} with experts, of other sizes"
        yield Violation("expert_loads", "experts.tokens", text)
        return
    for at, entry in enumerate(told.replicas):
        where = f"experts.replicas[{at}]"
        group = case.groups.get(entry.replica)
        if group is None:
            yield Violation("expert_map", where, f"there is no group {entry.replica}")
            continue
        yield from _sizes(entry, group, sparse, where)
        if entry.placement == "map":
            yield from _map(told, entry, sparse, where)


def _sizes(entry: ExpertMap, group: Replica, sparse: list[int], where: str) -> Iterator[Violation]:
    """The entry speaks of the group as it is."""
    if (entry.ep, entry.redundant) != (group.ep, group.redundant_experts):
        own = f"ep {group.ep} and {group.redundant_experts} copies"
        text = f"ep {entry.ep} and {entry.redundant} copies, but {group.id} has {own}"
        yield Violation("expert_map", where, text)
    for experts in sorted(set(sparse)):
        needed = -(-(experts + entry.redundant) // entry.ep)
        if entry.slots_per_rank != needed:
            text = f"{entry.slots_per_rank} slots a rank, {experts} experts with copies fill {needed}"
            yield Violation("expert_map", f"{where}.slots_per_rank", text)


def _map(told: Experts, entry: ExpertMap, sparse: list[int], where: str) -> Iterator[Violation]:
    """Every layer: ranks and slots as stated, every expert there; the fullest rank as stated."""
    if len(entry.map) != len(sparse):
        text = f"a map of {len(entry.map)} layers, the model has {len(sparse)} with experts"
        yield Violation("expert_map", f"{where}.map", text)
        return
    for layer, (ranks, experts) in enumerate(zip(entry.map, sparse, strict=True)):
        place = f"{where}.map[{layer}]"
        if len(ranks) != entry.ep or any(len(held) != entry.slots_per_rank for held in ranks):
            text = f"not {entry.ep} ranks of {entry.slots_per_rank} slots"
            yield Violation("expert_map", place, text)
            return
        held = {expert for rank in ranks for expert in rank}
        if held != set(range(experts)):
            missing = sorted(set(range(experts)) - held)[:3] or sorted(held - set(range(experts)))[:3]
            text = f"experts {missing} are missing or unknown"
            yield Violation("expert_map", place, text)
            return
    if told.tokens:
        full = [fullest(ranks, tokens) for ranks, tokens in zip(entry.map, told.tokens, strict=True)]
        mean = sum(full) / len(full)
        if entry.hottest < mean * (1 - CLOSE):  # more where loads came in steps: each is judged alone
            text = f"stated as {entry.hottest:.4f} times the mean rank, the map makes it {mean:.4f}"
            yield Violation("expert_balance", f"{where}.hottest", text)
        if entry.bound is not None and entry.bound > mean * (1 + CLOSE):
            text = f"a bound of {entry.bound:.4f}, but the map reaches {mean:.4f}"
            yield Violation("expert_balance", f"{where}.bound", text)


def fullest(ranks: list[list[int]], tokens: list[float]) -> float:
    """Tokens of the fullest rank over the mean rank's; copies of an expert share its tokens equally.

    >>> fullest([[0, 1], [0, 2]], [8.0, 2.0, 4.0])
    1.1428571428571428
    """
    copies = Counter(expert for held in ranks for expert in held)
    load = [sum(tokens[expert] / copies[expert] for expert in held) for held in ranks]
    return max(load) * len(ranks) / sum(load)
