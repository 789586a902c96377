"""Figures that follow from one another: tokens from requests, money from nodes, joules from watts; bands in
order."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.schema import NodeClass
from planner.check import measured, packing
from planner.check.case import Case, gpus_of
from planner.check.violation import FIGURE, MODEL, Violation, at_most, same
from planner.plans.schema import Band

SECONDS_PER_HOUR = 3600.0
HOST_WATTS_FACTOR = 2.0
"""Watts of a replica may include its share of the host: at most as much again as the GPUs."""

LEAST_IDLE = 0.04
"""Share of its limit that a GPU in no replica draws at least, and so must be counted with: so little do cards
for desktops, others two to five times as much."""

MOST_IDLE = 0.5
"""And at most: more is a replica's."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything that does not add up."""
    yield from _bands(case)
    yield from _sure(case)
    yield from _tokens(case)
    yield from _money(case)
    yield from _power(case)


def _bands(case: Case) -> Iterator[Violation]:
    """low <= value <= high."""
    for name, band in case.plan.predicted:
        if isinstance(band, Band) and not (at_most(band.low, band.value) and at_most(band.value, band.high)):
            text = f"{band.low:g} <= {band.value:g} <= {band.high:g} does not hold"
            yield Violation("band_order", f"predicted.{name}", text)


def _sure(case: Case) -> Iterator[Violation]:
    """What follows from the rate is no surer than that; what each token takes is little where it is high."""
    predicted = case.plan.predicted
    rate, joules = predicted.rps, predicted.joules_per_tok
    for name, band, by, inverse in (
        ("out_tok_per_s", predicted.out_tok_per_s, rate, False),
        ("total_tok_per_s", predicted.total_tok_per_s, rate, False),
        ("usd_per_mtok", predicted.usd_per_mtok, rate, True),
        ("joules_per_tok", joules, rate, True),
        ("joules_per_tok", joules, predicted.watts, False),
    ):
        if band is None or not min(by.low, band.value):
            continue
        ends = (by.value / by.high, by.value / by.low) if inverse else (by.low / by.value, by.high / by.value)
        low, high = (end * band.value for end in ends)
        if not (at_most(band.low, low, MODEL) and at_most(high, band.high, MODEL)):
            text = f"{band.low:.6g} to {band.high:.6g}, what it follows from gives {low:.6g} to {high:.6g}"
            yield Violation("band_narrow", f"predicted.{name}", text)


def _tokens(case: Case) -> Iterator[Violation]:
    """Tokens/s = requests/s x mean tokens a request."""
    osl, predicted = case.mean(lambda b: b.osl), case.plan.predicted
    isl = case.mean(lambda b: b.isl)
    for name, stated, own in (
        ("out_tok_per_s", predicted.out_tok_per_s.value, case.rps * osl),
        ("total_tok_per_s", predicted.total_tok_per_s.value, case.rps * (isl + osl)),
    ):
        if not same(stated, own, FIGURE):
            text = f"{stated:.6g} tok/s, but {case.rps:.6g} req/s make {own:.6g}"
            yield Violation("totals", f"predicted.{name}", text)


def least_usd_per_hour(case: Case) -> float | None:
    """Price of the nodes that the plan needs at least, of parts of one node once; None where one has none.

    Replicas of a class that the user's table prices are paid one by one.
    """
    total = 0.0
    boxes: dict[str, float] = {}
    for node_class in case.cluster.classes:
        if (own := measured.usd_per_hour(case, node_class)) is not None:
            total += own
            continue
        nodes = packing.nodes_used(case, node_class)
        if nodes and node_class.price_usd_per_hour is None:
            return None
        price = nodes * (node_class.price_usd_per_hour or 0.0)
        if node_class.box is None:
            total += price
        else:
            boxes[node_class.box] = max(boxes.get(node_class.box, 0.0), price)
    return total + sum(boxes.values())


def most_usd_per_hour(case: Case) -> float | None:
    """Price of all nodes that replicas are said to stand on, no more than one for each of their GPUs; None
    where one has no price."""
    total = 0.0
    for node_class in case.cluster.classes:
        if (own := measured.usd_per_hour(case, node_class)) is not None:
            total += own
            continue
        stages = [(r.count, s) for r in case.plan.replicas for s in r.stages if s.node_class == node_class.id]
        named = {name for _, stage in stages for name in stage.nodes}
        nodes = min(sum(count * stage.gpus for count, stage in stages), len(named) or node_class.node_count)
        if nodes and node_class.price_usd_per_hour is None:
            return None
        total += nodes * (node_class.price_usd_per_hour or 0.0)
    return total


