"""A long prompt divided over groups of unlike GPUs, each with its own share of the tokens, so that all are
through together. No engine starts unlike shares as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from model_zoo.schema import Attention, Mla
from planner.beside.lone_prompts import Lone, line
from planner.beside.planned import Planned
from planner.candidates.ask import CHUNKS
from planner.candidates.candidate import Key
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.plans.schema import LongPrompt
from planner.problems.contexts import Divided, state
from planner.rules.designs import why_invalid
from solvers import contexts

TPS = (1, 2, 4, 8)
"""GPUs of a group that takes a share."""

MOST_CLASSES = 3
"""Classes among which unlike shares are looked for."""


def unlike_shares(planned: Planned) -> Iterator[LongPrompt]:
    """Unlike shares of the prompt for the groups of unlike classes, the quickest."""
    asked, best = planned.asked, planned.found
    classes, card = asked.cluster.classes, asked.card
    kept = all(isinstance(mixer, Attention | Mla) for mixer in card.mixers.values())
    served = all(Key(c.id, "vllm") in best.pool.made for c in classes)
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
        started_s = max(float(m.tuning.started_s(isl)) for m in models.values())
        lone = Lone(seconds + started_s, room, words, "vllm")
        why = f"chunks of {chunk:,} tokens, {_scarce(s)}"
        yield line("context parallel, unlike shares", lone, None, why)


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
