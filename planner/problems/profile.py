"""The user's own measurements (`--profile`) -> the numbers of `solvers/fleet`, in place of predictions.

A row says what one replica sustains of requests of some lengths alone, within the SLO. Replicas divide
their time between buckets, so a request/s of bucket w fills 1 / max_rps[w] of a replica and the mix is
linear. Rows of one design name are one replica; where two of them speak of a bucket, the narrower range
does. A prefill replica pairs with every decode replica of its own or a linked zone; the table does not say
what the transfer takes, so it counts as nothing.

Prices: of a class where some design names one, each replica pays its own, and a design without one pays its
share of the node; other classes pay whole nodes, as without a table. Watts: the design's, else the TDP of
its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from cluster_configs import devices
from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates.candidate import Candidate, Design
from planner.errors import Infeasible, InputError, squash
from planner.inputs.options import Budget
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Bucket, Workload
from planner.objectives import Objective
from planner.problems.fleet import stock
from solvers.fleet.types import Column, FleetProblem, Pair, Transfer

ENGINE = "measured"
"""What a measured replica's engine is called: the table does not say."""


def from_profile(
    rows: Sequence[ProfileRow],
    classes: Sequence[NodeClass],
    workload: Workload,
    objective: Objective,
    demand: float | None,
    budget: Budget,
    links: Sequence[ClusterLink] = (),
) -> tuple[FleetProblem, list[Candidate]]:
    """The fleet problem of measured designs on `classes`, and its columns as candidates.

    Rows of devices that the cluster lacks are passed over. Raises InputError for a device that nobody knows,
    Infeasible where a bucket of the workload is covered by no design that fits.
    """
    if objective.spends == "latency":
        raise InputError("a --profile table has no latencies to minimise", "--objective", "use cost or gpus")
    candidates = [
        _candidate(design, node, workload)
        for design in _designs(rows)
        for node in homes(design[0], classes, f"line {design[0].line}")
        if design[0].gpus <= node.gpus
    ]
    candidates = [c for c in candidates if c.use["busy"]]
    pairs = _pairs(candidates, classes, links)
    _check_covered(candidates, pairs, workload.buckets)
    priced = {c.node_class for c in candidates if c.price_usd_per_hour is not None}
    paid = {n.id: n for n in classes if n.id in priced}
    candidates = [_priced(c, paid.get(c.node_class)) for c in candidates]
    problem = FleetProblem(
        columns={c.id: _column(c, {n.id: n.zone for n in classes}) for c in candidates},
        stocks={n.id: replace(stock(n), price=0.0) if n.id in priced else stock(n) for n in classes},
        share={str(w): share for w, share in enumerate(workload.shares)},
        objective=objective.goal,
        demand=demand,
        pairs=pairs,
        budget={k: float(v) for k, v in budget.model_dump().items() if v is not None},
    )
    return problem, candidates


def _designs(rows: Sequence[ProfileRow]) -> list[list[ProfileRow]]:
    """Rows by design name, narrow ranges first; of equal ranges the lower rate."""
    designs: dict[str, list[ProfileRow]] = {}
    for row in rows:
        designs.setdefault(row.design, []).append(row)
    return [sorted(same, key=_width) for same in designs.values()]


def _width(row: ProfileRow) -> tuple[int, float]:
    return (row.isl_max - row.isl_min + 1) * (row.osl_max - row.osl_min + 1), row.max_rps


def homes(row: ProfileRow, classes: Sequence[NodeClass], where: str) -> list[NodeClass]:
    """Classes of the row's device, by its own names or the catalog's. InputError for one nobody knows."""
    wanted = squash(row.device)
    named = [n for n in classes if wanted in {squash(name) for name in (n.device.name, *n.device.also)}]
    if named:
        return named
    name = devices.find(row.device, f"{where}, column device").name
    return [n for n in classes if n.device.name == name]


