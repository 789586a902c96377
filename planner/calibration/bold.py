"""The run that would settle the bold choice: a load that keeps the limits by the median prediction, where the
risk asked for allows less.

Each server takes as many requests at once as keep its limits, by straight lines of logarithms between the
loads that were looked at. Bold is the server of the most output tokens a GPU at the median, careful that of
the most at the risk asked for. Where the bold one gains, measuring it at its load says which of the two a
plan should be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

import numpy as np

from planner.calibration.bench import TPOT, TTFT
from planner.calibration.trials import Server, Trial
from planner.cost.student import chance_below, deviations
from planner.designs.shape import Floats
from planner.inputs.workload import Slo

FAR = -50.0
"""Log of a time over its limit, where there is none."""

WORTH = 0.01
"""Gain below which nothing is to be settled, as with the bold alternative of a plan."""

ROUND = 1e-6
"""Of requests that straight lines give: 63.9999999 are 64."""


@dataclass(frozen=True)
class Bold:
    """The trial to make first; `gain` of its output tokens a GPU over those of the careful choice, None where
    nothing keeps the limits with care; `kept`: the chance that it keeps them."""

    trial: Trial
    gain: float | None
    kept: float


@dataclass(frozen=True)
class Loads:
    """What the model says of one server at growing loads: log requests in flight (k,), log output tokens/s a
    GPU (k,), and by how much the log of its times is over their limits (k, 2), with deviations (k, 2)."""

    requests: Floats
    tokens: Floats
    over: Floats
    sigma: Floats

    def most(self, z: float) -> tuple[float, float] | None:
        """The largest load whose times keep the limits with `z` deviations, as log requests and log tokens/s
        a GPU; None where the least one does not."""
        worst = (self.over + z * self.sigma).max(axis=1)
        late = np.flatnonzero(worst > 0)
        if not len(late):
            x = float(self.requests[-1])
        elif late[0] == 0:
            return None
        else:
            i = late[0]
            x = float(np.interp(0.0, worst[i - 1 : i + 1], self.requests[i - 1 : i + 1]))
        return x, float(np.interp(x, self.requests, self.tokens))

    def kept(self, requests: float) -> float:
        """The chance that the limits are kept at this load, of the one that is kept worst."""
        at = [
            [float(np.interp(requests, self.requests, column)) for column in rows.T]
            for rows in (self.over, self.sigma)
        ]
        odds = [chance_below(-x / s) if s > 0 else float(x <= 0) for x, s in zip(*at, strict=True)]
        return min(odds)


def bold_choice(
    servers: Sequence[Server], trials: Sequence[Trial], here: Floats, sigma: Floats, slo: Slo, risk: float
) -> Bold | None:
    """The trial that would settle the bold choice, of the workload's most frequent lengths; None where care
    costs nothing, or no limits are asked for. `here`: log milliseconds of TTFT and TPOT (n, 2), `sigma`:
    their deviations."""
    z = deviations(1 - risk)
    known = loads_of_servers(servers, trials, here, sigma, slo)
    bold = {i: found for i, loads in known.items() if (found := loads.most(0.0))}
    careful = [found[1] for loads in known.values() if (found := loads.most(z))]
    if not bold:
        return None
    best = max(bold, key=lambda i: bold[i][1])
    requests, tokens = bold[best]
    gain = exp(tokens - max(careful)) - 1 if careful else None
    if gain is not None and gain < WORTH:
        return None
    ranks = servers[best].design.attn_dp
    at = ranks * max(int(exp(requests) / ranks + ROUND), 1)
    like = next(t for t in trials if t.server == best and t.share == _most(trials))
    return Bold(replace(like, share=0.0, requests=at), gain, known[best].kept(requests))


def loads_of_servers(
    servers: Sequence[Server], trials: Sequence[Trial], here: Floats, sigma: Floats, slo: Slo
) -> dict[int, Loads]:
    """By server, of the most frequent lengths that are measured without a prefix cache."""
    by_server: dict[int, list[int]] = defaultdict(list)
    for i, t in enumerate(trials):
        if t.share == _most(trials) and t.prefix_hit == 0 and np.isfinite(here[i]).all():
            by_server[t.server].append(i)
    limits = np.array([np.nan if ms is None else log(ms) for ms in _limits(slo)])
    found = {}
    for server, rows in by_server.items():
        at = np.array(sorted(rows, key=lambda i: trials[i].requests))
        requests = np.array([trials[i].requests for i in at])
        osl, times = trials[rows[0]].osl, np.exp(here[at])
        tokens = requests * osl / (times[:, TTFT] + (osl - 1) * times[:, TPOT]) / servers[server].design.gpus
        over = np.nan_to_num(here[at] - limits, nan=-inf)
        over[:, TPOT] = over[:, TPOT] if osl > 1 else -inf
        found[server] = Loads(np.log(requests), np.log(tokens), np.maximum(over, FAR), sigma[at])
    return found


def _most(trials: Sequence[Trial]) -> float:
    return max(t.share for t in trials)


def _limits(slo: Slo) -> tuple[float | None, float | None]:
    """Return the limits on TTFT and TPOT in milliseconds, None where there is none."""
    both = {TTFT: slo.ttft_ms, TPOT: slo.tpot_ms}
    return both[0], both[1]
