"""What stands beside a plan: what other ways lose follows from their objectives and the plan's own. The other
plans themselves are not here."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check.case import Case
from planner.check.proof import sense
from planner.check.violation import EXACT, FIGURE, MODEL, Violation, at_most, same


def violations(case: Case) -> Iterator[Violation]:
    """Losses that the objectives of other ways do not give, and bounds that these cross."""
    for i, other in enumerate(case.plan.alternatives):
        where, least = f"alternatives[{i}]", None
        if other.bound is not None and other.objective is not None:
            least = worse(case, other.bound)
            if least > worse(case, other.objective) + EXACT:
                text = f"{other.bound:.6g}, its objective of {other.objective:.6g} is better"
                yield Violation("bound_crossed", f"{where}.bound", text)
        yield from _gaps(case, other.gaps_ms, f"{where}.gaps_ms")
        if other.status is not None:
            stopped = least if other.status == "stopped" else None  # of one that may yet get better
            yield from _loss(case, other.objective, other.loss, stopped, where)
    for i, assumed in enumerate(case.plan.assumptions):
        yield from _loss(case, assumed.objective, assumed.loss, None, f"assumptions[{i}]")


def _gaps(case: Case, gaps_ms: tuple[float, float] | None, where: str) -> Iterator[Violation]:
    """Between two tokens of the plan's requests there is a decode step at least."""
    steps = [
        r.step.decode_s
        for r in case.plan.replicas
        if r.role in ("mixed", "decode") and case.loads[r.id].decode_rps
    ]
    if gaps_ms is not None and not at_most(1e3 * max(steps, default=0.0), gaps_ms[1], MODEL):
        text = f"{gaps_ms[1]:.4g} ms between tokens, but decode steps take {1e3 * max(steps):.4g}"
        yield Violation("gap_wrong", where, text)


def worse(case: Case, objective: float) -> float:
    """By what part of the plan's own objective another is worse; below 0: better."""
    own = case.plan.proof.own
    less = own - objective if sense(case) == "max" else objective - own
    return less / abs(own) if own else 0.0


def _loss(
    case: Case, objective: float | None, loss: float | None, least: float | None, where: str
) -> Iterator[Violation]:
    """The loss of one way; `least`: what it loses at any rate, where it was not solved to its end."""
    if objective is None or loss is None:
        if objective is not loss:
            yield Violation(
                "loss_wrong", f"{where}.loss", f"a loss of {loss} with an objective of {objective}"
            )
        return
    own = worse(case, objective)
    own = max(min(own, own if least is None else least), 0.0)
    if not (abs(loss - own) <= EXACT or same(loss, own, FIGURE)):
        yield Violation("loss_wrong", f"{where}.loss", f"{loss:.6g}, its objective and bound give {own:.6g}")
