"""Parameters from measured rows: the most probable factors under Gaussian priors, robustly.

With x the logarithms of the factors of every (parameter, level, key), the model is

    log measured = log predicted(x) + u_group + error,   x_j ~ N(0, spread_j²),  u ~ N(0, scatter²)

for TTFT and TPOT at once, errors of Student's t with `FREEDOM` degrees (a tenth of public rows is far off),
u what a (engine, device, model) has of its own and nobody else will see. Gauss-Newton steps, each a weighted
ridge regression (Gelman et al., Bayesian Data Analysis 2013, ch. 15 and 17); the covariance of x is the
inverse of its matrix. Levels pool: a factor that few rows speak of stays near 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibration.bench import TPOT, TTFT, Bench, Mask
from planner.cost.calibration import Calibration
from planner.cost.shape import Floats

FREEDOM = 4.0
"""Degrees of freedom of Student's t."""

REWEIGHTED = 5
"""Rounds of weights within a step."""

FARTHEST = 0.6
"""Most that a factor's logarithm moves in a step."""

SETTLED = 0.02
"""A step below this is the last."""

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
    """Every factor that a row of the bench has."""
    return tuple(
        Effect(parameter, level, key, sd)
        for parameter, levels in spread.items()
        for level, sd in levels.items()
        for key in sorted({cell.traits.key(level) for cell in bench.cells})
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
    """The fit of one bench around a calibration: `run` goes to its optimum, `refit` from there without some
    rows."""

    def __init__(self, bench: Bench, around: Calibration, spread: Spread, noise: Noise | None = None) -> None:
        self.bench, self.around, self.noise = bench, around, noise or Noise()
        self.effects = effects_of(bench, spread)
        self.names = [name for name, levels in spread.items() if levels]
        self.x = np.zeros(len(self.effects))
        groups = [(c.traits.engine, c.traits.device, c.traits.model) for c in bench.cells]
        numbers = {group: i for i, group in enumerate(sorted(set(groups)))}
        self.group_of = np.array([numbers[group] for group in groups], dtype=np.int64)[bench.cell_of]

    def run(self, keep: Mask | None = None, steps: int = 8) -> Fitted:
        """Gauss-Newton on the rows `keep`."""
        keep = np.ones(len(self.bench), dtype=bool) if keep is None else keep
        for _ in range(steps):
            self.linearise()
            found = self.refit(keep)
            move = np.clip(found.x - self.x, -FARTHEST, FARTHEST)
            self.x = self.x + move
            if np.abs(move).max(initial=0.0) < SETTLED:
                break
        self.linearise()
        return self.refit(keep)

    def linearise(self) -> None:
        """Predictions and slopes here."""
        tunings = self.bench.tunings(calibrated(self.around, self.effects, self.x))
        self.bench.settle(tunings, rounds=1)
        self.here, slopes = self.bench.slopes(tunings, self.names)
        keyed = [np.array([c.traits.key(e.level) == e.key for c in self.bench.cells]) for e in self.effects]
        has = [mask[self.bench.cell_of] for mask in keyed]
        self.slope = np.stack(
            [slopes[e.parameter] * mask[:, None] for e, mask in zip(self.effects, has, strict=True)], axis=2
        )

    def refit(self, keep: Mask) -> Fitted:
        """The ridge regression at the slopes found last, on the rows `keep`; without another look at the
        model."""
        n, groups = len(self.effects), int(self.group_of.max()) + 1
        known = np.isfinite(self.bench.measured) & np.isfinite(self.here) & keep[:, None]
        matrix, y, scale = [], [], []
        noise = self.noise
        for kind, sd, offset in (
            (TTFT, noise.ttft, noise.ttft_group),
            (TPOT, noise.tpot, noise.tpot_group),
        ):
            at = np.flatnonzero(known[:, kind])
            own = np.zeros((len(at), 2 * groups))
            own[np.arange(len(at)), self.group_of[at] + kind * groups] = offset
            slope = self.slope[at, kind]
            matrix.append(np.hstack([slope, own]))
            y.append(self.bench.measured[at, kind] - self.here[at, kind] + slope @ self.x)
            scale.append(np.full(len(at), sd))
        a, b, s = np.vstack(matrix), np.concatenate(y), np.concatenate(scale)
        prior = 1 / np.concatenate([[e.spread for e in self.effects], np.ones(2 * groups)]) ** 2
        x = np.concatenate([self.x, np.zeros(2 * groups)])
        for _ in range(REWEIGHTED):
            weight = (FREEDOM + 1) / (FREEDOM + ((b - a @ x) / s) ** 2) / s**2
            inverse = np.linalg.inv(a.T @ (weight[:, None] * a) + np.diag(prior))
            x = inverse @ (a.T @ (weight * b))
        return Fitted(self.effects, x[:n], inverse[:n, :n])

    def held_out(self, labels: Sequence[object]) -> Floats:
        """Log times of every row, (n, 2), by the parameters of all rows with another label. After `run`: each
        label is left out at the slopes of the full fit, and what is left asks the model anew."""
        out = np.full((len(self.bench), 2), np.nan)
        for label in dict.fromkeys(labels):
            held = np.array([other == label for other in labels])
            found = self.refit(~held)
            tunings = self.bench.tunings(calibrated(self.around, found.effects, found.x))
            out[held] = self.bench.log_times(tunings)[held]
        return out
