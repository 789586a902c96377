"""What changed between two plans: replicas, promises, proof, and the question itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from planner.plans.schema import Band, Plan, Replica
from planner.reading.units import sizes_in_words

UNITS = {
    "tok_per_s": "tok/s",
    "gb_per_s": "GB/s",
    "usd_per_hour": "USD/h",
    "usd_per_gpu_hour": "USD/h a GPU",
    "usd_per_mtok": "USD a million output tokens",
    "joules_per_tok": "J a token",
    "tflops": "TFLOP/s",
    "watts": "W",
    "rps": "req/s",
    "_ms": "ms",
    "_gb": "GB",
    "isl": "tokens",
    "osl": "tokens",
    "kv_tokens": "tokens",
    "max_batch": "sequences",
    "utilisation": "%",
    "chance_ttft": "%",
    "chance_tpot": "%",
    "proof.gap": "%",
    "given_up": "%",
    "_s": "s",
}
"""Units by the endings of the names of fields; "%": a share."""

TOLERANCE = 1e-6
"""Relative: what differs by less is the same."""


@dataclass(frozen=True)
class Change:
    """One difference: `where` in the plan, and the values before and after; None = not there. `unit` of
    both; "%" says that they are shares of 1."""

    where: str
    before: Any
    after: Any
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        """after / before - 1 for two numbers; None where that means nothing.

        >>> Change("predicted.rps", 4.0, 5.0).ratio
        0.25
        """
        numbers = all(
            isinstance(x, int | float) and not isinstance(x, bool) for x in (self.before, self.after)
        )
        return self.after / self.before - 1 if numbers and self.before else None


def diff(before: Plan, after: Plan, tolerance: float = TOLERANCE) -> list[Change]:
    """Every difference that matters, most important first. Ids, node names, order and timing don't matter."""
    changes = [*_replicas(before, after), *_predicted(before, after), *_proof(before, after)]
    changes += _tree("problem", before.problem.model_dump(), after.problem.model_dump())
    changes += _warnings(before, after)
    of_goal = after.proof.unit if after.proof.unit == before.proof.unit else ""
    return [replace(c, unit=_unit(c, of_goal)) for c in changes if not near(c, tolerance)]


def _unit(change: Change, of_goal: str) -> str:
    """The unit of a change's numbers; `of_goal`: of the plans' objective, where they have the same."""
    if not any(isinstance(x, int | float) for x in (change.before, change.after)):
        return ""
    if change.where in ("proof.objective", "proof.bound", "proof.chosen"):
        return of_goal
    return next((unit for ending, unit in UNITS.items() if change.where.endswith(ending)), "")


def design(replica: Replica) -> str:
    """A replica in one line, without its id: what two plans have in common.

    Layers are named only where stages have different devices.
    """
    r = replica
    experts = {"moe_tp": r.moe_tp, "ep": r.ep} if r.ep > 1 else {}
    sizes = f"tp{r.tp} {sizes_in_words(pp=r.pp, dp=r.attn_dp, cp=r.cp, **experts)}".rstrip()
    classes = [stage.node_class for stage in replica.stages]
    if len(set(classes)) == 1:
        place = classes[0]
    else:
        place = " + ".join(f"{s.node_class}[{s.layers[0]}:{s.layers[1]}]" for s in replica.stages)
    used = replica.precision
    return f"{replica.role} {sizes} on {place}, {replica.engine}, {used.weights}/{used.experts}/kv {used.kv}"


def _replicas(before: Plan, after: Plan) -> Iterator[Change]:
    """Counts by design; then, for designs in both, the operating points."""
    old, new = (_by_design(plan) for plan in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        counts = [sum(r.count for r in side.get(name, [])) or None for side in (old, new)]
        yield Change(f"replicas[{name}].count", counts[0], counts[1])
    for name in old.keys() & new.keys():
        for field in ("max_batch", "kv_tokens"):
            sides = [sorted(getattr(r, field) for r in side[name]) for side in (old, new)]
            if len(sides[0]) == len(sides[1]) == 1:
                yield Change(f"replicas[{name}].{field}", sides[0][0], sides[1][0])


def _by_design(plan: Plan) -> dict[str, list[Replica]]:
    found: dict[str, list[Replica]] = {}
    for replica in plan.replicas:
        found.setdefault(design(replica), []).append(replica)
    return found


def _predicted(before: Plan, after: Plan) -> Iterator[Change]:
    for name in type(before.predicted).model_fields:
        sides: list[Band | float | None] = [getattr(plan.predicted, name) for plan in (before, after)]
        old, new = (side.value if isinstance(side, Band) else side for side in sides)
        yield Change(f"predicted.{name}", old, new)


def _proof(before: Plan, after: Plan) -> Iterator[Change]:
    for name in ("objective", "bound", "gap", "status", "sense", "unit", "chosen", "given_up"):
        yield Change(f"proof.{name}", getattr(before.proof, name), getattr(after.proof, name))


def _tree(where: str, before: Any, after: Any) -> Iterator[Change]:
    """Leaves that differ between two trees of dicts and lists."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _tree(f"{where}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from _tree(f"{where}[{index}]", left, right)
    elif before != after:
        yield Change(where, before, after)


def _warnings(before: Plan, after: Plan) -> Iterator[Change]:
    """Warnings by code and message."""
    old, new = (Counter(f"{w.code}: {w.message}" for w in plan.warnings) for plan in (before, after))
    for text in (old - new).elements():
        yield Change("warnings", text, None)
    for text in (new - old).elements():
        yield Change("warnings", None, text)


def near(change: Change, tolerance: float = TOLERANCE) -> bool:
    """Whether the two sides are the same, numbers up to a relative `tolerance`."""
    before, after = change.before, change.after
    if isinstance(before, int | float) and isinstance(after, int | float):
        return abs(after - before) <= tolerance * max(abs(before), abs(after))
    return bool(before == after)
