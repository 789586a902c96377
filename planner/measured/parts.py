"""The parts of a measured plan: replicas, routing, predictions, warnings, from table and solution alone; and
the nodes of replicas of any size, exact, as the fleet counted them.

`plans/placement.py` places sizes that divide one another; a table may name 3 GPUs beside 2. Then the fewest
nodes are a small cutting-stock program over the patterns of `solvers/packing.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate
from planner.designs.stages import stage_layers
from planner.measured.problem import Stated
from planner.plans import parts, placement, schema
from planner.plans.assemble import why_idle
from planner.plans.bands import WATTS_SIGMA, Totals, band
from planner.plans.found import Found
from planner.plans.placement import Placed
from planner.plans.predicted import idle
from planner.question.asked import Asked
from planner.reading.names import as_group_ids
from solvers.linear import Limits, Linear, total
from solvers.packing import divisible, patterns


@dataclass(frozen=True)
class Fleet:
    """All that the parts are made from."""

    asked: Asked
    stated: Stated
    found: Found
    placed: Placed

    @cached_property
    def nodes(self) -> dict[str, NodeClass]:
        return {n.id: n for n in self.asked.cluster.classes}

    @cached_property
    def running(self) -> list[tuple[Candidate, int]]:
        """Chosen candidates with their counts, those with most GPUs first."""
        of = self.found.candidates
        pairs = [(of[c], k) for c, k in self.found.solution.replicas.items()]
        return sorted(pairs, key=lambda pair: -pair[1] * pair[0].gpus)

    @property
    def used(self) -> dict[str, int]:
        """GPUs in replicas, by class."""
        return {g: sum(k * c.gpus for c, k in self.running if c.node_class == g) for g in self.nodes}

    @cached_property
    def ids(self) -> dict[str, str]:
        """Candidate -> the plan's id for it: the design's name, with its class where it runs on several."""
        labels = [c.label for c, _ in self.running]
        names = [
            c.label if labels.count(c.label) == 1 else f"{c.label}-{c.node_class}" for c, _ in self.running
        ]
        return dict(zip((c.id for c, _ in self.running), as_group_ids(names), strict=True))

    @cached_property
    def limits_s(self) -> tuple[float, float]:
        """TTFT and TPOT limits in seconds; 0 where there is none, and for answers of a single token."""
        slo, decodes = self.asked.workload.slo, any(b.osl > 1 for b in self.asked.workload.buckets)
        return (slo.ttft_ms or 0.0) / 1e3, (slo.tpot_ms or 0.0) / 1e3 * decodes

    def served(self, c: str) -> dict[str, float]:
        """Requests/s of each bucket at all replicas of the candidate."""
        return {w: rate for (d, w), rate in self.found.solution.flows.items() if d == c}

    def utilisation(self, c: Candidate, count: int) -> float:
        return sum(rate * c.use["busy"][w] for w, rate in self.served(c.id).items()) / count


def replicas(f: Fleet) -> list[schema.Replica]:
    """Replica groups in the Plan's form."""
    return [_replica(f, c, count) for c, count in f.running]


def _replica(f: Fleet, c: Candidate, count: int) -> schema.Replica:
    node, d = f.nodes[c.node_class], c.design
    layers = stage_layers(len(f.asked.card.stack), d.pp)
    return schema.Replica(
        id=f.ids[c.id],
        role=c.role,
        count=count,
        engine=c.engine,
        precision=parts.precision(f.stated.precisions),
        tp=d.tp,
        pp=d.pp,
        attn_dp=1,
        moe_tp=d.tp,
        ep=1,
        stages=[parts.stage(node, held, d.tp, layers[i]) for i, held in enumerate(f.placed.stages[c.id])],
        max_batch=_most_in_flight(f, c, count),
        kv_tokens=0.0,
        utilisation=f.utilisation(c, count),
        step=schema.Step(decode_s=0.0, prefill_s=0.0, engine_s=0.0),
        memory=[_unknown_memory(i, node) for i in range(d.pp)],
        watts=c.watts,
    )


def _unknown_memory(stage: int, node: NodeClass) -> schema.StageMemory:
    return schema.StageMemory(
        stage=stage,
        weights_bytes=0.0,
        kv_bytes=0.0,
        activation_bytes=0.0,
        reserve_bytes=0.0,
        capacity_bytes=node.device.memory_gb * 1e9,
    )


def _most_in_flight(f: Fleet, c: Candidate, count: int) -> int:
    """Requests in one replica by Little's law with latencies at their limits: the most at this load."""
    ttft_s, tpot_s = f.limits_s
    total = 0.0
    for w, rate in f.served(c.id).items():
        steps = f.asked.workload.buckets[int(w)].osl - 1
        total += rate * (
            (ttft_s if c.role != "decode" else 0.0) + (steps * tpot_s if c.role != "prefill" else 0.0)
        )
    return max(1, math.ceil(total / count - 1e-6))


def routing(f: Fleet) -> list[schema.Route]:
    """Shares of each bucket along each way; they add up to one."""
    return parts.routes(sorted(_ways(f), key=lambda way: (way.bucket, -way.rate)))


def _ways(f: Fleet) -> Iterator[parts.Way]:
    """Flows of groups follow their members' own."""
    s, columns = f.found.solution, f.found.problem.columns
    for (c, w), rate in s.flows.items():
        if columns[c].group is None:
            yield parts.Way(int(w), rate, f.ids[c])
    for (prefill, decode, w), rate in s.pair_flows.items():
        ends = [
            {c: flow for (c, v), flow in s.flows.items() if v == w and columns[c].group == group}
            for group in (prefill, decode)
        ]
        for p, sent in ends[0].items():
            for d, taken in ends[1].items():
                part = rate * sent / sum(ends[0].values()) * taken / sum(ends[1].values())
                if part > 1e-9 * rate:
                    yield parts.Way(int(w), part, f.ids[p], f.ids[d], part * f.stated.kv_bytes[w])


