"""Which benchmarks would narrow a plan's bands most: a list to run, each with what it tells.

Near the shipped parameters the model of calibration (`fitting.py`) is linear and Gaussian, so what a run will
tell is known before it is made. The variance that the parameters have in a prediction is scaled to what its
band has above the noise of a single measurement: a band narrows to that noise at best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.calibration.bench import TPOT, TTFT, Mask
from planner.calibration.bold import Bold
from planner.calibration.fitting import Noise
from planner.calibration.outlook import Outlook, look
from planner.calibration.priors import SPREAD
from planner.calibration.selection import Runs, after, select, spread
from planner.calibration.trials import Server, Trial
from planner.designs.shape import Floats
from planner.question.asked import Asked

NOISE = Noise(ttft=0.18, tpot=0.065)
"""What runs are off by whatever the parameters: as much as held-out rows scatter once the median error of
each engine's model on a device is known (half lie within 4.4 % in TPOT and 12 % in TTFT: the last but one
table of `python -m benchmarks.accuracy`). Repeats scatter less."""

TINY = 1e-12

FELT = 0.01
"""Slope from which a trial is said to feel a parameter."""

KERNELS = ("gemm_flops", "gemm_bytes", "decode_attention", "prompt_attention", "experts", "recurrent")
"""Parameters that `kernels` stands in front of: only the product shows in a measurement."""


@dataclass(frozen=True)
class Bands:
    """Standard deviations of log(measured / predicted), averaged over what a plan would choose."""

    ttft: float
    tpot: float


@dataclass(frozen=True)
class Run:
    """A trial to make with so many prompts, and what follows: `bands` after it and all before it.

    tells: the parameter that it says most of; deviation: of its logarithm, before and after; bold: where it
    settles whether the bold choice keeps the limits.
    """

    trial: Trial
    prompts: int
    minutes: float
    bands: Bands
    tells: str
    deviation: tuple[float, float]
    bold: Bold | None = None


@dataclass(frozen=True)
class Session:
    """One start of a server, and the runs to make on it."""

    server: Server
    runs: tuple[Run, ...]

    @property
    def minutes(self) -> float:
        """Start and runs."""
        return self.server.start_minutes + sum(run.minutes for run in self.runs)


@dataclass(frozen=True)
class Probe:
    """The list, sessions on one class of nodes together; `before`: bands without it."""

    asked: Asked
    before: Bands
    sessions: tuple[Session, ...]

    @property
    def after(self) -> Bands:
        """Bands with all of it."""
        return self.sessions[-1].runs[-1].bands if self.sessions else self.before


def probe(asked: Asked) -> Probe:
    """The benchmarks worth making. Raises Infeasible: nothing fits."""
    found = look(asked, SPREAD, NOISE)
    goal = Goal.of(found)
    covariance = np.diag([e.spread**2 for e in found.fit.effects])
    able, rounds, minutes, slope = found.able, found.rounds, found.minutes, found.slope
    server = np.array([trial.server for trial in found.trials])
    start = np.array([s.start_minutes for s in found.servers])[server]
    noise = np.array([found.fit.noise.ttft, found.fit.noise.tpot])
    runs = Runs(slope[able], noise, minutes[able], server[able], start[able])
    last = len(found.trials) - 1
    given = [] if found.bold is None else np.flatnonzero(able == last).tolist()
    chosen = able[select(runs, goal.targets, covariance, float(goal.fixed.sum()), given=given)].tolist()
    before = goal.bands(covariance)
    sessions = []
    order = _grouped(found, chosen)
    for members in first(order, last) if given else order:
        made = []
        for i in members:
            then = after(covariance, slope[i], noise)
            trial = found.trials[i]
            name, deviation = _tells(found, goal, i, covariance, then)
            made.append(
                Run(
                    trial,
                    int(rounds[i]) * trial.requests,
                    float(minutes[i]),
                    goal.bands(then),
                    name,
                    deviation,
                    found.bold if given and i == last else None,
                )
            )
            covariance = then
        sessions.append(Session(found.servers[found.trials[members[0]].server], tuple(made)))
    return Probe(asked, before, tuple(sessions))


@dataclass(frozen=True)
class Goal:
    """The predictions that matter, TTFT and TPOT alike.

    targets: rows (2m, p) such that each kind's summed variance is the part of its band that runs can narrow;
    whole: the bands' variances (2,), averaged over what a plan would choose; fixed: the part that stays (2,).
    """

    targets: Floats
    whole: Floats
    fixed: Floats

    @classmethod
    def of(cls, found: Outlook) -> Goal:
        """Those of all trials, by weight."""
        prior = np.array([e.spread**2 for e in found.fit.effects])
        noise = np.array([found.fit.noise.ttft, found.fit.noise.tpot])
        own = found.slope**2 @ prior
        above = np.where(own > 0, np.maximum(found.sigma**2 - noise**2, 0.0), 0.0)
        whole = found.weight @ found.sigma**2
        part = found.weight[:, None] * above / np.maximum(own, TINY)
        scale = np.sqrt(part / np.maximum(whole, TINY))
        targets = (found.slope * scale[:, :, None])[found.weight > 0]
        return cls(
            np.concatenate([targets[:, TTFT], targets[:, TPOT]]),
            whole,
            (whole - found.weight @ above) / np.maximum(whole, TINY),
        )

    def bands(self, covariance: Floats) -> Bands:
        """What is left of the bands."""
        half = len(self.targets) // 2
        left = [spread(self.targets[:half], covariance), spread(self.targets[half:], covariance)]
        ttft, tpot = np.sqrt(self.whole * (self.fixed + left)).tolist()
        return Bands(ttft, tpot)


def _grouped(found: Outlook, chosen: Sequence[int]) -> list[list[int]]:
    """The chosen trials by server, in order of choice but a class's servers together; on each from the
    shortest requests and the fewest at once."""
    classes = list(dict.fromkeys(found.servers[found.trials[i].server].group.node_class.id for i in chosen))
    servers = list(dict.fromkeys(found.trials[i].server for i in chosen))
    servers.sort(key=lambda s: classes.index(found.servers[s].group.node_class.id))

    def load(i: int) -> tuple[int, int, int]:
        t = found.trials[i]
        return t.isl, t.osl, t.requests

    return [sorted((i for i in chosen if found.trials[i].server == s), key=load) for s in servers]


def first(order: Sequence[list[int]], trial: int) -> list[list[int]]:
    """Trials by server with this one's server first, and this trial first on it.

    >>> first([[3, 4], [1, 2]], 2)
    [[2, 1], [3, 4]]
    """
    own = [[trial, *(i for i in members if i != trial)] for members in order if trial in members]
    return own + [members for members in order if trial not in members]


def _tells(
    found: Outlook, goal: Goal, i: int, before: Floats, then: Floats
) -> tuple[str, tuple[float, float]]:
    """The parameter that trial i feels whose variance falls most, as far as predictions feel it, too."""
    traits = found.fit.bench.cells[found.fit.bench.cell_of[i]].traits
    has = np.array([traits.key(e.level) == e.key for e in found.fit.effects])
    parameter = np.array([e.parameter for e in found.fit.effects])
    best: tuple[float, str, tuple[float, float]] = (-1.0, "", (0.0, 0.0))
    for name in found.fit.names:
        own = has & (parameter == name)
        if name == "kernels" or np.abs(found.slope[i][:, own]).max(initial=0.0) < FELT:
            continue
        felt = own | (has & (parameter == "kernels") & (name in KERNELS))
        matters = float((goal.targets[:, own] ** 2).max(axis=1).sum())
        deviation = (_deviation(before, felt), _deviation(then, felt))
        best = max(best, (matters * (deviation[0] ** 2 - deviation[1] ** 2), name, deviation))
    return best[1], best[2]


def _deviation(covariance: Floats, which: Mask) -> float:
    """Of the sum of some parameters."""
    return float(np.sqrt(covariance[np.ix_(which, which)].sum()))
