"""Two files of plans compared: what differs, what moves, and what it takes to come from one to the other. A
file holds a plan, or plans of several models, which are compared model by model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.errors import InputError
from planner.migration.migrate import migration
from planner.migration.schema import Migration
from planner.plans.diff import Change, near
from planner.plans.diff import diff as changes_between
from planner.plans.moves import Move, moves, summed
from planner.plans.schema import Plan
from planner.plans.schema.several import Several, Total

TOTALS = {"rps": "req/s", "share": "%", "out_tok_per_s": "tok/s", "gpus": "", "usd_per_hour": "USD/h"}
"""Units of what all models have together."""


@dataclass(frozen=True)
class Compared:
    """What changed in a line; the changes, the most important first, and the replicas that stand on other
    nodes; what it takes, or why that is not known."""

    summary: str
    changes: list[Change]
    moves: list[Move]
    migration: Migration | None
    unknown: str = ""

    @property
    def same(self) -> bool:
        """Whether there is no difference at all."""
        stays = self.migration is None or self.migration.nothing
        return stays and not self.changes and not self.moves


def compared(before: Plan | Several, after: Plan | Several) -> Compared:
    """All that differs. Node names are taken as they are: a node that was renamed is another one."""
    old, new = by_model(before), by_model(after)
    if isinstance(before, Plan) and isinstance(after, Plan):
        changes, moved = changes_between(before, after), moves(before, after)
    else:
        changes = [*_totals(before, after), *_by_model(old, new)]
        both = [name for name in old if name in new]
        moved = [
            replace(m, design=f"{name}: {m.design}") for name in both for m in moves(old[name], new[name])
        ]
    plans = [*old.values()], [*new.values()]
    summary = summed(*plans, (usd_per_hour(before), usd_per_hour(after)), moved)
    try:
        return Compared(summary, changes, moved, migration(*plans))
    except InputError as error:
        return Compared(summary, changes, moved, None, error.message)


def by_model(one: Plan | Several) -> dict[str, Plan]:
    """Plans by the names of their models."""
    if isinstance(one, Several):
        return dict(zip((d.model for d in one.models), one.plans, strict=True))
    return {str(one.problem.model.get("name", "")): one}


def usd_per_hour(one: Plan | Several) -> float | None:
    """What all nodes in use cost, one that several models share once; None where it is not known."""
    if isinstance(one, Several):
        return one.total.usd_per_hour
    return None if one.predicted.usd_per_hour is None else one.predicted.usd_per_hour.value


def _totals(before: Plan | Several, after: Plan | Several) -> Iterator[Change]:
    """What differs for all models together."""
    old, new = _total(before), _total(after)
    for name, unit in TOTALS.items():
        change = Change(f"total.{name}", getattr(old, name), getattr(new, name), unit)
        if not near(change):
            yield change


def _total(one: Plan | Several) -> Total:
    if isinstance(one, Several):
        return one.total
    gpus = sum(r.count * s.gpus for r in one.replicas for s in r.stages)
    p = one.predicted
    return Total(
        rps=p.rps.value, out_tok_per_s=p.out_tok_per_s.value, gpus=gpus, usd_per_hour=usd_per_hour(one)
    )


def _by_model(old: Mapping[str, Plan], new: Mapping[str, Plan]) -> Iterator[Change]:
    """What differs in each model's own plan, and models that only one side has."""
    for name in [*old, *(n for n in new if n not in old)]:
        if name in old and name in new:
            own = changes_between(old[name], new[name])
            yield from (replace(c, where=f"plans[{name}].{c.where}") for c in own)
        else:
            was, now = (plans[name].predicted.rps.value if name in plans else None for plans in (old, new))
            yield Change(f"plans[{name}].predicted.rps", was, now, "req/s")
