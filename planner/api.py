"""The whole story in a page: read, pose, solve, explain, assemble, check."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from cluster_configs.schema import ResolvedCluster
from model_zoo.schema import ModelCard
from planner.beside.planned import Line, Planned
from planner.beside.rivals import told_once
from planner.beside.ways import WAYS
from planner.calibration.counters import counted
from planner.candidates.deadline import deadline
from planner.cost.calibration import Calibration
from planner.errors import Infeasible, InputError, OutOfTime
from planner.inputs.options import Survive
from planner.inputs.workload import Workload
from planner.launch import launched
from planner.percentiles import plan as percentiles
from planner.plans import schema
from planner.plans.assemble import assemble, proof
from planner.plans.experts import experts_of, read_loads
from planner.plans.found import Found
from planner.plans.insured import Insured
from planner.plans.meant import Meant, sized
from planner.plans.schema import Alternative, Assumption, LongPrompt, Price
from planner.plans.space import space_of
from planner.plans.strain import SLACK
from planner.plans.verified import Unsound, verified
from planner.problems.balance import Balanced
from planner.question.asked import Asked, problem_of, read
from planner.question.posed import pose
from planner.question.unheard import refuse
from planner.replicas.pool import Pool
from planner.search.changes import judged
from planner.search.find import find
from planner.search.limits import LEAST_S, left
from planner.search.question import Question
from planner.search.simple import Simple, kinds, simplest
from planner.why import shortage
from planner.why.conflict import with_conflict
from solvers.linear import Limits

SIMPLE_S = 2.0
"""At least, else half as long as the search took: seconds for fleets of fewer kinds of replica."""

TRIES = 4
"""Plans that may fail their check, one after the other, before that is an error."""

LOOKING_SHARE = 0.7
"""Share of the time limit that candidates are looked for at most; what is found by then is planned with."""

EXTRA_SHARE = 0.3
"""Share of the time limit for alternatives and prices together."""

LEAST_EXTRA_S = 0.2
"""Where the limit is spent: a plan without any explanation would be a riddle."""

TRYING_SHARE = 0.6
"""Of the time limit, for plans that are tried in a replay; the last of them may end later."""

TRIALS = 5
"""Such plans, that share what is left of the time limit."""

HINTS_S = 1.0
"""At least to look for what would help where there is no plan, beyond the limit if need be."""

EXTRA_NODES = 20
"""Explanations have one in so many of the nodes that limit the search."""

EXTRA_S = (1.0, 3.0)
"""At least and at most, else as long as the search took: they explain the plan, they don't make it better."""

LINES = {"alternatives": Alternative, "assumptions": Assumption, "long_prompts": LongPrompt, "prices": Price}
"""Lists of a plan, and the lines that stand in them."""

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
    profile: str | Path | None = None,
    calibration: str | Path | Calibration | None = None,
    expert_loads: str | Path | None = None,
    trace: str | Path | None = None,
    work_limit: int | None = None,
    on_progress: Progress | None = None,
    explain: bool = True,
    **options: Any,
) -> schema.Plan:
    """The best plan for serving `model` on `cluster` (a path, a resolved cluster, or None with
    `gpus="8xH100"`).

    `options`: the fields of `planner.inputs.options.Options`; `budget` also as text. `work_limit`
    (branch-and-bound nodes) makes
    the answer the same on any machine. Without `explain` no alternatives, long prompts and prices: a fraction
    of the time. Raises InputError, Infeasible, OutOfTime. The plan returned has passed `check`.
    """
    began = time.perf_counter()
    tell = on_progress or (lambda text: None)
    loads = {
        "isl": isl,
        "osl": osl,
        "rate": rate,
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "e2e_ms": e2e_ms,
        "percentile": percentile,
    }
    asked = read(cluster, model, gpus, workload, loads, counted(options), profile is not None, trace)
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
    if profile is not None:
        from planner.measured import plan_measured

        return plan_measured(asked, profile, limits, began)
    if asked.options.engine == "chains":
        return _chained(asked, limits, began, tell)
    return planned(asked, limits, began, tell, explain)


