"""What else could have been run, what it loses, and why: the next best kinds of fleet, the plain one, and the
other way to treat the phases, and each without something that the plan makes use of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.beside.next_best import next_best
from planner.beside.plain import plain
from planner.beside.planned import Planned
from planner.beside.reasons import lacking
from planner.beside.rivals import Rivals
from planner.beside.thin_links import too_thin
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate
from planner.plans.schema import Alternative
from planner.question.posed import ask_of
from planner.replicas.unpaired import not_at_all, not_between

RUNNERS_UP = 2

UNSPLIT = "no prefill/decode split"
"""What a fleet of replicas that do both phases is called beside one with a split."""

USES: Mapping[str, Callable[[Candidate], bool]] = {
    "one device class a replica": lambda c: bool(c.design.stages),
    "no copies of experts": lambda c: bool(c.design.redundant),
    "no KV cache kept between requests": lambda c: bool(c.level),
}
"""What a plan may make use of, by what it is called to do without."""


def alternatives(planned: Planned) -> list[Alternative]:
    """Fleets that the same question allows, the best first."""
    ask, rivals = ask_of(planned.asked), Rivals.within(planned.question, planned.found, planned.limits)
    if not ask.offload:  # there all do both phases on what GPUs alone do not hold
        _other_phases(rivals, ask)
        _without(rivals)
    for rival, fleet in next_best(rivals, RUNNERS_UP):
        rivals.show(rival, lacking(rivals.best, fleet))
    if ask.offload:
        return rivals.shown
    plain(rivals, ask)
    return rivals.shown + too_thin(planned.found, planned.made)


def other_phases(planned: Planned) -> list[Alternative]:
    """The best fleet that treats the phases the other way."""
    ask, rivals = ask_of(planned.asked), Rivals.within(planned.question, planned.found, planned.limits)
    if not ask.offload:
        _other_phases(rivals, ask)
    return rivals.shown


def _other_phases(rivals: Rivals, ask: Ask) -> None:
    """Prefill split from decode where the plan doesn't, and the other way round."""
    pool, split = rivals.best.found.pool, any(g.candidate.role != "mixed" for g in rivals.best.made)
    what = UNSPLIT if split else "prefill/decode split"
    ways = "replicas that do both phases" if split else "pairs of prefill and decode replicas"
    never = f"no fleet of {ways} keeps the limits"
    if not split and (between := not_between(pool, ask.card)):
        never += f"; none is between classes: {between}"
    why = (not split and not_at_all(pool, ask.card)) or never
    if all(b.osl == 1 for b in rivals.best.found.workload.buckets):
        why = "answers of one token need no decode"
    rivals.show(rivals.where(lambda c: (c.role == "mixed") == split), what, why)


def _without(rivals: Rivals) -> None:
    """Without what the plan makes use of."""
    for what, uses in USES.items():
        if not rivals.overdue and any(uses(g.candidate) for g in rivals.best.made):
            never = f"no fleet with {what} keeps the limits"
            rivals.show(rivals.where(_not(uses)), what, never)


def _not(uses: Callable[[Candidate], bool]) -> Callable[[Candidate], bool]:
    return lambda c: not uses(c)
