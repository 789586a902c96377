"""Tensor-parallel groups over GPUs of two classes: every division of the KV heads among up to MOST GPUs of
two classes in one zone, one share a class (`planner.cost.uneven_tp`).

No engine starts such a group as it comes: vLLM's patch for it was closed unmerged (pull 50735), llama.cpp
divides rows unevenly (`--split-mode row`) but keeps the KV cache whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from cluster_configs.schema import ClusterLink, NodeClass
from model_zoo.schema import Attention, ModelCard
from planner.candidates.ask import Ask
from planner.candidates.candidate import Key
from planner.candidates.setup import Made, Setup
from planner.cost.uneven_tp import UnevenModel, designs_of, group
from planner.designs.shape import Staging
from planner.replicas.kind import Space

MOST = 8
"""GPUs of a group."""


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each engine with its groups, where tensor-parallel groups may stand on two classes."""
    ask = space.ask
    wanted = ask.freedom and ask.freedom.shares and len(space.classes) > 1 and not ask.offload
    for engine in ask.mixing if wanted else ():
        s = setup(space.able(engine), space.links, engine, ask)
        if s is not None:
            yield Made.of(Key("", engine, kind), s, None, ("mixed",))


def setup(classes: Sequence[NodeClass], links: Sequence[ClusterLink], engine: str, ask: Ask) -> Setup | None:
    """All groups, with their memory; None where there are none."""
    found = list(groups(classes, ask.card))
    if not found:
        return None
    model = UnevenModel(ask.card, classes, links, found, engine, ask.precisions, ask.calibration)
    return ask.setup(model, designs_of(found), classes)


def groups(classes: Sequence[NodeClass], card: ModelCard) -> Iterator[Staging]:
    """Every division; none where attention has no KV heads of its own to divide (MLA, recurrent layers)."""
    heads = {m.kv_heads if isinstance(m, Attention) else 0 for m in card.mixers.values()}
    if len(heads) != 1 or 0 in heads:
        return
    of = heads.pop()
    for a, b in combinations(classes, 2):
        if a.zone != b.zone or a.device.name == b.device.name:
            continue
        for n in range(1, min(a.gpus_per_node, MOST) + 1):
            for m in range(1, min(b.gpus_per_node, MOST - n) + 1):
                for own in range(1, (of - m) // n + 1):
                    if (of - n * own) % m == 0:
                        yield group(a, n, own, b, m, (of - n * own) // m, len(card.stack))
