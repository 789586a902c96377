"""What drafting brings, or why it does not pay: the plan's question solved once without any drafts, or, where
the plan has none although it may, with drafts in every server that decodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, told
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import undominated
from planner.plans.found import Found
from planner.plans.schema import Alternative
from planner.question.posed import ask_of
from planner.replicas.generate import every_offered
from planner.search.find import restricted

WITHOUT, WITH = "no speculative decoding", "speculative decoding in every replica"


def speculation(planned: Planned) -> list[Alternative]:
    """What drafting brings or costs, where drafts were asked for. Candidates that draft are made anew: those
    that others make pointless, the plan's have no more."""
    ask, found = ask_of(planned.asked), planned.found
    if not ask.drafts or not found.pool.drafts:
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
    pool, sizes = found.pool, {n.id: n.gpus_per_node for n in found.cluster.classes}
    prefilling = [c for c in pool.candidates if c.role == "prefill" and not c.draft]
    drafting = (made for key, made in pool.made.items() if key.draft)
    own, _ = every_offered(drafting, ask, pool.pairing, pool.edges)
    return undominated([*prefilling, *own], sizes, ask.counts)


def _drafts(c: Candidate) -> bool:
    return bool(c.draft) or c.role == "prefill"
