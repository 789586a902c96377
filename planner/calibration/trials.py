"""The servers that a plan may use on a cluster, under many loads: what can be measured, and what matters.

Every design of usual size that fits the fewest nodes that any needs, at a grid of concurrencies: with the
workload's lengths, and for a workload of one length with shorter and longer prompts, too. All are measured
without a prefix cache; what matters is how the workload itself runs, by the odds that a plan chooses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr

from model_zoo.derive import weight_bytes
from planner.asked import Asked
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit, Noise, Spread
from planner.candidates.candidate import Design
from planner.candidates.generate import ENGINES, Ask, Pool, serving, setup
from planner.candidates.points import Promise, Setup
from planner.cost.calibration import shipped
from planner.cost.model import CostModel
from planner.cost.precision import precisions
from planner.cost.shape import Floats, Ints
from planner.explain.infeasible import does_not_fit
from planner.inputs.workload import Slo, Workload
from planner.loads import Group, Load, Places
from planner.rows import Row, parse

CONCURRENCY = tuple(2**i for i in range(9))
"""Requests in flight on each server: up to what engines admit and capture graphs for by default. Every other
one is measured, as neighbours tell the same."""

BUCKETS = 4
"""Of a workload that are looked at: those with the largest shares."""

TIMES = ((1.0, 1.0), (0.25, 1.0), (4.0, 1.0), (1.0, 0.25))
"""Prompts and answers measured for a workload of one length, in its own."""

SHORTEST = 64
"""Tokens of an answer that is shorter than the workload's: its TPOT is a mean of so many."""

ROUNDS, REQUESTS, STEADY_S = 5, 16, 30.0
"""What a run takes at least: requests a slot and in all, and seconds; the crowd at its start then counts
little."""

CLIENT_S = 20.0
"""Until a client has its tokenizer and prompts."""

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


