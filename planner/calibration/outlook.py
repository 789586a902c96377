"""What the model says of trials before any is made, and how much each matters.

All are measured without a prefix cache; what matters is how the workload itself runs, by the odds that a plan
would choose it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr

from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.bold import Bold, bold_choice
from planner.calibration.fitting import Fit, Noise, Spread
from planner.calibration.trials import (
    CONCURRENCY,
    Server,
    Trial,
    loads_of,
    row_of,
    servers_of,
    setups_of,
    trials_of,
)
from planner.cost.bands import Z80
from planner.cost.calibration import shipped
from planner.designs.shape import Floats, Ints
from planner.inputs.workload import Slo
from planner.predict.loads import Group
from planner.predict.predictions import predict_group
from planner.question.asked import Asked
from planner.replicas.pool import Pool
from planner.why.infeasible import does_not_fit

FAVOURITES = 6
"""Servers of each engine on each class that are looked at closely: those that matter most."""

ROUNDS, REQUESTS, STEADY_S = 5, 16, 30.0
"""What a run takes at least: requests a slot and in all, and seconds; the crowd at its start then counts
little."""

CLIENT_S = 20.0
"""Until a client has its tokenizer and prompts."""

MOST = 1024
"""Requests in flight that one client keeps up with."""


@dataclass(frozen=True)
class Outlook:
    """n trials, and what the model says of each.

    fit: the parameters around the shipped ones, with log TTFT and log TPOT; slope: of both by the parameters
    (n, 2, p); sigma: bands of both (n, 2); both are 0 where there is no such figure. weight: how much each
    trial matters, adding up to 1 (n,). bold: the last of the trials, where one would settle the bold choice.
    """

    servers: Sequence[Server]
    trials: Sequence[Trial]
    fit: Fit
    slope: Floats
    sigma: Floats
    weight: Floats
    bold: Bold | None = None

    @property
    def able(self) -> Ints:
        """Trials that may be measured: every other concurrency, as neighbours tell the same, and the bold
        one."""
        ranks = [self.servers[t.server].design.attn_dp for t in self.trials]
        fine = [t.requests // n in CONCURRENCY[::2] for t, n in zip(self.trials, ranks, strict=True)]
        small = [t.requests <= MOST and t.prefix_hit == 0 for t in self.trials]
        bold = [self.bold is not None and i == len(self.trials) - 1 for i in range(len(self.trials))]
        return np.flatnonzero((np.array(fine) | np.array(bold)) & np.array(small))

    @property
    def latency_s(self) -> Floats:
        """Of a request, shape (n,)."""
        return _latency_s(self.trials, self.fit.here)

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


def look(asked: Asked, spread: Spread, noise: Noise) -> Outlook:
    """All trials on the servers that matter. Raises Infeasible: nothing fits."""
    setups = setups_of(asked)
    servers = servers_of(setups.values())
    loads = loads_of(asked.workload, asked.card.max_context)
    matter = [
        t for i, s in enumerate(servers) for t in trials_of(i, s, [load for load in loads if load.share])
    ]
    if not matter:
        raise does_not_fit(asked.cluster, asked.card, asked.options, Pool((), setups))
    bench = _bench(servers, matter)
    tunings = bench.tunings(shipped())
    here, sigma, slo = bench.log_times(tunings), _sigma(servers, matter), asked.workload.slo
    weight = _weights(servers, matter, here, sigma, slo)
    bold = bold_choice(servers, matter, here, sigma, slo, asked.options.risk)
    favourites = _favourites(servers, matter, weight)
    if bold is not None and (own := servers[bold.trial.server]) not in favourites:
        favourites.append(own)
    if bold is not None:
        place = favourites.index(servers[bold.trial.server])
        bold = replace(bold, trial=replace(bold.trial, server=place))
    servers = favourites
    trials = [t for i, s in enumerate(servers) for t in trials_of(i, s, loads)]
    trials += [bold.trial] if bold is not None else []
    bench = _bench(servers, trials)
    fit = Fit(bench, shipped(), spread, noise)
    fit.linearise()
    sigma = _sigma(servers, trials)
    weight = _weights(servers, trials, fit.here, sigma, slo)
    slope = np.nan_to_num(fit.slope)
    single = [trial.osl == 1 for trial in trials]
    slope[single, TPOT] = sigma[single, TPOT] = 0.0
    return Outlook(servers, trials, fit, slope, sigma, weight, bold)


def _bench(servers: Sequence[Server], trials: Sequence[Trial]) -> Bench:
    rows = [(servers[t.server].group, row_of(servers[t.server], t)) for t in trials]
    bench = Bench(rows, np.full((len(rows), 2), np.nan))
    bench.settle(bench.tunings(shipped()))
    return bench


def _sigma(servers: Sequence[Server], trials: Sequence[Trial]) -> Floats:
    """Bands of TTFT and TPOT as `predict` states them, shape (n, 2): of a server, whatever its load."""
    members: dict[Group, list[int]] = defaultdict(list)
    for i, server in enumerate(servers):
        members[server.group].append(i)
    each = np.zeros((len(servers), 2))
    for group, at in members.items():
        rows = [row_of(servers[i], Trial(i, 1000, 100, 0.0, 0.0, 1)) for i in at]
        for i, said in zip(at, predict_group(group, rows, shipped()), strict=True):
            high = ((said.ttft_ms_high, said.ttft_ms), (said.tpot_ms_high, said.tpot_ms))
            each[i] = [np.log(edge / value) / Z80 for edge, value in high if edge and value]
    return each[[trial.server for trial in trials]]


def _favourites(servers: Sequence[Server], trials: Sequence[Trial], weight: Floats) -> list[Server]:
    """The servers that matter most, of each engine on each class, in order."""
    each = np.bincount([t.server for t in trials], weight, len(servers))
    by_engine: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in np.argsort(-each, kind="stable").tolist():
        group = servers[i].group
        by_engine[group.node_class.id, group.engine].append(i)
    return [servers[i] for i in sorted(i for members in by_engine.values() for i in members[:FAVOURITES])]


def _latency_s(trials: Sequence[Trial], here: Floats) -> Floats:
    """Of a request, from log milliseconds of TTFT and TPOT."""
    steps = np.array([trial.osl - 1 for trial in trials])
    ttft, tpot = np.nan_to_num(np.exp(here)).T
    return np.asarray((ttft + steps * tpot) / 1e3)


def _weights(
    servers: Sequence[Server], trials: Sequence[Trial], here: Floats, sigma: Floats, slo: Slo
) -> Floats:
    """The odds that a plan would choose each trial of the workload, adding up to 1; each GPU counts alike.

    A trial is worth the output tokens a GPU that it brings, times the odds that it keeps the SLO. That it is
    the best of its class after all goes by how far it is behind, in bands.
    """
    share = np.array([t.share for t in trials])
    single = np.array([t.osl == 1 for t in trials])
    of = [servers[t.server] for t in trials]
    tokens = [t.requests * t.osl / s.design.gpus for t, s in zip(trials, of, strict=True)]
    value = np.log(tokens / _latency_s(trials, here))
    for kind, limit_ms in ((TTFT, slo.ttft_ms), (TPOT, slo.tpot_ms)):
        if limit_ms is not None:
            keeps = log_ndtr((np.log(limit_ms) - here[:, kind]) / sigma[:, kind])
            value = value + np.where((kind == TPOT) & single, 0.0, keeps)
    weight = np.zeros(len(share))
    rivals = [(s.group.node_class.id, t.isl, t.osl) for t, s in zip(trials, of, strict=True)]
    for key in set(rivals):
        at = np.flatnonzero([k == key and x > 0 for k, x in zip(rivals, share, strict=True)])
        if len(at):
            odds = ndtr((value[at] - value[at].max()) / (np.sqrt(2) * sigma[at, TPOT]))
            weight[at] = odds / odds.sum() * share[at] * of[at[0]].group.node_class.gpus
    return np.asarray(weight / weight.sum())
