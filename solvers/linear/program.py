"""Linear and integer programs: how a model is stated, and what a solve may claim.

A model is stated as in the textbooks (`m.add("stock", g, total(...) <= 8)`) and kept as flat lists, so that
building costs less than solving; `solvers.linear` has them solved.
Everything minimises. An `Outcome` never says more than what was proven: `bound` is the solver's dual bound,
`status` compares it with the value, and the solver's own word "optimal" is not used.

    gap = |bound - value| / |value|          (0 when both are 0)

Source of the pitfalls handled here: docs/decisions/0001-solvers.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Status = Literal["optimal", "within_gap", "time_limit", "interrupted", "infeasible", "unbounded"]
Floats = NDArray[np.float64]
INF = math.inf
EXACT = 1e-6
"""Relative distance below which a bound and a value are the same number: integers are kept to 1e-7."""


ENDLESS_S = 3600.0
"""Where nodes limit the search."""


@dataclass(frozen=True)
class Limits:
    """When to stop: relative gap, seconds, or branch-and-bound nodes (`work`: the same answer anywhere, so
    that the clock decides nothing, whatever seconds are asked for). `enough`: a wider gap, with which a
    search that takes long may end."""

    gap: float = 0.0
    seconds: float = 60.0
    work: int | None = None
    threads: int = 1
    seed: int = 0
    enough: float | None = None

    def __post_init__(self) -> None:
        if self.work is not None:
            object.__setattr__(self, "seconds", ENDLESS_S)


class Term(NamedTuple):
    """coefficient * variable. (A tuple, because a model has tens of thousands.)"""

    column: int
    coefficient: float

    def __le__(self, other: object) -> Expr:  # type: ignore[override]
        return Expr([self]) <= other

    def __ge__(self, other: object) -> Expr:  # type: ignore[override]
        return Expr([self]) >= other


class Var(NamedTuple):
    """A variable, by its column."""

    column: int

    def __mul__(self, coefficient: float) -> Term:  # type: ignore[override]
        return Term(self.column, float(coefficient))

    def __rmul__(self, coefficient: float) -> Term:  # type: ignore[override]
        return Term(self.column, float(coefficient))


@dataclass
class Expr:
    """A sum of terms, and after a comparison the limits it must keep."""

    terms: list[Term]
    lower: float = -INF
    upper: float = INF

    def __le__(self, other: object) -> Expr:
        return Expr(*_move(self.terms, other, upper=True))

    def __ge__(self, other: object) -> Expr:
        return Expr(*_move(self.terms, other, upper=False))

    def equals(self, other: object) -> Expr:
        """The row `self == other` (`==` itself stays Python's)."""
        terms, _, right = _move(self.terms, other, upper=True)
        return Expr(terms, right, right)


def _move(terms: list[Term], other: object, *, upper: bool) -> tuple[list[Term], float, float]:
    """Bring what is right of a comparison to the left."""
    right = 0.0
    if isinstance(other, Var):
        other = other * 1.0
    if isinstance(other, Term):
        terms = [*terms, Term(other.column, -other.coefficient)]
    elif isinstance(other, Expr):
        terms = terms + [Term(i, -c) for i, c in other.terms]
    else:
        right = float(other)  # type: ignore[arg-type]
    return terms, (-INF if upper else right), (right if upper else INF)


def total(terms: Iterable[Term | Var]) -> Expr:
    """The sum of `terms`."""
    return Expr([t if isinstance(t, Term) else t * 1.0 for t in terms])


@dataclass(frozen=True)
class Outcome:
    """What a solve proved. `value` and `bound` are None where there is none; `duals` only of a relaxation."""

    status: Status
    value: float | None
    bound: float | None
    values: Floats | None
    solver: str
    duals: Mapping[tuple[str, Hashable], float] = field(default_factory=dict)

    @property
    def has_values(self) -> bool:
        return self.values is not None

    @property
    def refuted(self) -> bool:
        """Whether there is said to be no solution. A search that ended before it found one or said so proves
        nothing: raises Undecided where a limit ended it, KeyboardInterrupt where Ctrl-C did."""
        if self.values is None and self.status != "infeasible":
            raise KeyboardInterrupt if self.status == "interrupted" else Undecided(self.status)
        return self.values is None

    def of(self, variables: Mapping[Any, Var]) -> dict[Any, float]:
        """Values of a family, exact zeros left out."""
        assert self.values is not None
        return {key: x for key, v in variables.items() if (x := float(self.values[v.column])) != 0.0}

    def counts(self, variables: Mapping[Any, Var]) -> dict[Any, int]:
        """Values of an integer family, rounded, zeros left out."""
        return {key: k for key, x in self.of(variables).items() if (k := round(x)) != 0}


class Undecided(Exception):
    """A search ended before it found a solution or said that there is none."""


class StatedTooLate(Exception):
    """The time of a solve was over before its model was stated."""


class Program:
    """A model to minimise: variables in families, rows named `family[key]`. Rows that are added after `until`
    (`time.perf_counter`) raise StatedTooLate."""

    def __init__(self, name: str, until: float = INF) -> None:
        self.name = name
        self.until = until
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.rows: dict[tuple[str, Hashable], Expr] = {}
        self.goal: list[Term] = []
        self.first: tuple[int, ...] = ()
        self.room: int | None = None
        self.families: set[str] = set()

    def integers(
        self, family: str, keys: Iterable[Any], upper: Mapping[Any, float] | float = INF
    ) -> dict[Any, Var]:
        """One integer variable >= 0 a key."""
        return self._variables(family, keys, upper, integer=True)

    def reals(
        self, family: str, keys: Iterable[Any], upper: Mapping[Any, float] | float = INF
    ) -> dict[Any, Var]:
        """One real variable >= 0 a key."""
        return self._variables(family, keys, upper, integer=False)

    def _variables(
        self, family: str, keys: Iterable[Any], upper: Mapping[Any, float] | float, *, integer: bool
    ) -> dict[Any, Var]:
        self.families.add(family)
        made: dict[Any, Var] = {}
        for key in keys:
            made[key] = Var(len(self.lower))
            self.lower.append(0.0)
            self.upper.append(upper[key] if isinstance(upper, Mapping) else upper)
            self.integer.append(integer)
        return made

    def fix(self, variable: Var, value: float) -> None:
        """Make `variable` the constant `value`."""
        self.lower[variable.column] = self.upper[variable.column] = value

    def decide(self, first: Iterable[Var], room: Var) -> None:
        """Few integers that the others nearly follow from: a search that takes long branches on them first
        (`deciding.py`). The more `room`, fixed in the model, could be with them, the likelier a plan."""
        self.first, self.room = tuple(v.column for v in first), room.column

    def minimise(self, terms: Iterable[Term]) -> None:
        self.goal = list(terms)

    def add(self, family: str, key: Hashable, row: Expr) -> None:
        """Add the row `family[key]`; a name used twice is a mistake in the formulation."""
        if time.perf_counter() > self.until:
            raise StatedTooLate(self.name)
        if (family, key) in self.rows:
            raise ValueError(f"row {family}[{key}] stated twice in {self.name}")
        self.rows[family, key] = row

    def columns(self) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """cost, lower, upper (columns,) and integrality (columns,) of the model."""
        cost = np.zeros(len(self.lower))
        for i, c in self.goal:
            cost[i] += c
        return cost, np.array(self.lower), np.array(self.upper), np.array(self.integer)

    def matrix(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, Floats, Floats]:
        """Rows, compressed: starts, indices, coefficients, lower, upper. Repeated terms are added up."""
        starts, indices, data = [0], list[int](), list[float]()
        for row in self.rows.values():
            merged: dict[int, float] = {}
            for i, c in row.terms:
                merged[i] = merged.get(i, 0.0) + c
            indices += merged.keys()
            data += merged.values()
            starts.append(len(indices))
        lower = np.array([r.lower for r in self.rows.values()])
        upper = np.array([r.upper for r in self.rows.values()])
        return np.array(starts, np.int32), np.array(indices, np.int32), np.array(data), lower, upper


def gap(value: float, bound: float) -> float:
    """|bound - value| / |value|, everywhere.

    >>> gap(100.0, 98.0)
    0.02
    """
    if value == bound:
        return 0.0
    return abs(bound - value) / abs(value) if value else INF


def met(value: float | None, bound: float | None, limits: Limits) -> bool:
    """Whether bound and value are near enough to each other for a search that takes long.

    >>> [met(100.0, bound, Limits(gap=0.0025, enough=0.01)) for bound in (99.0, 98.0, None)]
    [True, False, False]
    """
    if value is None or bound is None or not math.isfinite(value):
        return False
    return gap(value, bound) <= max(limits.gap, limits.enough or 0.0, EXACT)


def ended(outcome: Outcome, limits: Limits) -> bool:
    """Whether a search is over: for good, or near enough after long."""
    return outcome.status != "time_limit" or met(outcome.value, outcome.bound, limits)


def standing(bounds: Iterable[float | None], value: float | None) -> float | None:
    """The best of `bounds` that a plan of that `value` does not refute, and no more than it: HiGHS 1.12 has
    stated bounds above plans that there are.

    >>> standing([90.0, None, 98.0, 120.0], 100.0), standing([120.0], 100.0), standing([98.0], None)
    (98.0, None, 98.0)
    """
    most = INF if value is None else value + EXACT * max(1.0, abs(value))
    best = max((b for b in bounds if b is not None and b <= most), default=None)
    return best if best is None or value is None else min(best, value)


def better(one: Outcome, other: Outcome, limits: Limits) -> Outcome:
    """What two searches of the same program prove together."""
    if other.status not in ("time_limit", "interrupted") and other.value is None:
        return other if one.value is None else one
    found = min((one, other), key=lambda o: INF if o.value is None else o.value)
    bound = standing((one.bound, other.bound), found.value)
    return replace(found, bound=bound, status=judge(found.value, bound, limits, other.status))


def judge(value: float | None, bound: float | None, limits: Limits, stopped: Status) -> Status:
    """The status that bound and value prove, else why the solver stopped.

    >>> [judge(100.0, b, Limits(gap=0.02), "time_limit") for b in (100.0, 99.0, 90.0, None)]
    ['optimal', 'within_gap', 'time_limit', 'time_limit']
    """
    if value is None or bound is None:
        return stopped
    distance = gap(value, bound)
    if distance <= EXACT or abs(value - bound) <= 1e-9:
        return "optimal"
    return "within_gap" if distance <= limits.gap else stopped