def _money(case: Case) -> Iterator[Violation]:
    """Whole nodes are paid for; a million output tokens cost what an hour costs, by the tokens of an hour."""
    predicted = case.plan.predicted
    hour, least = predicted.usd_per_hour, least_usd_per_hour(case)
    if hour is None:
        return
    if least is not None and not at_most(least, hour.value, FIGURE):
        text = f"{hour.value:.4f} USD/h, its nodes cost at least {least:.4f}"
        yield Violation("cost_understated", "predicted.usd_per_hour", text)
    most = most_usd_per_hour(case)
    if most is not None and not at_most(hour.value, most, FIGURE):
        text = f"{hour.value:.4f} USD/h, all nodes that its replicas could be on cost {most:.4f}"
        yield Violation("cost_overstated", "predicted.usd_per_hour", text)
    if predicted.usd_per_mtok is not None and predicted.out_tok_per_s.value:
        own = hour.value / SECONDS_PER_HOUR / predicted.out_tok_per_s.value * 1e6
        if not same(predicted.usd_per_mtok.value, own, FIGURE):
            text = f"{predicted.usd_per_mtok.value:.5g}, but the hour and its tokens give {own:.5g}"
            yield Violation("totals", "predicted.usd_per_mtok", text)


def _power(case: Case) -> Iterator[Violation]:
    """Watts are at least those of replicas and idle GPUs, no replica takes more than its GPUs may; joules are
    watts / tokens/s."""
    predicted = case.plan.predicted
    own = sum(replica.count * replica.watts for replica in case.plan.replicas)
    unused = sum(c.device.tdp_watts * (c.gpus - used(case, c)) for c in case.cluster.classes)
    rest, most_idle = (max(share * unused, 0.0) for share in (LEAST_IDLE, MOST_IDLE))
    if not at_most(own + rest, predicted.watts.value, FIGURE):
        text = f"{predicted.watts.value:.6g} W, its replicas take {own:.6g} W, idle GPUs {rest:.4g} W or more"
        yield Violation("watts_understated", "predicted.watts", text)
    if not at_most(predicted.watts.value, own + most_idle, MODEL):
        parts = f"its replicas take {own:.6g} W, idle GPUs {most_idle:.4g} W at most"
        text = f"{predicted.watts.value:.6g} W, {parts}"
        yield Violation("watts_overstated", "predicted.watts", text)
    for index, replica in enumerate(case.plan.replicas):
        classes = [(case.classes.get(stage.node_class), stage.gpus) for stage in replica.stages]
        most = sum(node_class.device.tdp_watts * gpus for node_class, gpus in classes if node_class)
        if not case.measured(replica) and not at_most(replica.watts, HOST_WATTS_FACTOR * most, MODEL):
            text = f"{replica.watts:.5g} W on GPUs of {most:.5g} W together"
            yield Violation("watts_over", f"replicas[{index}].watts", text)
    if tokens := predicted.out_tok_per_s.value:
        joules = predicted.watts.value / tokens
        if not same(predicted.joules_per_tok.value, joules, FIGURE):
            text = f"{predicted.joules_per_tok.value:.5g}, but watts over tokens/s give {joules:.5g}"
            yield Violation("totals", "predicted.joules_per_tok", text)


def idle(case: Case) -> Iterator[Violation]:
    """Idle GPUs of each class against the `idle_gpus` warnings: all where throughput is the goal, else those
    that are told of."""
    for node_class in case.cluster.classes:
        idle = node_class.gpus - used(case, node_class)
        own = [w for w in case.plan.warnings if (w.code, w.node_class) == ("idle_gpus", node_class.id)]
        told = sum(w.count or 0 for w in own if w.reason)
        if idle != told and (own or case.goal == "throughput"):
            text = f"{idle} of {node_class.gpus} GPUs are idle, warnings with a reason speak of {told}"
            yield Violation("idle_not_told", f"class {node_class.id}", text)


def used(case: Case, node_class: NodeClass) -> int:
    """GPUs of the class that replicas take."""
    return sum(replica.count * gpus_of(replica, node_class.id) for replica in case.plan.replicas)
