"""The servers that can be started on a cluster, and the loads that can be put on them.

Every design of usual size that fits the fewest nodes that any needs, at a grid of concurrencies: with the
workload's lengths, and for a workload of one length with shorter and longer ones, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model_zoo.derive import weight_bytes
from planner.candidates.ask import Ask
from planner.candidates.candidate import Design, Key
from planner.candidates.mix import Promise
from planner.candidates.setup import Made
from planner.designs.precision import precisions
from planner.engines import NAMES
from planner.inputs.workload import Workload
from planner.objectives import THROUGHPUT
from planner.predict.loads import Group, Places, Rows
from planner.predict.rows import Row, parse
from planner.question.asked import Asked
from planner.replicas import alike
from planner.replicas.kind import Space

CONCURRENCY = tuple(2**i for i in range(9))
"""Requests in flight on each server: up to what engines admit and capture graphs for by default."""

BUCKETS = 4
"""Of a workload that are looked at: those with the largest shares."""

TIMES = ((1.0, 1.0), (0.25, 1.0), (4.0, 1.0), (1.0, 0.25))
"""Prompts and answers measured for a workload of one length, in its own."""

SHORTEST = 64
"""Tokens of an answer that is shorter than the workload's: its TPOT is a mean of so many."""

START_S, LOAD_BYTES_PER_S = 120.0, 1e9
"""A server's start: compiling and capturing graphs, and reading its weights from local disks."""


@dataclass(frozen=True)
class Server:
    """One engine in one design on one class of nodes; `start_minutes`: until it answers."""

    group: Group
    design: Design
    start_minutes: float

    @property
    def nodes(self) -> int:
        """That it spans."""
        return -(-self.design.gpus // self.group.node_class.gpus_per_node)


@dataclass(frozen=True)
class Trial:
    """Requests alike on a server, `requests` always in flight; `share`: that the workload has of these, or
    0."""

    server: int
    isl: int
    osl: int
    prefix_hit: float
    share: float
    requests: int


def setups_of(asked: Asked) -> dict[Key, Made]:
    """Valid designs by class and engine, with the engine's own chunks."""
    o, w = asked.options, asked.workload
    engines = NAMES if o.engine == "any" else (o.engine,)
    used = precisions(asked.card, o.precision, o.kv_precision)
    ask = Ask(asked.card, used, engines, w, Promise.of(w.slo, "closed"), THROUGHPUT)
    space = Space(asked.cluster.classes, asked.cluster.links, ask, one_more=False)
    return {made.key: made for made in alike.made(Key().kind, space)}


def servers_of(setups: Iterable[Made]) -> list[Server]:
    """Those whose weights fit, on as few nodes as any needs."""
    found = []
    for s in (made.setup for made in setups):
        m, d = s.model, s.designs
        group = Group(m.card, m.node_class, m.engine, "mixed", m.precisions)
        start = (START_S + sum(weight_bytes(m.card).values()) / LOAD_BYTES_PER_S) / 60
        for i in np.flatnonzero(s.memory.kv_bytes > 0).tolist():
            tp, pp, dp, moe_tp, ep = (int(x[i]) for x in (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep))
            found.append(Server(group, Design(tp, pp, dp, moe_tp, ep), start))
    fewest = min((server.nodes for server in found), default=1)
    return [server for server in found if server.nodes == fewest]


def loads_of(workload: Workload, longest: int) -> list[Trial]:
    """What is measured and what matters, each as one request on no server yet."""
    by_share = sorted(zip(workload.buckets, workload.shares, strict=True), key=lambda pair: -pair[1])
    hit = workload.prefix_hit
    asked = [Trial(0, b.isl, b.osl, hit, share, 1) for b, share in by_share[:BUCKETS]]
    times = TIMES if len(asked) == 1 else TIMES[:1]
    lengths = {
        (max(round(x * t.isl), 1), max(round(y * t.osl), min(t.osl, SHORTEST))): 0.0
        for t in asked
        for x, y in times
    }
    lengths |= {(t.isl, t.osl): 0.0 if hit else t.share for t in asked}
    measured = [Trial(0, i, o, 0.0, share, 1) for (i, o), share in lengths.items() if i + o <= longest]
    return [*measured, *(asked if hit else [])]


def trials_of(index: int, server: Server, loads: Sequence[Trial]) -> list[Trial]:
    """The loads on a server, number `index`, at every concurrency that its KV cache holds at once."""
    ranks = server.design.attn_dp
    trials = [replace(load, server=index, requests=ranks * c) for load in loads for c in CONCURRENCY]
    group = server.group
    load = Rows.of(group, [row_of(server, trial) for trial in trials])
    fits = load.sequences <= Places.of(group.cost(), load, group.token_budget).sequences
    return [trial for trial, fit in zip(trials, fits.tolist(), strict=True) if fit]


def row_of(server: Server, trial: Trial) -> Row:
    """The trial as a row of the `predict` table."""
    group = server.group
    cells = {"model": group.card.name, "device": group.node_class.device.name, "engine": group.engine}
    sizes = server.design.sizes | {"isl": trial.isl, "osl": trial.osl, "concurrency": trial.requests}
    cells |= {name: str(value) for name, value in sizes.items()} | {"prefix_hit": str(trial.prefix_hit)}
    return parse(cells)
