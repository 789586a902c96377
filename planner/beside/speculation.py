"""What drafting brings, or why it does not pay: the plan's question solved once without any drafts, or, where
the plan has none although it may, with drafts in every server that decodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, told
from planner.candidates import drafts
from planner.candidates.again import offered
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import Counts, undominated
from planner.plans.found import Found
from planner.plans.schema import Alternative
from planner.posed import ask_of
from planner.search.find import restricted

WITHOUT, WITH = "no speculative decoding", "speculative decoding in every replica"


def speculation(planned: Planned) -> list[Alternative]:
    """Its line, where drafts were asked for. Candidates that draft are made anew: those that others make
    pointless, the plan's have no more."""
    ask, found = ask_of(planned.asked), planned.found
    if not ask.drafts or not found.pool.drafted:
        return []
    solve = partial(restricted, planned.question, limits=planned.limits)
    if any(g.candidate.draft for g in planned.made):
        rival = Rival.of(partial(solve, found, lambda c: not c.draft))
        return [told(planned.fleet, rival, WITHOUT, "no fleet without drafts keeps the limits")]
    pool = replace(found.pool, candidates=tuple(_made(found, ask)))
    rival = Rival.of(partial(solve, replace(found, pool=pool), _drafts))
    return [told(planned.fleet, rival, WITH, "no fleet of replicas that draft keeps the limits")]


def _made(found: Found, ask: Ask) -> list[Candidate]:
    """Candidates that draft, those undominated among themselves, and what only prefills."""
    counts = Counts.of(ask.objective.goal, ask.watts_limited)
    nodes = {n.id: n for n in found.cluster.classes}
    made = [c for c in found.pool.candidates if c.role == "prefill" and not c.draft]
    for (where, engine, chunk, _), s in found.pool.drafted.items():
        at = ask.standing(nodes[where], engine, found.pool.pairing, chunk)
        made += offered(s, drafts.roles(s), at, found.pool, counts)
    return undominated(made, {n.id: n.gpus_per_node for n in nodes.values()}, counts)


def _drafts(c: Candidate) -> bool:
    return bool(c.draft) or c.role == "prefill"
