"""From what was asked to the question that is solved: candidates, traffic, and an SLO that can be met.

A *default* SLO that nothing meets with a request at a time is relaxed to the tightest that can be met, with a
warning; one that was asked for is infeasible, unless requests that come more seldom still meet it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from planner.candidates.ask import Ask
from planner.candidates.deadline import late
from planner.candidates.mix import UNHURRIED_S, Promise
from planner.candidates.pairing import Edges
from planner.cost.idle_cache import resting_of
from planner.cost.student import deviations
from planner.designs.precision import precisions
from planner.drafts.kinds import drafts_of
from planner.engines import NAMES
from planner.errors import Infeasible
from planner.inputs.workload import LIMITS, Slo
from planner.plans import schema
from planner.problems.feeds import check_feeds, limits_of
from planner.problems.pairs import Traffic
from planner.question.asked import Asked
from planner.replicas.generate import finer, generate
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from planner.search.shortlists import unserved
from planner.why import infeasible
from solvers.linear import Limits


class NoRoom(Infeasible):
    """Weights and the cache of one request find no room, with host memory neither."""


def pose(asked: Asked) -> tuple[Asked, Pool, Question]:
    """Candidates that keep the SLO; a default SLO that nothing meets is relaxed to the tightest that can be
    met. Where GPUs alone don't hold the model and a request, with weights in host memory."""
    pool, question = pooled(asked)
    served = not unserved(question.state(pool, "bound"))
    if served and not _seldom(pool):
        return asked, pool, question
    if pool.late:
        raise late()  # what is not there may be among what was not looked at
    fixed = [f for f in LIMITS if f"slo.{f}" not in asked.defaulted]
    near = infeasible.tightest(pool, asked.workload.slo, fixed) if pool.fitting else None
    if near is None and not served:
        if not asked.offload:
            return _offloaded(asked, pool)
        raise NoRoom(f"{asked.card.name} does not fit, not even with weights in host memory")
    carries = _Carries(asked) if asked.workload.rate_rps is not None else None
    relaxed = _relaxed(asked, near, carries) if near else None
    if relaxed is None and served:
        return asked, pool, question
    if relaxed is not None:
        pool, question = pooled(relaxed)
    if relaxed is None or unserved(question.state(pool, "bound")):
        if pool.late:
            raise late()
        assert near is not None
        held = None if near.missed(asked.workload.slo) else infeasible.capped(asked.cluster)
        raise held or infeasible.too_slow(near, asked.workload.slo, carries)
    return relaxed, pool, question


def _seldom(pool: Pool) -> bool:
    """Whether all that decode hold less than a request on average."""
    return all(c.sequences < 1 for c in pool.candidates if c.role != "prefill")


def _offloaded(asked: Asked, pool: Pool) -> tuple[Asked, Pool, Question]:
    """With weights in host memory, where GPUs alone (`pool`) don't hold the model and a request."""
    try:
        return pose(replace(asked, offload=True))
    except NoRoom:
        raise infeasible.does_not_fit(asked.cluster, asked.card, asked.options, pool, ask_of(asked)) from None


@dataclass
class _Carries:
    """Whether the rate of a question can be served under another SLO, as far as is known; `undecided`:
    whether any of the searches was stopped before it said so."""

    asked: Asked
    undecided: bool = False

    def __call__(self, slo: Slo) -> bool:
        """Raises KeyboardInterrupt."""
        pool, question = pooled(self.asked.loaded(slo=slo))
        if unserved(question.state(pool, "bound")):
            self.undecided |= pool.late
            return False
        s = find(question, pool, Limits(gap=0.05, seconds=5.0)).solution.unbroken()
        self.undecided |= s.objective is None and not s.refuted
        return s.objective is not None


def ask_of(asked: Asked) -> Ask:
    """What candidates are asked for."""
    o, w = asked.options, asked.workload
    check_feeds(asked.cluster)
    return Ask(
        card=asked.card,
        precisions=precisions(asked.card, o.precision, o.kv_precision),
        engines=NAMES if o.engine == "any" else (o.engine,),
        workload=w,
        promise=Promise.of(w.slo, w.loop),
        objective=asked.objective,
        risk_z=deviations(1 - o.risk),
        watts_limited=o.budget.watts is not None,
        calibration=asked.calibration,
        freedom=asked.freedom,
        contexts=asked.contexts,
        offload=asked.offload,
        resting=resting_of(w),
        drafts=drafts_of(asked.card, o.speculation, o.acceptance, o.draft_tokens),
        busiest=o.max_utilisation,
        power_limits=limits_of(asked.cluster),
    )


def unhurried(asked: Asked) -> Pool:
    """Candidates that need not keep the limits by themselves: where means over all routes are limited. Raises
    OutOfTime."""
    ask = replace(ask_of(asked), waits=True)
    ask = replace(ask, promise=replace(ask.promise, ttft_s=UNHURRIED_S, tpot_s=inf))
    edges = Edges((UNHURRIED_S,), (inf,))
    pool = generate(asked.cluster.classes, ask, links=asked.cluster.links, edges=edges)
    return pool if asked.only is None else asked.only(pool, ask, asked.cluster)


def pooled(asked: Asked, given: Pool | None = None) -> tuple[Pool, Question]:
    """Candidates, and what is asked of them; `given` as in `generate`."""
    w, ask = asked.workload, ask_of(asked)
    pool = generate(asked.cluster.classes, ask, links=asked.cluster.links, given=given)
    if asked.only is not None:
        pool = asked.only(pool, ask, asked.cluster)
    first = next(iter(pool.made.values()), None)
    sent = first.setup.sent_bytes if first else np.zeros(len(w.buckets))
    traffic = Traffic.of(w, sent, ask.promise.ttft_s)

    def split(known: Pool, edges: Edges) -> Pool:
        return finer(known, ask, edges)

    o = asked.options
    return pool, Question(asked.cluster, w, traffic, asked.objective, o.budget, split, survive=o.survive)


def _relaxed(asked: Asked, near: infeasible.Tightest, carries: _Carries | None) -> Asked | None:
    """The workload with the defaulted limits loosened just enough; None where a limit that was asked for
    stands in the way."""
    slo = asked.workload.slo
    least = infeasible.loosened(near, slo)
    if least is None or least == slo:
        return None
    changed = [f for f in LIMITS if getattr(least, f) != getattr(slo, f)]
    if any(f"slo.{f}" not in asked.defaulted for f in changed):
        return None
    loose = infeasible.loosened(near, slo, carries) or least
    found = "; relaxed to the tightest that can be met"
    if carries is not None:  # requests that come more seldom may be answered sooner
        served = "until the rate asked for is served"
        until = "to what was found to be met in time" if carries.undecided else served
        found = f" with a request at a time; relaxed {until}"
    said = f"nothing meets the default SLO{found}: {changes(slo, loose)}"
    note = schema.PlanWarning(code="slo_relaxed", message=said)
    return replace(asked.loaded(slo=loose), warnings=[*asked.warnings, note])


def changes(before: Slo, after: Slo) -> str:
    """Limits that differ, in words."""
    both = {name: (getattr(before, name), getattr(after, name)) for name in LIMITS}
    changed = [f"{f.removesuffix('_ms').upper()} {a:g} -> {b:g} ms" for f, (a, b) in both.items() if a != b]
    return ", ".join(changed)
