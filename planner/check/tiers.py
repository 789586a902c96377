"""Weights beside the GPUs: each lies in one place, where its engine can use it, with the bytes it has. The
nodes' room and reading times for it are in `tier_node`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from model_zoo.schema import ModelCard, MoeFfn
from planner.check import weights
from planner.check.case import Case
from planner.check.memory import GENEROUS
from planner.check.tier_node import MEMORY, Beside, numbers, sites
from planner.check.violation import EXACT, GB, MODEL, Violation, at_most
from planner.plans.schema import Replica, Tiered

OVER_NODES = ("llama.cpp",)
"""Engines whose replicas use the host memory of several nodes."""

ENGINES = ("llama.cpp", "sglang")
"""Engines that compute with weights in host memory."""

STREAMING = ("vllm",)
"""Engines that copy weights from host memory to the GPUs in every step, and compute there."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with what lies beside the GPUs."""
    for number, part in enumerate(case.plan.tiers):
        where = f"tiers[{number}]"
        if part.what == "cache":  # `kept` has its rules
            continue
        if part.replica not in case.groups:
            yield Violation("unknown_replica", f"{where}.replica", f"there is no group {part.replica}")
        elif case.card is not None:
            yield from _size(case.card, case.groups[part.replica], part, where)
    for index, replica in enumerate(case.plan.replicas):
        mine = [p for p in case.plan.tiers if p.replica == replica.id and p.what != "cache"]
        inside = case.card is not None and all(_inside(case.card, part) for part in mine)
        if mine and case.card is not None and inside and weights.known(replica.precision):
            where = f"replicas[{index}]"
            yield from _engine(replica, mine, where)
            yield from _behind(case, replica, mine, where)
            for stages in sites(replica):
                node = Beside(case, case.card, replica, mine, stages)
                yield from _once(node, where) if node.serves else ()
                yield from node.violations(where)


def _size(card: ModelCard, replica: Replica, part: Tiered, where: str) -> Iterator[Violation]:
    """Layers of the model, and bytes that such weights take."""
    if not _inside(card, part):
        text = f"{part.layers}, {card.name} has {len(card.stack)}"
        yield Violation("layers_outside", f"{where}.layers", text)
        return
    span, split = weights.Span(), weights.WHOLE
    if part.what == "weights":  # each GPU copies its own shard
        split = weights.Split(replica.tp, replica.tp, replica.tp)
    for layer in (card.stack[i] for i in numbers(part)):
        size = weights.layer_bytes(card, replica.precision, layer, split)
        rest = size.attention + size.dense + size.other
        parts = {"experts": size.experts, "layers": rest, "weights": size.total}[part.what]
        span += parts.times(weights.Span(split.tp, split.tp))
    low, high = part.share * span.low * (1 - MODEL), part.share * span.high * GENEROUS
    if not low <= part.bytes <= high + 1:
        text = f"{part.bytes / GB:.4g} GB stated, such weights take {low / GB:.4g} to {high / GB:.4g} GB"
        yield Violation("tier_bytes_wrong", f"{where}.bytes", text)


def _inside(card: ModelCard, part: Tiered) -> bool:
    return all(0 <= first < end <= len(card.stack) for first, end in part.layers)


def _engine(replica: Replica, parts: list[Tiered], where: str) -> Iterator[Violation]:
    """Engines that keep weights there so, over several nodes only one."""
    streams = {part.what == "weights" for part in parts}
    if streams != {replica.engine in STREAMING} or replica.engine not in ENGINES + STREAMING:
        text = f"{replica.engine} does not keep weights in host memory so"
        yield Violation("tier_engine", f"{where}.engine", text)
    if len(sites(replica)) > 1 and replica.engine not in OVER_NODES:
        text = f"a replica of {replica.engine} with weights in host memory stands in one node"
        yield Violation("tier_nodes", where, text)


def _behind(case: Case, replica: Replica, parts: list[Tiered], where: str) -> Iterator[Violation]:
    """What lies behind a stage in its node's memory: layers that follow its own, computed there."""
    after = case.away(replica).after
    for part in parts:
        if part.stage is None:
            continue
        if not 0 <= part.stage < len(replica.stages):
            yield Violation("tier_layers", where, f"there is no stage {part.stage}")
            continue
        end = replica.stages[part.stage].layers[1]
        inside = all(end <= a < b <= end + after.get(part.stage, 0) for a, b in part.layers)
        if not inside or part.tier not in MEMORY or part.way != "cpu" or part.what == "weights":
            text = f"{part.what} of {part.layers} do not lie right behind stage {part.stage} on its CPU"
            yield Violation("tier_layers", where, text)


def _once(node: Beside, where: str) -> Iterator[Violation]:
    """No expert in two places; layers in host memory whole, from the first one on, with their experts."""
    away = node.case.away(node.replica)
    for layer, share in away.experts.items():
        if not at_most(share, 1.0, EXACT):
            text = f"{share:.4g} of the experts of layer {layer} lie beside the GPUs"
            yield Violation("tier_twice", where, text)
            return
    moe = {i for i, layer in enumerate(node.card.stack) if isinstance(layer.ffn, MoeFfn)}
    if strangers := away.experts.keys() - moe:
        text = f"layer {min(strangers)} has no routed experts"
        yield Violation("tier_no_experts", where, text)
    yield from _streamed(node, where)
    whole: dict[int, float] = dict.fromkeys(range(away.layers), 0.0)
    for part in node.every:
        for i in numbers(part) if part.what == "layers" else ():
            whole[i] = whole.get(i, 0.0) + part.share
    split = [i for i, share in whole.items() if not _whole(share)]
    lone = [i for i in whole if i in moe and not _whole(away.experts.get(i, 0.0))]
    if split or lone:
        text = f"layer {(split or lone)[0]} lies in host memory, but not once and whole"
        yield Violation("tier_layers", where, text)


def _streamed(node: Beside, where: str) -> Iterator[Violation]:
    """Streamed layers once, whole, copied from host memory: the last so many of every so many."""
    mine = [part for part in node.parts if part.what == "weights"]
    if not mine:
        return
    shares: dict[int, float] = defaultdict(float)
    for part in mine:
        for i in numbers(part):
            shares[i] += part.share
    first, group = min((r for part in mine for r in part.layers), default=(0, 1))
    spread = [i for i in range(len(node.card.stack)) if i % group >= first]
    copied = all(part.tier in MEMORY and part.way == "pcie" for part in mine)
    if sorted(shares) != spread or not copied or not all(map(_whole, shares.values())):
        text = "streamed layers are the last so many of every so many: once, whole, copied from the host"
        yield Violation("tier_layers", where, text)


def _whole(share: float) -> bool:
    return abs(share - 1) <= EXACT