def predicted(f: Fleet) -> schema.Predicted:
    """Totals by the table, which names no errors: bands are points but for watts that it leaves out, and no
    chance is told that a limit is kept.

    Latencies: anywhere up to the limit that the table claims to keep; 0 where there is no limit.
    """
    w, rate = f.asked.workload, f.found.solution.rate
    out = rate * sum(share * b.osl for share, b in zip(w.shares, w.buckets, strict=True))
    prompts = rate * sum(share * b.isl for share, b in zip(w.shares, w.buckets, strict=True))
    watts = sum(count * c.watts for c, count in f.running) + idle(f.asked.cluster.classes, f.used)
    named = all(f.stated.watts_named(c.label) for c, _ in f.running)
    sigma = 0.0 if named else WATTS_SIGMA
    ttft, tpot = (schema.Band(value=x, low=0.0, high=x) for x in (1e3 * limit for limit in f.limits_s))
    used_share = band(max(f.utilisation(c, count) for c, count in f.running), 0.0)
    totals = Totals(rate, out, out + prompts, usd_per_hour(f), watts, watts_sigma=sigma)
    return totals.predicted(ttft, tpot, used_share)


def usd_per_hour(f: Fleet) -> float | None:
    """Whole nodes at the cluster's prices, replicas at the table's; None where a class in use has neither."""
    p = f.found.problem
    paid = [(p.stocks[g].price, k) for g, k in f.placed.used.items() if k]
    if any(price is None for price, _ in paid):
        return None
    own = sum(count * p.columns[c.id].price for c, count in f.running)
    return own + sum((price or 0.0) * k for price, k in paid)


def warnings(f: Fleet, path: str) -> list[schema.PlanWarning]:
    """What the plan rests on, and GPUs that stay idle."""
    text = (
        f"throughput comes from {path}, not from a prediction; TTFT and TPOT stand at their limits, which "
        "the table claims to keep; step times and memory are not known and stand as 0; tp and pp are read "
        "off the GPU count"
    )
    slo = f.asked.workload.slo
    unlimited = [name for name, limit in (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms)) if limit is None]
    if unlimited:
        text += f"; {' and '.join(unlimited)}: no limit, unknown, stands as 0"
    if any(c.role != "mixed" for c, _ in f.running):
        text += "; prompts' caches fit NICs and links, how long they travel is not in the table"
    if any(not f.stated.watts_named(c.label) for c, _ in f.running):
        text += "; watts are the TDP of the GPUs (or the power cap) where the table names none"
    return [schema.PlanWarning(code="measured_profile", message=text), *_idle(f)]


def _idle(f: Fleet) -> list[schema.PlanWarning]:
    def why(node: NodeClass, left: int) -> str:
        sizes = [c.gpus for c in f.stated.candidates if c.node_class == node.id]
        if not sizes:
            return "the table has no design for them that serves this workload"
        return why_idle(f.found, left, min(sizes), "replica of the table")

    return parts.idle(f.asked.cluster.classes, f.used, why)


def place(
    classes: Sequence[NodeClass], counts: Mapping[str, int], candidates: Mapping[str, Candidate]
) -> Placed:
    """Nodes for `counts` replicas of each candidate, as few as hold them."""
    stages: dict[str, Sequence[Sequence[int]]] = {}
    used: dict[str, int] = {}
    for node in classes:
        mine = {c: k for c, k in counts.items() if candidates[c].node_class == node.id}
        waiting: dict[int, list[str]] = {}
        for c, count in mine.items():
            if candidates[c].gpus <= node.gpus_per_node:
                waiting.setdefault(candidates[c].gpus, []).extend(repeat(c, count))
        odd = not divisible(sorted(waiting))
        contents = {node.id: _contents(node, waiting)} if odd else None
        one = placement.place([node], mine, candidates, contents=contents)
        stages |= one.stages
        used |= one.used
    return Placed(stages, used)


def _contents(node: NodeClass, waiting: Mapping[int, list[str]]) -> list[Counter[str]]:
    """What each node holds of the candidates that are `waiting`, by their GPUs, which are taken off."""
    contents = []
    for filling in fewest({size: len(of) for size, of in waiting.items()}, node.gpus_per_node):
        taken = (waiting[size].pop() for size, most in filling for _ in range(min(most, len(waiting[size]))))
        contents.append(Counter(taken))
    return contents


def fewest(items: Mapping[int, int], room: int) -> list[tuple[tuple[int, int], ...]]:
    """The fewest fillings ((size, most of it), ...) of `room` that hold `items` (size -> count).

    Where first-fit decreasing takes three nodes:

    >>> len(fewest({4: 1, 3: 2, 2: 3}, 8))
    2
    """
    m = Linear("placement")
    z = m.integers("z", list(patterns(sorted(items), room)))
    m.minimise(v * 1.0 for v in z.values())
    for size, count in items.items():
        m.add(
            "cover", size, total(v * float(dict(q)[size]) for q, v in z.items() if size in dict(q)) >= count
        )
    outcome = m.solve(Limits())
    return list(chain.from_iterable(repeat(q, k) for q, k in outcome.counts(z).items()))