def planned(
    asked: Asked, limits: Limits, began: float, tell: Progress = lambda text: None, explain: bool = True
) -> schema.Plan:
    """Replicas with all layers each: candidates, the fleet of them, and why this one; sized by a replay where
    arrivals are known and a percentile is promised."""
    if percentiles.known(asked):
        return _replayed(asked, limits, began, tell, explain)
    tell("generating candidates")
    try:
        with deadline(began + LOOKING_SHARE * limits.seconds):
            asked, pool, question = pose(asked)
    except Infeasible as error:
        made = _instead(asked, limits, began, tell)
        if made is None:
            raise with_conflict(error, asked, began + limits.seconds if explain else 0.0) from None
        return made
    bound, unsound = None, None
    for _ in range(TRIES):
        tell(f"solving over {len(pool.candidates)} candidates")
        try:
            simple, extra = _fleet(asked, pool, question, limits, began, bound)
            return finish(asked, question, simple, extra, began, began + limits.seconds if explain else 0.0)
        except Unsound as error:
            bound, unsound = simple.best.solution.bound, error
            asked, pool = _without(asked, pool, simple, error)
        except (Infeasible, OutOfTime) as error:
            if unsound is None:
                raise with_conflict(error, asked, began + limits.seconds if explain else 0.0) from None
            break
    assert unsound is not None
    raise unsound


def _replayed(asked: Asked, limits: Limits, began: float, tell: Progress, explain: bool) -> schema.Plan:
    """The plan whose percentiles hold in a replay of the workload's own arrivals."""
    end, meant = began + limits.seconds, asked.workload

    def late() -> bool:
        return limits.work is None and time.perf_counter() > began + TRYING_SHARE * limits.seconds

    def solve(tight: Asked) -> tuple[schema.Plan, float, percentiles.Finish]:
        spare_s = max((end - time.perf_counter()) / TRIALS, LEAST_S)
        now, own = time.perf_counter(), limits if limits.work else replace(limits, seconds=spare_s)
        with deadline(now + LOOKING_SHARE * own.seconds):
            posed, pool, question = pose(tight)
        simple, extra = _fleet(posed, pool, question, own, now, None, hints=tight is asked)
        stop = end if explain else 0.0

        def finished(until: float, what: schema.Replayed | None = None) -> schema.Plan:
            return finish(posed, question, simple, extra, began, until, Meant(meant, what))

        value = simple.chosen.solution.objective
        assert value is not None
        return finished(0.0), value, lambda what: finished(stop, what)

    return percentiles.replayed(asked, solve, late, tell)


def _without(asked: Asked, pool: Pool, simple: Simple, error: Unsound) -> tuple[Asked, Pool]:
    """The pool without the designs of a plan that fails its check, and a word on that."""
    used = {*simple.chosen.solution.replicas, *simple.best.solution.replicas}
    rest = tuple(c for c in pool.candidates if c.id not in used)
    said = f"a better plan is not shown, as {error.message} (at {error.where}); please report this"
    told = schema.PlanWarning(code="unsound", message=said)
    return replace(asked, warnings=[*asked.warnings, told]), replace(pool, candidates=rest)


