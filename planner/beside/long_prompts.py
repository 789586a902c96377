"""Long prompts: what each way to compute one over many GPUs gives, by itself: its first token and the room.

The plan's own way first, then the quickest pipeline, the quickest with its tokens divided (context
parallelism: a ring), both as an engine starts them; then what none starts as it comes, where its first token
is sooner than all of these: Ulysses, and unlike shares for unlike GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from planner.beside.lending import lent_cache
from planner.beside.lone_prompts import Lone, chunks, line, quickest
from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.beside.ulysses import traded
from planner.beside.unlike_shares import unlike_shares
from planner.candidates.ask import LONG
from planner.candidates.points import alone
from planner.plans.found import Found, Group
from planner.plans.operation import index_of
from planner.plans.schema import LongPrompt

UNSTARTED = (traded, unlike_shares)
"""Ways that no engine starts as it comes, shown where their first token is sooner than all that one does."""


def long_prompts(planned: Planned) -> Iterator[LongPrompt]:
    """All ways, where the longest prompt is long and nothing lies in host memory."""
    asked = planned.asked
    if asked.workload.longest < LONG or asked.offload:
        return
    own = _planned(planned.made)
    started = [*own, *_stock(planned.found)]
    yield from started
    if asked.options.engine in ("any", "vllm"):
        soonest = min((row.ttft_ms for row in started), default=inf)
        yield from (row for way in UNSTARTED for row in way(planned) if row.ttft_ms < soonest)
    if own:
        yield from lent_cache(planned, own[0])


def _planned(chosen: Sequence[Group]) -> list[LongPrompt]:
    """The quickest of the plan's groups that compute prompts and hold the longest."""
    found = []
    for g in chosen:
        if g.candidate.role == "decode":
            continue
        index = np.array([index_of(g.setup, g.candidate)])
        seconds, tokens = alone(g.setup, index)
        words = f"{describe([g])}, {chunks(g.setup)}"
        found.append(Lone(float(seconds[0]), float(tokens[0]), words, g.candidate.engine))
    longest = max((lone.kv_tokens for lone in found), default=0.0)
    isl = max((float(g.setup.mix.isl.max()) for g in chosen), default=0.0)
    able = [lone for lone in found if lone.kv_tokens >= min(isl, longest)]
    first = min(able, key=lambda lone: lone.seconds, default=None)
    return [line("the plan", first, first.engine)] if first else []


def _stock(best: Found) -> Iterator[LongPrompt]:
    """The quickest with whole prompts on every rank, and with their tokens divided."""
    for what, divided in (("pipeline or tensor parallel", False), ("context parallel, a ring", True)):
        found = []
        for made in best.pool.bare:
            s = made.setup
            index = np.flatnonzero((s.designs.cp > 1) == divided).astype(np.int64)
            found += quickest(s, index, made.key.where)
        if found:
            lone = min(found, key=lambda lone: lone.seconds)
            yield line(what, lone, lone.engine)
