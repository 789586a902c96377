"""How much faster steps of a plan might be told and still pass: its times over the least by `roofline`."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check import weights
from planner.check.case import Case, open_case
from planner.check.roofline import Floors
from planner.plans.schema import Plan, Replica


def room(plan: Plan) -> Iterator[str]:
    """A line for each group of replicas whose steps were predicted; none for chains and measured ones."""
    case = open_case(plan)
    if not isinstance(case, Case):
        return
    for replica in case.plan.replicas:
        if times := times_above(case, replica):
            told = ", ".join(f"{what} {x:.3g} times the least" for what, x in times.items())
            yield f"{replica.id}: {told}"


def times_above(case: Case, replica: Replica) -> dict[str, float]:
    """By phase, the stated seconds over the least that is not refused, and the time that it is busy over what
    its FLOPs take; nothing of a phase that it does not do."""
    load = case.loads[replica.id]
    known = case.card is not None and weights.known(replica.precision)
    if not known or not load.rps or replica.role == "chain" or case.measured(replica):
        return {}
    assert case.card is not None
    floors, step = Floors(case, case.card, replica, load), replica.step
    least = {}
    if replica.role != "prefill" and load.decode_tok_per_s:
        least["decode steps"] = step.decode_s, floors.decode_floor_s()
    if replica.role != "decode":
        least["prompts"] = step.prefill_s, floors.prefill_floor_s()
    least["busy time"] = replica.utilisation, floors.busy()
    return {what: own / floor for what, (own, floor) in least.items() if floor > 0}
