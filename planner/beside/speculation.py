"""What drafting brings, or why it does not pay: the plan's question solved once without any drafts, or, where
the plan has none although it may, with drafts in every server that decodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.candidates.again import anew
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate
from planner.explain.rivals import Rival, Rivals
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
    made = anew(best.pool, best.cluster.classes, ask)
    pool = replace(best.pool, candidates=made.candidates, setups=made.setups, drafted=made.drafted)
    solve = partial(restricted, rivals.question, replace(best, pool=pool), _drafts, rivals.left)
    rivals.show(Rival.of(solve), WITH, "no fleet of replicas that draft keeps the limits")


def _drafts(c: Candidate) -> bool:
    return bool(c.draft) or c.role == "prefill"