def _busy(design: Sequence[ProfileRow], workload: Workload) -> dict[str, float]:
    """Share of a replica that one request/s of each bucket fills, by the first row that covers it.

    All buckets against all rows at once, (buckets, rows): a table of a hundred ranges is nothing special.
    """
    ranges = np.array([(r.isl_min, r.isl_max, r.osl_min, r.osl_max) for r in design])
    isl = np.array([[b.isl] for b in workload.buckets])
    osl = np.array([[b.osl] for b in workload.buckets])
    covers = (ranges[:, 0] <= isl) & (isl <= ranges[:, 1]) & (ranges[:, 2] <= osl) & (osl <= ranges[:, 3])
    rates = {w: design[row].max_rps for w, row in enumerate(covers.argmax(axis=1)) if covers[w, row]}
    return {str(w): 1.0 / rate for w, rate in rates.items() if rate > 0}


def _candidate(design: Sequence[ProfileRow], node: NodeClass, workload: Workload) -> Candidate:
    row = design[0]
    return Candidate(
        id=f"{row.design} on {node.id}",
        role=row.role,
        node_class=node.id,
        engine=ENGINE,
        design=Design(tp=row.gpus, moe_tp=row.gpus),
        gpus=row.gpus,
        use={"busy": _busy(design, workload)},
        watts=row.watts if row.watts is not None else row.gpus * node.device.tdp_watts,
        measured=True,
        price_usd_per_hour=row.price_usd_per_hour,
        label=row.design,
    )


def _priced(c: Candidate, node: NodeClass | None) -> Candidate:
    """`c` with a price of its own where its class is paid by the replica."""
    if node is None or c.price_usd_per_hour is not None:
        return c
    if node.price_usd_per_hour is None:
        raise InputError(
            f"design `{c.label}` has no price, others on `{node.id}` have one",
            "column price_usd_per_hour",
            "give every design of a device a price, or its nodes in the cluster file",
        )
    return replace(c, price_usd_per_hour=node.price_usd_per_hour * c.gpus / node.gpus_per_node)


def _column(c: Candidate, zone: dict[str, str]) -> Column:
    group = None if c.role == "mixed" else _group(c.role, zone[c.node_class])
    price = c.price_usd_per_hour or 0.0
    return Column(c.node_class, c.gpus, c.use, c.watts, group=group, price=price)


def _group(role: str, zone: str) -> str:
    return f"{role} {zone}"


def _pairs(
    candidates: Sequence[Candidate], classes: Sequence[NodeClass], links: Sequence[ClusterLink]
) -> dict[Pair, Transfer]:
    """Every zone's prefill pool with the decode pools of its own and of linked zones."""
    zone = {n.id: n.zone for n in classes}
    joined = {frozenset(link.between) for link in links}
    pairs: dict[Pair, Transfer] = {}
    for p, d in product(candidates, candidates):
        if (p.role, d.role) != ("prefill", "decode"):
            continue
        a, b = zone[p.node_class], zone[d.node_class]
        if a == b or frozenset((a, b)) in joined or frozenset((p.node_class, d.node_class)) in joined:
            for w in set(p.use["busy"]) & set(d.use["busy"]):
                pairs[_group("prefill", a), _group("decode", b), w] = Transfer(0.0, on_nic=False)
    return pairs


def _check_covered(
    candidates: Sequence[Candidate], pairs: dict[Pair, Transfer], buckets: Sequence[Bucket]
) -> None:
    """Raise Infeasible where nothing serves a bucket, and say which."""
    served = {w for c in candidates if c.role == "mixed" for w in c.use["busy"]} | {w for _, _, w in pairs}
    missing = [f"isl {b.isl} osl {b.osl}" for w, b in enumerate(buckets) if str(w) not in served]
    if missing:
        raise Infeasible(
            f"no design of the --profile table serves {', '.join(missing)} on this cluster",
            "--profile",
            "add a row whose isl and osl ranges hold it, for a device of the cluster "
            "(mixed, or prefill and decode)",
        )
