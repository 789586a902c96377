"""Parameters from measured rows: the most probable factors under Gaussian priors, robustly.

With x the logarithms of the factors of every (parameter, level, key), the model is

    log measured = log predicted(x) + u_group + error,   x_j ~ N(0, spread_j²),  u ~ N(0, scatter²)

for TTFT and TPOT at once, errors of Student's t with `FREEDOM` degrees (a tenth of public rows is far off),
u what a (engine, device, model) has of its own and nobody else will see. Gauss-Newton steps, each a weighted
ridge regression (Gelman et al., Bayesian Data Analysis 2013, ch. 15 and 17); the covariance of x is the
inverse of its matrix. Shares of time grow with their factors, so full steps may overshoot for ever: of steps
damped more and more (Marquardt 1963) the one that makes the whole most probable is taken. Levels pool: a
factor that few rows speak of stays near 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.bench import TPOT, TTFT, Bench, Mask
from planner.cost.calibration import Calibration
from planner.cost.tuning import Tuning
from planner.designs.shape import Floats

FREEDOM = 4.0
"""Degrees of freedom of Student's t."""

REWEIGHTED = 5
"""Rounds of weights within a step."""

DAMPED = (0.0, 0.1, 0.5, 2.0, 10.0, 100.0)
"""Shares of the matrix's diagonal that are tried on top of it."""

SETTLED = 0.01
"""A step that changes no row's times by more, as a logarithm, is the last."""

State = tuple[Floats, Floats, Floats, Floats, list[Floats]]
"""Parameters, what groups have of their own, predictions, slopes and batches."""

Spread = Mapping[str, Mapping[str, float]]
"""Parameter → level → standard deviation of a factor's logarithm."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations of log TTFT and log TPOT: of a row's error, and of a group's own offset."""

    ttft: float = 0.5
    tpot: float = 0.16
    ttft_group: float = 0.05
    tpot_group: float = 0.01


@dataclass(frozen=True)
class Effect:
    """One factor to be found."""

    parameter: str
    level: str
    key: str
    spread: float


@dataclass(frozen=True)
class Fitted:
    """Logarithms `x` of the factors of `effects` on top of a calibration, and their covariance."""

    effects: tuple[Effect, ...]
    x: Floats
    covariance: Floats


def effects_of(bench: Bench, spread: Spread) -> tuple[Effect, ...]:
    """Every factor that a row of the bench has; none at a level where its key is blank."""
    return tuple(
        Effect(parameter, level, key, sd)
        for parameter, levels in spread.items()
        for level, sd in levels.items()
        for key in sorted({cell.traits.key(level) for cell in bench.cells} - {""})
    )


def calibrated(around: Calibration, effects: tuple[Effect, ...], x: Floats) -> Calibration:
    """`around` with the factors exp(x) multiplied in."""
    factors = {
        p: {level: dict(keys) for level, keys in levels.items()} for p, levels in around.factors.items()
    }
    for effect, value in zip(effects, x.tolist(), strict=True):
        keys = factors.setdefault(effect.parameter, {}).setdefault(effect.level, {})
        keys[effect.key] = keys.get(effect.key, 1.0) * float(np.exp(value))
    return replace(around, factors=factors)


