"""The plain fleet: what anyone would start first. One engine, replicas that do both phases, tensor parallel
alone, inside one class of nodes.

Its candidates are made anew: where a plain design is made pointless by another, the plan's have it no more.
"""

from __future__ import annotations

from dataclasses import replace

from planner.beside.rivals import Rival, Rivals
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate, Design
from planner.replicas.again import anew

PLAIN = "the plain fleet (one engine, tp alone)"

NEVER = "no replica of tensor parallelism alone keeps the limits"


def plain(rivals: Rivals, ask: Ask) -> None:
    """The line of the best plain fleet that one engine gives. None where the plan is such a fleet itself."""
    best, used = rivals.best.found, [g.candidate for g in rivals.best.made]
    if len({c.engine for c in used}) == 1 and all(is_plain(c) for c in used):
        return
    tps = {int(tp) for made in best.pool.plain for tp in made.setup.designs.tp}
    designs = [Design(tp=tp, moe_tp=tp) for tp in sorted(tps)]
    levels = {c.level for c in used} - {0}
    ended = []
    for engine in sorted({key.engine for key in best.pool.made}):
        own = replace(best.pool, made={k: m for k, m in best.pool.made.items() if k.engine == engine})
        bare = replace(ask, drafts=())
        ended.append(rivals.of(anew(own, best.cluster.classes, bare, ("mixed",), levels, designs)))
    rivals.show(max(ended, key=lambda r: _rank(rivals, r)), PLAIN, NEVER)


def is_plain(c: Candidate) -> bool:
    """Whether a replica is of one class, does both phases and has no parallelism but tp."""
    return c.role == "mixed" and not c.draft and c.design == Design(tp=c.design.tp, moe_tp=c.design.tp)


def _rank(rivals: Rivals, ended: Rival) -> tuple[int, float]:
    """How good a solve of one engine is: the best fleet first; without any, that none was found in time
    before that none can be."""
    if ended.fleet is None:
        return ended.ended == "none_found", ended.seconds
    return 2, rivals.best.gain(ended.fleet.objective)