def _fleet(
    asked: Asked,
    pool: Pool,
    question: Question,
    limits: Limits,
    began: float,
    bound: float | None,
    hints: bool = True,
) -> tuple[Simple, Limits]:
    """The best fleet of the pool, the one of few kinds that is chosen, and limits for what explains it.
    `bound`: of a pool with more in it, where there was one. Raises Infeasible, with `hints` on what would
    help, and OutOfTime."""
    solving = time.perf_counter()
    until = time.monotonic() + (1 - EXTRA_SHARE) * max(began + limits.seconds - solving, LEAST_S)
    with deadline(began + limits.seconds):
        found = find(question, pool, left(limits, until))
    if bound is not None:
        found = replace(found, solution=judged(replace(found.solution, bound=bound), limits))
    if found.solution.objective is None:
        if not hints and found.solution.status == "infeasible":
            raise Infeasible("no fleet serves that much")
        until = time.monotonic() + began + limits.seconds - time.perf_counter()
        spare = replace(limits, seconds=max(left(limits, until).seconds, HINTS_S))
        raise shortage.explain(question, pool, found, spare)
    simple = Simple(found, found, ((kinds(found), found.solution.objective),))
    try:
        spent_s = max((time.perf_counter() - solving) / 2, SIMPLE_S)
        spent = replace(limits, seconds=min(left(limits, until).seconds, spent_s))
        with deadline(began + limits.seconds):
            simple = simplest(question, found, asked.options.simple, spent)
    except OutOfTime:
        pass  # the fleet that there is may have fewer kinds: nobody knows
    except KeyboardInterrupt:
        simple = replace(simple, chosen=interrupted(found), best=interrupted(found))
    took_s = min(max(time.perf_counter() - solving, EXTRA_S[0]), EXTRA_S[1])
    spare_s = max(began + limits.seconds - time.perf_counter(), LEAST_EXTRA_S)
    nodes = None if limits.work is None else max(limits.work // EXTRA_NODES, 1)
    extra = replace(limits, seconds=min(spare_s, took_s) / 2, work=nodes)
    return simple, extra


def _chained(asked: Asked, limits: Limits, began: float, tell: Progress) -> schema.Plan:
    """Nodes with some of the layers each; the clock alone limits their search."""
    from planner.chains.plan import plan_chains

    tell("placing layers on nodes")
    limits = Limits(limits.gap, asked.options.time_limit_s, seed=limits.seed)
    made = launched(plan_chains(asked, limits, began))
    verified(made)
    return made


def _instead(asked: Asked, limits: Limits, began: float, tell: Progress) -> schema.Plan | None:
    """Chains over declared links, where any engine may do and no replica can; None: they can't either."""
    if asked.options.engine != "any" or not asked.cluster.links or asked.options.survive is not None:
        return None
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


def finish(
    asked: Asked,
    question: Question,
    simple: Simple,
    extra: Limits,
    began: float,
    until: float = inf,
    meant: Meant | None = None,
) -> schema.Plan:
    """Explain within `extra` each, none begun after `until` (`time.perf_counter`), assemble and check a
    solved fleet. Ctrl-C while explaining ends that: the plan is there already."""
    found, lines = simple.chosen, list[Line]()
    planned, safe = Planned(asked, question, found, extra), None
    if asked.options.survive is not None:
        safe = insured(asked.options.survive, question, found, extra, explain=time.perf_counter() <= until)
    try:
        for way in WAYS:
            if found.solution.status != "interrupted" and time.perf_counter() <= until:
                with deadline(until), suppress(OutOfTime):
                    lines += way(planned)
    except KeyboardInterrupt:
        simple = replace(simple, best=interrupted(simple.best))
    warnings = [*asked.warnings, *unkept(asked, found), *undrafted(asked)]
    extras: dict[str, Any] = {"warnings": warnings, "insured": safe}
    for name, said in LINES.items():
        extras[name] = [line for line in lines if isinstance(line, said)]
    extras["alternatives"] = told_once(extras["alternatives"])
    extras["experts"] = experts_of(planned.made, extra)
    seconds, space = time.perf_counter() - began, space_of(asked, simple.best)
    made = planned.made
    if meant is not None:
        space = sized(space, asked.workload)
        found, made, sized_for = meant.fleet(found, made)
        extras |= {"replayed": meant.replayed, "sized_for": sized_for}
        asked = replace(asked, workload=meant.workload)
    proven = proof(simple.best, simple.chosen, simple.by_kinds, seconds, extra.seed, space)
    result = assemble(found, problem_of(asked), made, proven, extras)
    result = launched(result)
    verified(result)
    return result


def insured(survive: Survive, question: Question, found: Found, extra: Limits, explain: bool) -> Insured:
    """What is left of a fleet after each loss; where that is to be explained, beside the best that need not
    survive."""
    own = Insured.of(found, survive, replace(extra, gap=SLACK))
    if not explain:
        return own
    try:
        without = find(replace(question, survive=None), found.pool, extra).solution
    except KeyboardInterrupt:
        return own
    return replace(own, without=without)


def unkept(asked: Asked, found: Found) -> list[schema.PlanWarning]:
    """Reuse that no replica makes use of."""
    if not (asked.workload.reuse or asked.workload.idle):
        return []
    if any(found.candidates[c].level for c in found.solution.replicas):
        return []
    why = (
        "weights in host memory leave no engine that keeps it"
        if asked.offload
        else "none has room for it, or none would serve more by it"
    )
    message = f"no replica keeps KV cache between requests: {why}"
    return [schema.PlanWarning(code="reuse_unused", message=message)]


def undrafted(asked: Asked) -> list[schema.PlanWarning]:
    """Drafts that were asked for where no replica can have any."""
    if not (asked.options.speculation and asked.offload):
        return []
    message = "no replica drafts: drafts are not planned for weights in host memory"
    return [schema.PlanWarning(code="drafts_unused", message=message)]


def interrupted(found: Found) -> Found:
    """`found` as it stands: the search was broken off."""
    return replace(found, solution=replace(found.solution, status="interrupted"))
