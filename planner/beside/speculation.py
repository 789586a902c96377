"""What drafting brings, or why it does not pay: the plan's question solved once without any drafts, or, where
the plan has none although it may, with drafts in every server that decodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.candidates import drafts
from planner.candidates.again import offered
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import Counts, undominated
from planner.explain.rivals import Rival, Rivals
from planner.plans.found import Found
from planner.search import restricted

WITHOUT, WITH = "no speculative decoding", "speculative decoding in every replica"


def drafting(rivals: Rivals, ask: Ask) -> None:
    """Its line, where drafts were asked for. Candidates that draft are made anew: those that others make
    pointless, the plan's have no more."""
    if not ask.drafts or ask.offload:
        return
    if any(g.candidate.draft for g in rivals.best.made):
        rival = rivals.where(lambda c: not c.draft)
        return rivals.show(rival, WITHOUT, "no fleet without drafts keeps the limits")
    best = rivals.best.found
    pool = replace(best.pool, candidates=tuple(_made(best, ask)))
    solve = partial(restricted, rivals.question, replace(best, pool=pool), _drafts, rivals.left)
    rivals.show(Rival.of(solve), WITH, "no fleet of replicas that draft keeps the limits")


def _made(best: Found, ask: Ask) -> list[Candidate]:
    """Candidates that draft, those undominated among themselves, and what only prefills."""
    counts, nodes = Counts.of(ask.objective, ask.watts_limited), {n.id: n for n in best.cluster.classes}
    made = [c for c in best.pool.candidates if c.role == "prefill" and not c.draft]
    for (where, engine, chunk, _), s in best.pool.drafted.items():
        at = ask.standing(nodes[where], engine, best.pool.pairing, chunk)
        made += offered(s, drafts.roles(s), at, best.pool, counts)
    return undominated(made, {n.id: n.gpus_per_node for n in nodes.values()}, counts)


def _drafts(c: Candidate) -> bool:
    return bool(c.draft) or c.role == "prefill"
