"""The whole story in a page: read, pose, solve, explain, assemble, check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import ModelCard
from planner.calibration.counters import counted
from planner.candidates.deadline import deadline
from planner.cost.calibration import Calibration
from planner.errors import Infeasible, InputError, MeshwrightError, OutOfTime
from planner.fleet.finish import finish
from planner.fleet.solve import Posed, Solved, sound
from planner.inputs.workload import Workload
from planner.launch import launched
from planner.percentiles import plan as percentiles
from planner.plans import schema
from planner.plans.experts import read_loads
from planner.plans.meant import Meant
from planner.plans.verified import verified
from planner.problems.balance import Balanced
from planner.question.asked import LOADS, Asked, read
from planner.question.posed import pose
from planner.question.unheard import refuse
from planner.search.limits import LEAST_S
from planner.why.conflict import with_conflict
from planner.why.rare_lengths import with_rare_lengths
from solvers.linear import Limits

LOOKING_SHARE = 0.7
"""Share of the time limit that candidates are looked for at most; what is found by then is planned with."""

TRYING_SHARE = 0.6
"""Of the time limit, for plans that are tried in a replay; the last of them may end later."""

TRIALS = 5
"""Such plans, that share what is left of the time limit."""

Progress = Callable[[str], None]


def plan(
    cluster: str | Path | ResolvedCluster | None,
    model: str | ModelCard,
    *,
    gpus: str | None = None,
    workload: str | Path | Workload = "chat",
    isl: int | None = None,
    osl: int | None = None,
    rate: float | None = None,
    ttft_ms: float | str | None = None,
    tpot_ms: float | str | None = None,
    e2e_ms: float | str | None = None,
    percentile: str | None = None,
    loop: str | None = None,
    profile: str | Path | None = None,
    calibration: str | Path | Calibration | None = None,
    expert_loads: str | Path | None = None,
    trace: str | Path | None = None,
    work_limit: int | None = None,
    on_progress: Progress | None = None,
    explain: bool = True,
    brief: bool = False,
    **options: Any,
) -> schema.Plan:
    """The best plan for serving `model` on `cluster` (a path, a resolved cluster, or None with
    `gpus="8xH100"`).

    `options`: the fields of `planner.inputs.options.Options`; `budget` also as text. `work_limit`
    (branch-and-bound nodes) makes the answer the same on any machine. Without `explain` no alternatives, long
    prompts and prices: a fraction of the time; `brief`: of these what the first screen shows. Raises
    InputError, Infeasible, OutOfTime. The plan returned has passed `check`.
    """
    began = time.perf_counter()
    given = {
        **options,
        "isl": isl,
        "osl": osl,
        "rate": rate,
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "e2e_ms": e2e_ms,
        "percentile": percentile,
        "loop": loop,
        "profile": profile,
        "calibration": calibration,
        "expert_loads": expert_loads,
        "trace": trace,
    }
    asking = ask(cluster, model, gpus=gpus, workload=workload, work_limit=work_limit, **given)
    return answer(asking, began, on_progress or (lambda text: None), explain, brief)


@dataclass(frozen=True)
class Asking:
    """All that a plan is made from, read. Another process makes the same plan of it, where it finds the table
    `profile`."""

    asked: Asked
    limits: Limits
    profile: str | Path | None = None


def ask(
    cluster: str | Path | ResolvedCluster | None,
    model: str | ModelCard,
    *,
    gpus: str | None = None,
    workload: str | Path | Workload = "chat",
    work_limit: int | None = None,
    **given: Any,
) -> Asking:
    """What `plan` is asked for, by the same names, read and defaulted. Raises InputError."""
    profile, calibration = given.pop("profile", None), given.pop("calibration", None)
    expert_loads, trace = given.pop("expert_loads", None), given.pop("trace", None)
    loads = {name: given.pop(name, None) for name in LOADS}
    asked = read(cluster, model, gpus, workload, loads, counted(given), profile is not None, trace)
    heard = {
        "--calibration": calibration,
        "--expert-loads": expert_loads,
        "--workload": asked.workload.reuse,
        "--trace": asked.workload.idle,
        "--speculation": asked.options.speculation,
        "--survive": asked.options.survive,
    }
    refuse(heard, profile is not None, asked.options.engine)
    if calibration is not None:
        asked = with_calibration(asked, calibration)
    asked = with_loads(asked, expert_loads)
    limits = Limits(asked.options.gap, asked.options.time_limit_s, work_limit, seed=asked.options.seed)
    return Asking(asked, limits, profile)


def answer(
    asking: Asking,
    began: float,
    tell: Progress = lambda text: None,
    explain: bool = True,
    brief: bool = False,
) -> schema.Plan:
    """The best plan for what is asked; `began` on `time.perf_counter`. Raises as `plan` does."""
    asked, limits = asking.asked, asking.limits
    if asking.profile is not None:
        from planner.measured import plan_measured

        return plan_measured(asked, asking.profile, limits, began)
    if asked.options.engine == "chains":
        return _chained(asked, limits, began, tell)
    return planned(asked, limits, began, tell, explain, brief)


def planned(
    asked: Asked,
    limits: Limits,
    began: float,
    tell: Progress = lambda text: None,
    explain: bool = True,
    brief: bool = False,
) -> schema.Plan:
    """Replicas with all layers each: candidates, the fleet of them, and why this one; sized by a replay where
    arrivals are known and a percentile is promised."""
    if percentiles.known(asked):
        return _replayed(asked, limits, began, tell, explain, brief)
    tell("generating candidates")
    try:
        with deadline(began + LOOKING_SHARE * limits.seconds):
            posed = Posed(*pose(asked))
    except (Infeasible, OutOfTime) as error:
        made = _instead(asked, limits, began, tell) if isinstance(error, Infeasible) else None
        if made is None:
            raise _explained(error, asked, began + limits.seconds if explain else 0.0) from None
        return made
    until = began + limits.seconds if explain else 0.0
    tell(f"solving over {len(posed.pool.candidates)} candidates")
    try:
        return sound(posed, limits, began, lambda fleets: finish(fleets, began, until, brief=brief))
    except (Infeasible, OutOfTime) as error:
        raise _explained(error, posed.asked, until) from None


def _explained(error: Infeasible | OutOfTime, asked: Asked, end_s: float) -> MeshwrightError:
    """The error with what decides: few long requests, or else limits that cannot be kept together."""
    named = with_rare_lengths(error, asked, end_s)
    return with_conflict(named, asked, end_s) if named is error else named


def _replayed(
    asked: Asked, limits: Limits, began: float, tell: Progress, explain: bool, brief: bool
) -> schema.Plan:
    """The plan whose percentiles hold in a replay of the workload's own arrivals."""
    end, meant = began + limits.seconds, asked.workload

    def late() -> bool:
        return limits.work is None and time.perf_counter() > began + TRYING_SHARE * limits.seconds

    def solve(tight: Asked) -> tuple[schema.Plan, float, percentiles.Finish]:
        spare_s = max((end - time.perf_counter()) / TRIALS, LEAST_S)
        now, own = time.perf_counter(), limits if limits.work else replace(limits, seconds=spare_s)
        with deadline(now + LOOKING_SHARE * own.seconds):
            posed = Posed(*pose(tight))

        def finished(fleets: Solved, until: float, what: schema.Replayed | None = None) -> schema.Plan:
            return finish(fleets, began, until, Meant(meant, what), brief)

        fleets, plan = sound(posed, own, now, lambda f: (f, finished(f, 0.0)), hints=tight is asked)
        value = fleets.simple.chosen.solution.objective
        assert value is not None
        return plan, value, lambda what: finished(fleets, end if explain else 0.0, what)

    try:
        return percentiles.replayed(asked, solve, late, tell)
    except (Infeasible, OutOfTime) as error:
        raise _explained(error, asked, end if explain else 0.0) from None


