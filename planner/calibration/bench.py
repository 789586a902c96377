"""Measured rows as arrays, and what the cost model says of all of them under given parameters: quickly, as a
fit asks many times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.cost.calibration import Calibration, Traits
from planner.cost.tuning import Tuning
from planner.designs.shape import Floats, Ints, StepTimes
from planner.operating.requests import Terms
from planner.predict.loads import Group, Places, Rows
from planner.predict.rows import Row
from planner.predict.served import ClosedLoop, Host, Work, steps_of
from planner.queueing import Role

TTFT, TPOT = 0, 1
"""Columns of log times, shape (n, 2)."""

NUDGE = 0.05
"""Of a parameter's logarithm, for slopes."""

BESIDE_STEPS = dict.fromkeys((field.name for field in fields(Host)), 1.0)
"""Parameters that step times do not depend on, all at one value."""


@dataclass(frozen=True)
class Cell:
    """The rows `at` of one group: computed by one cost model."""

    group: Group
    traits: Traits
    load: Rows
    places: Places
    at: Ints


class Bench:
    """n rows with `measured`, log milliseconds of TTFT and TPOT, shape (n, 2), NaN where not measured.

    `doubt` (n, 2): times as far as others that a row's figure may be off. `cell_of`: each row's cell, shape
    (n,).
    """

    def __init__(
        self, rows: Sequence[tuple[Group, Row]], measured: Floats, doubt: Floats | None = None
    ) -> None:
        self.measured = measured
        self.doubt = np.ones_like(measured) if doubt is None else doubt
        members: dict[Group, list[int]] = defaultdict(list)
        for i, (group, _) in enumerate(rows):
            members[group].append(i)
        self.cells = [_cell(group, [rows[i][1] for i in at], at) for group, at in members.items()]
        self.cell_of = np.zeros(len(rows), dtype=np.int64)
        for c, cell in enumerate(self.cells):
            self.cell_of[cell.at] = c
        self.batches = [cell.load.sequences for cell in self.cells]
        """Where each step is made linear; `settle` finds it."""

    def __len__(self) -> int:
        return len(self.measured)

    def tunings(self, calibration: Calibration) -> list[Tuning]:
        """The parameters of each cell."""
        return [calibration.tuning(cell.traits) for cell in self.cells]

    def settle(self, tunings: Sequence[Tuning], rounds: int = 3) -> None:
        """Find the batches that result."""
        for _ in range(rounds):
            self.times_of([tunings], settle=True)

    def log_times(self, tunings: Sequence[Tuning]) -> Floats:
        """Predicted log milliseconds at the batches found last, shape (n, 2); NaN of what the row's role has
        not."""
        return np.asarray(self.times_of([tunings])[0])

    def slopes(self, tunings: Sequence[Tuning], names: Sequence[str]) -> tuple[Floats, dict[str, Floats]]:
        """Predicted log times, and their slopes by the logarithm of each named parameter, shape (n, 2)."""
        nudged = [[replace(t, **{name: getattr(t, name) * np.exp(NUDGE)}) for t in tunings] for name in names]
        here, *moved = self.times_of([tunings, *nudged])
        return here, {name: (then - here) / NUDGE for name, then in zip(names, moved, strict=True)}

    def times_of(self, many: Sequence[Sequence[Tuning]], settle: bool = False) -> Floats:
        """Log times under each of `many` lists of parameters, shape (many, n, 2); `settle`: batches, too."""
        out = np.full((len(many), len(self), 2), np.nan)
        for role in ("mixed", "prefill", "decode"):
            chosen = [c for c, cell in enumerate(self.cells) if cell.group.role == role]
            if chosen:
                self._times_of(role, chosen, many, settle, out)
        return out

    def _times_of(
        self, role: Role, chosen: Sequence[int], many: Sequence[Sequence[Tuning]], settle: bool, out: Floats
    ) -> None:
        """All cells of one role under all parameters in one closed loop computation."""
        every = [(self.cells[c], tunings[c]) for tunings in many for c in chosen]
        done: dict[tuple[int, Tuning], Work] = {}
        work: Work = _as_one([self._work(c, tunings[c], done) for tunings in many for c in chosen])
        sizes = [len(cell.at) for cell, _ in every]

        def each(values: Sequence[float]) -> Floats:
            return np.repeat(np.asarray(values, dtype=np.float64), sizes)

        load: Rows = _as_one([cell.load for cell, _ in every])
        places: Places = _as_one([cell.places for cell, _ in every])
        host = Host(*(each([getattr(t, f.name) for _, t in every]) for f in fields(Host)))
        budget = each([cell.group.token_budget for cell, _ in every])
        by = Terms(role, budget, computed=each([1.0 + cell.group.draft_tokens for cell, _ in every]))
        loop = ClosedLoop(load, places, by)
        bare = loop.without_crowds(work.step, host)
        found = loop.with_crowds(bare, work, host)
        at = np.concatenate([self.cells[c].at for c in chosen])
        columns = {TTFT: found.ttft_s, TPOT: found.tpot_s}
        if role == "decode":  # the first token is another server's: here only rounding is left of it
            del columns[TTFT]
        for column, seconds in columns.items():
            told = np.where(seconds[:, 0] > 0, seconds[:, 0], np.nan)
            out[:, at, column] = np.log(1e3 * told).reshape(len(many), -1)
        if settle:
            before = np.concatenate([self.batches[c] for c in chosen])
            batches = loop.next_batch(bare, work.step, before)
            for c, batch in zip(chosen, np.split(batches, np.cumsum(sizes)[:-1]), strict=True):
                self.batches[c] = batch

    def _work(self, c: int, tuning: Tuning, done: dict[tuple[int, Tuning], Work]) -> Work:
        """`done`: what was found, by what it depends on."""
        tuning = replace(tuning, **BESIDE_STEPS)
        if (c, tuning) not in done:
            done[c, tuning] = self.work_of(c, tuning)
        return done[c, tuning]

    def work_of(self, c: int, tuning: Tuning) -> Work:
        cell = self.cells[c]
        cost = cell.group.cost(Calibration(tuning))
        loop, batch = ClosedLoop(cell.load, cell.places, cell.group.terms), self.batches[c]
        step = steps_of(cost, cell.load, batch, cell.group.terms)
        each = (getattr(step, f.name) + np.zeros(len(cell.at)) for f in fields(StepTimes))
        return Work(StepTimes(*each), loop.crowded_s(cost, step, batch))


def _cell(group: Group, rows: Sequence[Row], at: Sequence[int]) -> Cell:
    load = Rows.of(group, rows)
    traits = Traits.of(group.card, group.node_class.device, group.engine, group.used)
    places = Places.of(group.cost(), load, group.token_budget)
    return Cell(group, traits, load, places, np.asarray(at, dtype=np.int64))


def _as_one(parts: Sequence[Any]) -> Any:
    """Dataclasses of arrays, or of such dataclasses, one after the other as one."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    names = [field.name for field in fields(parts[0])]
    return type(parts[0])(*(_as_one([getattr(part, name) for part in parts]) for name in names))


Mask = NDArray[np.bool_]