class Fit:
    """The fit of one bench around a calibration: `run` goes to its optimum, `step` from there without some
    rows."""

    def __init__(self, bench: Bench, around: Calibration, spread: Spread, noise: Noise | None = None) -> None:
        self.bench, self.around, self.spread, self.noise = bench, around, spread, noise or Noise()
        self.effects = effects_of(bench, spread)
        self.names = [name for name, levels in spread.items() if levels]
        self.x = np.zeros(len(self.effects))
        groups = [(c.traits.engine, c.traits.device, c.traits.model) for c in bench.cells]
        numbers = {group: i for i, group in enumerate(sorted(set(groups)))}
        group_of = np.array([numbers[group] for group in groups], dtype=np.int64)[bench.cell_of]
        self.scale = np.array([self.noise.ttft, self.noise.tpot])
        self.has = np.zeros((len(bench), 2, 2 * len(numbers)))
        for kind, deviation in ((TTFT, self.noise.ttft_group), (TPOT, self.noise.tpot_group)):
            self.has[np.arange(len(bench)), kind, group_of + kind * len(numbers)] = deviation
        self.own = np.zeros(2 * len(numbers))
        self.covariance = np.zeros((0, 0))
        """Of both at the optimum, once `run` has found it."""
        self.known: dict[bytes, Floats] = {}
        """Log times of rows held out together, by which these are."""

    def begin(self, at: Calibration) -> None:
        """Start at the factors of a calibration."""
        factors = ((at.factors.get(e.parameter, {}).get(e.level, {}), e.key) for e in self.effects)
        self.x = np.log(np.array([keys.get(key, 1.0) for keys, key in factors]))
        self.bench.settle(self.bench.tunings(calibrated(self.around, self.effects, self.x)))

    def loss(self) -> float:
        """Minus the logarithm of the posterior density where the last run ended, up to a constant."""
        keep = np.ones(len(self.bench), dtype=bool)
        return self._loss(np.concatenate([self.x, self.own]), self.here, keep)

    def run(self, keep: Mask | None = None, steps: int = 12) -> Fitted:
        """Gauss-Newton on the rows `keep`."""
        keep = np.ones(len(self.bench), dtype=bool) if keep is None else keep
        self.known.clear()
        self.linearise()
        self._descend(keep, steps)
        self.linearise()
        self.covariance = np.asarray(np.linalg.inv(self._regression(keep)[0]), dtype=np.float64)
        n = len(self.x)
        return Fitted(self.effects, self.x, self.covariance[:n, :n])

    def _descend(self, keep: Mask, steps: int) -> None:
        """Steps from where slopes are known."""
        for i in range(steps):
            if i:
                self.linearise()
            self.x, self.own, times = self.step(keep)
            if np.nanmax(np.abs(times - self.here), initial=0.0) < SETTLED:
                return

    def linearise(self) -> None:
        """Predictions and slopes here."""
        tunings = self._settled()
        self.here, slopes = self.bench.slopes(tunings, self.names)
        keyed = [np.array([c.traits.key(e.level) == e.key for c in self.bench.cells]) for e in self.effects]
        has = [mask[self.bench.cell_of] for mask in keyed]
        self.slope = np.stack(
            [slopes[e.parameter] * mask[:, None] for e, mask in zip(self.effects, has, strict=True)], axis=2
        )

    def _settled(self) -> list[Tuning]:
        """The parameters here, with the batches that they lead to."""
        tunings = self.bench.tunings(calibrated(self.around, self.effects, self.x))
        self.bench.settle(tunings, rounds=1)
        return tunings

    def step(self, keep: Mask, damped: Sequence[float] = DAMPED) -> tuple[Floats, Floats, Floats]:
        """The most probable of the steps from here by the rows `keep`, `damped` so: x, what groups have of
        their own, and all rows' log times, (n, 2)."""
        matrix, to = self._regression(keep)
        here, n = np.concatenate([self.x, self.own]), len(self.x)
        pull, diagonal = matrix @ (to - here), np.diag(np.diag(matrix))
        ways = [here + np.linalg.solve(matrix + share * diagonal, pull) for share in damped]
        calibrations = [calibrated(self.around, self.effects, way[:n]) for way in ways]
        times = self.bench.times_of([self.bench.tunings(each) for each in calibrations])
        losses = [self._loss(way, then, keep) for way, then in zip(ways, times, strict=True)]
        best = int(np.argmin(losses))
        return ways[best][:n], ways[best][n:], times[best]

    def held_out(self, labels: Sequence[object], steps: int = 12) -> Floats:
        """Log times of every row, (n, 2), by the parameters of all rows with another label.

        Each fit starts from the priors, and once more from the optimum of all rows, as either may end in one
        of several optima; the kept rows say which is more probable. Rows that were held out together before
        are not fitted again."""
        out = np.full((len(self.bench), 2), np.nan)
        whole = self.state()
        self.x, self.own = np.zeros_like(self.x), np.zeros_like(self.own)
        self.bench.settle(self.bench.tunings(self.around))
        self.linearise()
        priors = self.state()
        for label in dict.fromkeys(labels):
            held = np.array([other == label for other in labels])
            if held.tobytes() not in self.known:
                ways = [self._ended(start, ~held, steps) for start in (priors, whole)]
                self.known[held.tobytes()] = min(ways, key=lambda way: way[0])[1][held]
            out[held] = self.known[held.tobytes()]
        self.go_to(whole)
        return out

    def _ended(self, start: State, keep: Mask, steps: int) -> tuple[float, Floats]:
        """The loss at the optimum that is found from `start` on the rows `keep`, and the log times there."""
        self.go_to(start)
        self._descend(keep, steps)
        times = self.bench.log_times(self._settled())
        return self._loss(np.concatenate([self.x, self.own]), times, keep), times

    def state(self) -> State:
        """Where the search stands."""
        return self.x, self.own, self.here, self.slope, list(self.bench.batches)

    def go_to(self, state: State) -> None:
        """Back to where it stood."""
        self.x, self.own, self.here, self.slope, batches = state
        self.bench.batches = list(batches)

    def _regression(self, keep: Mask) -> tuple[Floats, Floats]:
        """The ridge regression at the slopes found last, on the rows `keep`: its matrix and its solution."""
        known = np.isfinite(self.bench.measured) & np.isfinite(self.here) & keep[:, None]
        row, kind = np.nonzero(known)
        slope = self.slope[row, kind]
        a = np.hstack([slope, self.has[row, kind]])
        b = self.bench.measured[row, kind] - self.here[row, kind] + slope @ self.x
        s = self.scale[kind] * self.bench.doubt[row, kind]
        prior = np.diag(1 / self._deviations() ** 2)
        x = np.concatenate([self.x, self.own])
        for _ in range(REWEIGHTED):
            weight = (FREEDOM + 1) / (FREEDOM + ((b - a @ x) / s) ** 2) / s**2
            matrix = a.T @ (weight[:, None] * a) + prior
            x = np.linalg.solve(matrix, a.T @ (weight * b))
        return matrix, x

    def _deviations(self) -> Floats:
        return np.concatenate([[e.spread for e in self.effects], np.ones_like(self.own)])

    def _loss(self, x: Floats, times: Floats, keep: Mask) -> float:
        """Minus the logarithm of the posterior density, up to a constant; `x` with what groups have of their
        own, `times` (n, 2)."""
        scale = self.scale * self.bench.doubt
        errors = ((self.bench.measured - times - self.has @ x[len(self.x) :]) / scale)[keep]
        wild = (FREEDOM + 1) / 2 * np.log1p(errors[np.isfinite(errors)] ** 2 / FREEDOM)
        return float(wild.sum() + ((x / self._deviations()) ** 2).sum() / 2)
