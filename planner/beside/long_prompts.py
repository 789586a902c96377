"""Long prompts: what each way to compute one over many GPUs gives, by itself: its first token and the room.

The plan's own way first, then the quickest pipeline, the quickest with its tokens divided (context
parallelism: a ring), both as an engine starts them; then what none starts as it comes, where its first token
is sooner than all of these: Ulysses, and unlike shares for unlike GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf

import numpy as np

from model_zoo.schema import Attention, Mla
from planner.asked import Asked
from planner.beside.lending import borrowed, room_tokens
from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.candidates.ask import CHUNKS, LONG
from planner.candidates.points import Setup, alone
from planner.cost.model import CostModel
from planner.cost.precision import precisions
from planner.cost.shape import Ints, like
from planner.cost.ulysses import degrees, with_ulysses
from planner.engine_rules import why_invalid
from planner.plans.found import Found, Group
from planner.plans.operation import index_of
from planner.plans.schema import LongPrompt
from planner.problems.contexts import Divided, state
from planner.why.infeasible import layout
from solvers import contexts

WORTH = 0.02
"""What borrowed cache must bring to be shown."""

TPS = (1, 2, 4, 8)
"""GPUs of a group that takes a share."""

MOST_CLASSES = 3
"""Classes among which unlike shares are looked for."""


@dataclass(frozen=True)
class Lone:
    """The quickest design of some for one prompt: seconds, tokens of cache it holds, design in words."""

    seconds: float
    kv_tokens: float
    words: str
    engine: str


def long_prompts(planned: Planned) -> list[LongPrompt]:
    """All ways, where the longest prompt is long and nothing lies in host memory."""
    asked, best, chosen = planned.asked, planned.found, planned.made
    if asked.workload.longest < LONG or asked.offload:
        return []
    own = _planned(chosen)
    rows = [*own, *_stock(best)]
    if asked.options.engine in ("any", "vllm"):
        soonest = min((row.ttft_ms for row in rows), default=inf)
        rows += [row for row in (*_ulysses(best), *unlike(asked, best)) if row.ttft_ms < soonest]
    return [*rows, *(_borrowed(best, chosen, own[0]) if own else [])]


def _row(what: str, lone: Lone, started_by: str | None, why: str = "") -> LongPrompt:
    return LongPrompt(
        what=f"{what}: {lone.words}",
        ttft_ms=1e3 * lone.seconds,
        kv_tokens=lone.kv_tokens,
        started_by=started_by,
        why=why,
    )


def _planned(chosen: Sequence[Group]) -> list[LongPrompt]:
    """Of the plan's groups that compute prompts, the quickest that holds the longest."""
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
    quickest = min(able, key=lambda lone: lone.seconds, default=None)
    return [_row("the plan", quickest, quickest.engine)] if quickest else []


def _borrowed(best: Found, chosen: Sequence[Group], planned: LongPrompt) -> list[LongPrompt]:
    """Where replicas lend each other cache, if that serves more."""
    both = borrowed(best, chosen)
    if both is None or both[1].rate <= (1 + WORTH) * both[0].rate:
        return []
    alone, lent = both
    tokens = sum(g.count * g.candidate.design.attn_dp * room_tokens(g) for g in chosen)
    gain = f"{lent.rate / alone.rate - 1:.0%} more requests/s" if alone.rate else "serves all buckets"
    why = f"{gain} than each by itself at the same pace; the longest context could be all their cache"
    what = f"cache borrowed from other replicas: {describe(chosen)}"
    row = LongPrompt(what=what, ttft_ms=planned.ttft_ms, kv_tokens=tokens, started_by=None, why=why)
    return [row]


def _stock(best: Found) -> Iterator[LongPrompt]:
    """The quickest with whole prompts on every rank, and with their tokens divided."""
    for what, divided in (("pipeline or tensor parallel", False), ("context parallel, a ring", True)):
        found = []
        for (where, _, _), s in best.pool.setups.items():
            index = np.flatnonzero((s.designs.cp > 1) == divided).astype(np.int64)
            found += _quickest(s, index, where)
        if found:
            lone = min(found, key=lambda lone: lone.seconds)
            yield _row(what, lone, lone.engine)


