"""`meshwright explain PLAN.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from planner.cli import options as o
from planner.cli.help import opt

if TYPE_CHECKING:
    from planner.explain.why_not import Spec
    from planner.plans.schema import Alternative, Plan


def explain(
    plan: o.PlanArg = None,
    why_not: Annotated[
        list[str] | None, opt("--why-not", "As 'tp=8', 'engine=vllm role=mixed'; repeatable.", "DESIGN")
    ] = None,
    calibration: Annotated[str | None, opt("--calibration", "That the plan was made with.", "FILE")] = None,
    time_limit: Annotated[float, opt("--time-limit", "Seconds of each solve.", "S")] = 30.0,
    json: o.JsonOpt = False,
) -> None:
    """What holds a plan back, what would change it, and why it does not use another design.

    \b
    Examples:
      meshwright explain plan.json
      meshwright explain plan.json --why-not tp=8 --why-not 'engine=vllm role=mixed'

    Exit codes: 0 explained, 2 bad input.
    """
    from planner.cli.kept import last
    from planner.cli.output import print_json, stdout
    from planner.errors import InputError
    from planner.explain.why_not import parse
    from planner.plans.schema import Alternative
    from planner.plans.verified import read_sound

    if not 0.5 <= time_limit <= 1e5:
        raise InputError(f"{time_limit:g} s are not from 0.5 to 100,000", "--time-limit")
    specs = [parse(text) for text in why_not or []]
    read = read_sound(last(plan))
    lines = list[Alternative]()
    if specs and read.proof.status == "joint":
        text = "the plan was made with those of other models: designs of one alone do not compare with it"
        raise InputError(text, "--why-not", "plan the model by itself to ask that")
    if specs or (read.brief and read.replayed is None):
        read, lines = _again(read, specs, calibration, time_limit)
    if json:
        form = {
            "alternatives": [a.model_dump(mode="json") for a in read.alternatives],
            "prices": [p.model_dump(mode="json") for p in read.prices],
            "assumptions": [a.model_dump(mode="json") for a in read.assumptions],
            "why_not": [a.model_dump(mode="json") for a in lines],
        }
        print_json(form)
        return
    from planner.reports.explained import explained

    explained(read, lines, stdout())


def _again(
    read: Plan, specs: Sequence[Spec], calibration: str | None, time_limit_s: float
) -> tuple[Plan, list[Alternative]]:
    """The plan's question solved again: with `specs` a line for each, without them the plan with all that
    explains it. Raises InputError, Infeasible, OutOfTime."""
    from time import perf_counter

    from planner import api
    from planner.cli.progress import Status
    from planner.errors import InputError
    from planner.explain.why_not import asked_again, solved, why_not
    from solvers.linear import Limits

    asked = asked_again(read)
    if calibration is not None:
        asked = api.with_calibration(asked, calibration)
    elif (made := read.problem.calibration.get("name", "shipped")) != "shipped":
        raise InputError(f"the plan was made with `{made}`", "--calibration", "name the file again")
    limits = Limits(asked.options.gap, time_limit_s, seed=asked.options.seed)
    with Status() as tell:
        tell("solving the plan's question again")
        if not specs:
            return api.planned(asked, limits, perf_counter(), tell), []
        best = solved(asked, limits)
        tell("solving it with these designs alone")
        return read, why_not(best, specs, limits)