@dataclass(frozen=True)
class Trials:
    """All trials, n of them, and what the model says of each.

    fit: the parameters around the shipped ones, with log TTFT and log TPOT and their slopes; sigma: bands of
    both (n, 2); weight: how much each matters, adding up to 1 (n,).
    """

    servers: Sequence[Server]
    trials: Sequence[Trial]
    fit: Fit
    sigma: Floats
    weight: Floats

    @property
    def able(self) -> Ints:
        """Indices of trials that can be measured."""
        ranks = [self.servers[t.server].design.attn_dp for t in self.trials]
        fine = [t.requests // n in CONCURRENCY[::2] for t, n in zip(self.trials, ranks, strict=True)]
        return np.flatnonzero([ok and t.prefix_hit == 0 for ok, t in zip(fine, self.trials, strict=True)])

    @property
    def slope(self) -> Floats:
        """By the parameters, shape (n, 2, p); 0 where there is no such figure."""
        return np.asarray(np.nan_to_num(self.fit.slope))

    @property
    def latency_s(self) -> Floats:
        """Of a request, shape (n,)."""
        steps = np.array([trial.osl - 1 for trial in self.trials])
        ttft, tpot = np.nan_to_num(np.exp(self.fit.here)).T
        return np.asarray((ttft + steps * tpot) / 1e3)

    @property
    def rounds(self) -> Ints:
        """Requests a slot that each run sends, shape (n,)."""
        slots = np.array([trial.requests for trial in self.trials])
        least = np.maximum(REQUESTS / slots, STEADY_S / self.latency_s)
        return np.maximum(np.ceil(least), ROUNDS).astype(np.int64)

    @property
    def minutes(self) -> Floats:
        """Of each run, shape (n,)."""
        return np.asarray((self.rounds * self.latency_s + CLIENT_S) / 60)


def on_cluster(asked: Asked, spread: Spread, noise: Noise) -> Trials:
    """All trials on the cluster. Raises Infeasible: nothing fits."""
    setups = _setups(asked)
    servers = _servers(setups.values())
    loads = _loads(asked.workload, asked.card.max_context)
    trials = [t for i, server in enumerate(servers) for t in _fitting(server, _at_all(i, server, loads))]
    if not trials:
        raise does_not_fit(asked.cluster, asked.card, asked.options, Pool((), setups, 0, 0))
    rows = [(servers[t.server].group, _row(servers[t.server], t)) for t in trials]
    bench = Bench(rows, np.full((len(rows), 2), np.nan))
    fit = Fit(bench, shipped(), spread, noise)
    bench.settle(bench.tunings(fit.around))
    fit.linearise()
    costs = [CostModel(g.card, g.node_class, g.engine, g.used) for g in (cell.group for cell in bench.cells)]
    sigma = np.array([(cost.sigma_ttft, cost.sigma_tpot) for cost in costs])[bench.cell_of]
    found = Trials(servers, trials, fit, sigma, np.zeros(len(trials)))
    return replace(found, weight=_weights(found, asked.workload.slo))


def _setups(asked: Asked) -> dict[tuple[str, str], Setup]:
    """Valid designs by class and engine, as a plan has them."""
    o, w = asked.options, asked.workload
    engines = ENGINES if o.engine == "any" else (o.engine,)
    used = precisions(asked.card, o.precision, o.kv_precision)
    ask = Ask(asked.card, used, engines, w, Promise.of(w.slo, None), "throughput")
    found = {
        (n.id, e): setup(n, e, ask, one_more=False) for n in asked.cluster.classes for e in serving(n, ask)
    }
    return {key: s for key, s in found.items() if s is not None}


def _servers(setups: Iterable[Setup]) -> list[Server]:
    """Those whose weights fit, on as few nodes as any needs."""
    found = []
    for s in setups:
        m, d = s.model, s.designs
        group = Group(m.card, m.node_class, m.engine, "mixed", m.precisions)
        start = (START_S + sum(weight_bytes(m.card).values()) / LOAD_BYTES_PER_S) / 60
        for i in np.flatnonzero(s.memory.kv_bytes > 0).tolist():
            sizes = (int(x[i]) for x in (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep))
            found.append(Server(group, Design(*sizes), start))
    fewest = min((server.nodes for server in found), default=1)
    return [server for server in found if server.nodes == fewest]


def _loads(workload: Workload, longest: int) -> list[Trial]:
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


def _at_all(index: int, server: Server, loads: Sequence[Trial]) -> list[Trial]:
    """The loads on a server at every concurrency."""
    ranks = server.design.attn_dp
    return [replace(load, server=index, requests=ranks * c) for load in loads for c in CONCURRENCY]


def _fitting(server: Server, trials: list[Trial]) -> list[Trial]:
    """Those that the KV cache holds at once."""
    load = Load.of([_row(server, trial) for trial in trials])
    fits = load.sequences <= Places.of(server.group, load).sequences
    return [trial for trial, fit in zip(trials, fits.tolist(), strict=True) if fit]


def _row(server: Server, trial: Trial) -> Row:
    group = server.group
    cells = {"model": group.card.name, "device": group.node_class.device.name, "engine": group.engine}
    sizes = asdict(server.design) | {"isl": trial.isl, "osl": trial.osl, "concurrency": trial.requests}
    sizes["prefix_hit"] = trial.prefix_hit
    return parse(cells | {name: str(value) for name, value in sizes.items()})


def _weights(found: Trials, slo: Slo) -> Floats:
    """The odds that a plan would choose each trial of the workload, adding up to 1; each GPU counts alike.

    A trial is worth the output tokens a GPU that it brings, times the odds that it keeps the SLO. That it is
    the best of its class after all goes by how far it is behind, in bands.
    """
    servers = [found.servers[t.server] for t in found.trials]
    share = np.array([t.share for t in found.trials])
    tokens = [t.requests * t.osl / s.design.gpus for t, s in zip(found.trials, servers, strict=True)]
    value = np.log(tokens / found.latency_s)
    for kind, limit_ms in ((TTFT, slo.ttft_ms), (TPOT, slo.tpot_ms)):
        if limit_ms is not None:
            away = (np.log(limit_ms) - found.fit.here[:, kind]) / found.sigma[:, kind]
            value = value + np.nan_to_num(log_ndtr(away))
    weight = np.zeros(len(share))
    rivals = [(s.group.node_class.id, t.isl, t.osl) for t, s in zip(found.trials, servers, strict=True)]
    for key in set(rivals):
        at = np.flatnonzero([k == key and x > 0 for k, x in zip(rivals, share, strict=True)])
        if len(at):
            odds = ndtr((value[at] - value[at].max()) / (np.sqrt(2) * found.sigma[at, TPOT]))
            weight[at] = odds / odds.sum() * share[at] * servers[at[0]].group.node_class.gpus
    return np.asarray(weight / weight.sum())