def _chained(asked: Asked, limits: Limits, began: float, tell: Progress) -> schema.Plan:
    """Nodes with some of the layers each; the clock alone limits their search."""
    from planner.chains.plan import plan_chains

    tell("placing layers on nodes")
    limits = Limits(limits.gap, asked.options.time_limit_s, seed=limits.seed)
    return verified(launched(plan_chains(asked, limits, began)))


def _instead(asked: Asked, limits: Limits, began: float, tell: Progress) -> schema.Plan | None:
    """Chains over declared links, where any engine may do and no replica can; None: they can't either."""
    if asked.options.engine != "any" or not asked.cluster.links or asked.options.survive is not None:
        return None
    if asked.workload.slo.percentile != "mean":  # chains keep limits on means
        return None
    if "options.risk" in asked.defaulted:
        asked = asked.at_median
    if "arrivals" in asked.defaulted:
        asked = asked.in_a_closed_loop
    try:
        return _chained(asked, limits, began, tell)
    except (Infeasible, InputError):
        return None


def with_calibration(asked: Asked, calibration: str | Path | Calibration) -> Asked:
    """Predictions by a calibration, or by a file of one; one of another version is warned of. Raises
    InputError."""
    from planner.calibration import files  # only here: its forms take 30 ms to set up

    used = calibration if isinstance(calibration, Calibration) else files.read(calibration)
    old = files.outdated(used)
    notes = [schema.PlanWarning(code="calibration", message=old)] if old else []
    return replace(asked, calibration=used, warnings=[*asked.warnings, *notes])


def with_loads(asked: Asked, path: str | Path | None) -> Asked:
    """Experts' loads by a recording, or by the assumed law; balanced by the solver where they may be. Raises
    InputError."""
    tokens = None if path is None else read_loads(path, asked.card).tokens
    popularity = Balanced(tokens) if path is None else Balanced(tokens, Path(path).name)
    return replace(asked, calibration=replace(asked.calibration, popularity=popularity))