def _quickest(s: Setup, index: Ints, where: str, degree: int = 1) -> list[Lone]:
    """The design of `index` that has the first token first and holds the prompt; none where none does. With a
    `degree` heads are traded for tokens over so many groups."""
    index = index[(s.memory.kv_bytes[index] > 0) & (s.designs.gpus[index] <= s.model.most_gpus)]
    if not len(index):
        return []
    seconds, tokens = alone(s, index, with_ulysses(s.model, degree) if degree > 1 else None)
    seconds = np.where(tokens >= float(s.mix.isl.max()), seconds, np.inf)
    i = int(np.argmin(seconds))
    if not np.isfinite(seconds[i]):
        return []
    ring = int(s.designs.cp[index[i]]) // degree
    heads = [f"heads over {degree} groups"] if degree > 1 else []
    heads += [f"a ring of {ring}"] if heads and ring > 1 else []
    words = ", ".join([layout(s, int(index[i]), where), *heads, chunks(s)])
    return [Lone(float(seconds[i]), float(tokens[i]), words, s.model.engine)]


def chunks(s: Setup) -> str:
    """Tokens of a step, in words."""
    return f"chunks of {s.token_budget:,}"


def _ulysses(best: Found) -> Iterator[LongPrompt]:
    """The quickest with heads traded for tokens."""
    found = []
    for (where, engine, _), s in best.pool.setups.items():
        d, divided = s.designs, np.flatnonzero(s.designs.cp > 1)
        if engine != "vllm" or s.model.stagings:
            continue
        of: dict[int, list[int]] = {}
        for i in divided.tolist():
            for u in degrees(s.model.card, int(d.tp[i]), int(d.cp[i])):
                of.setdefault(u, []).append(i)
        for u, own in of.items():
            found += _quickest(s, np.array(own, dtype=np.int64), where, u)
    if found:
        why = "a vLLM plugin, Arctic Inference, does, without a ring"
        yield _row("Ulysses", min(found, key=lambda lone: lone.seconds), None, why)


def unlike(asked: Asked, best: Found) -> Iterator[LongPrompt]:
    """Unlike shares of the prompt for the groups of unlike classes, the quickest."""
    classes, card = asked.cluster.classes, asked.card
    kept = all(isinstance(mixer, Attention | Mla) for mixer in card.mixers.values())
    served = all((c.id, "vllm", 0) in best.pool.setups for c in classes)
    if not 2 <= len(classes) <= MOST_CLASSES or not kept or not served:
        return
    used = precisions(card, asked.options.precision, asked.options.kv_precision)
    models = {c.id: CostModel(card, c, "vllm", used, asked.calibration) for c in classes}
    sizes = {c.id: [tp for tp in TPS if tp <= c.gpus_per_node and _valid(models[c.id], tp)] for c in classes}
    isl = int(max(b.isl for b in asked.workload.buckets))
    made: list[tuple[float, contexts.Problem, contexts.Solution, dict[str, int], int]] = []
    for some in (some for n in range(2, len(classes) + 1) for some in combinations(classes, n)):
        for chosen in product(*(sizes[c.id] for c in some)):
            tp = {c.id: size for c, size in zip(some, chosen, strict=True)}
            own = {c.id: models[c.id] for c in some}
            each = (Divided(own, tp, isl, chunk) for chunk in CHUNKS[::-1])
            found = next(((d.chunk, p) for d in each if (p := state(asked.cluster, d))), None)
            solved = contexts.solve(found[1]) if found else None
            if found and solved:
                made.append((solved.seconds, found[1], solved, tp, found[0]))
    if made:
        seconds, p, s, tp, chunk = min(made, key=lambda m: m[0])
        words = " + ".join(
            f"{100 * sum(x for g, x in s.tokens.items() if g.rsplit('-', 1)[0] == c.id) / isl:.0f} % on "
            f"{c.gpus // tp[c.id]} x tp{tp[c.id]} {c.id}"
            for c in classes
            if c.id in tp
        )
        room = sum(g.most_tokens for g in p.groups)
        lone = Lone(seconds + max(m.tuning.request_s for m in models.values()), room, words, "vllm")
        why = f"chunks of {chunk:,} tokens, {_scarce(s)}"
        yield _row("context parallel, unlike shares", lone, None, why)


def _valid(m: CostModel, tp: int) -> bool:
    """Whether the engine starts the size and its weights find room."""
    room = m.memory(like(1, tp), CHUNKS[0], 1.0).kv_bytes[0] > 0
    return bool(room) and why_invalid(m.card, "vllm", tp=tp, moe_tp=tp) is None


def _scarce(s: contexts.Solution) -> str:
    """What the shares are held by."""
    worth = {name: 1e9 * price for name, price in s.second_per_byte.items() if price > 0}
    if worth:
        name, most = max(worth.items(), key=lambda item: item[1])
        return f"a GB of cache more on {name} is worth {most:.2g} s"
    return "all are through together"
