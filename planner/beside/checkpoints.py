"""The same model in other precisions of its weights, where that is asked for (`--precisions fp8,nvfp4`): the
best fleet of each, never taken by itself. Where a quantised checkpoint is known, it is that one, with the
matrices that it leaves in 16 bits; else the model's own, as engines quantise it when they load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner.beside.planned import Planned
from planner.beside.rivals import Rival, told
from planner.candidates.deadline import in_time
from planner.designs.precision import precision_named
from planner.errors import Infeasible
from planner.plans.found import Group
from planner.plans.operation import index_of
from planner.plans.schema import Alternative
from planner.question.asked import Asked
from planner.question.posed import pose
from planner.search.find import find

GIB = 2**30


def checkpoints(planned: Planned) -> Iterator[Alternative]:
    """A line for each precision that was asked about."""
    asked = planned.asked
    for name in asked.options.precisions or ():
        in_time()
        other, checkpoint = in_precision(asked, name)
        what = f"weights in {name}" + (f" ({checkpoint})" if checkpoint else "")
        try:
            _, pool, question = pose(other)
        except Infeasible as error:
            yield Alternative(what=what, objective=None, loss=None, why=error.message, status="infeasible")
            continue
        rival = Rival.of(partial(find, question, pool, planned.limits))
        remark = ""
        if rival.fleet is not None:
            less = weights_gib(planned.made) - weights_gib(rival.fleet.made)
            more = f"{abs(less):,.0f} GiB {'fewer' if less > 0 else 'more'} of weights on all GPUs"
            remark = f"{more}; not the checkpoint's own, check the quality"
        yield told(planned.fleet, rival, what, never="no fleet of it keeps the limits", remark=remark)


def in_precision(asked: Asked, name: str) -> tuple[Asked, str]:
    """The question of a checkpoint in another precision, and its name where one is known; limits are as they
    were found to be."""
    card = known(asked.card, name)
    if card is not None:
        options = asked.options.model_copy(update={"precision": None})
        return replace(asked, card=card, options=options, model_id=card.hf_id or card.name), card.name
    return replace(asked, options=asked.options.model_copy(update={"precision": name})), ""


def known(card: ModelCard, name: str) -> ModelCard | None:
    """The shipped card of the same model whose large matrices are in that precision; None: there is none, or
    it is the card itself."""
    want = precision_named(name)
    for other in sorted(n for n in catalog.names() if n.startswith(f"{card.name}-")):
        found = catalog.load(other)
        same = found.hidden == card.hidden and len(found.stack) == len(card.stack)
        if same and want in (found.weights.experts, found.weights.attention):
            return found
    return None


def weights_gib(made: Sequence[Group]) -> float:
    """Weights of all replicas of a fleet."""
    return sum(g.count * _of_replica(g) for g in made) / GIB


def _of_replica(g: Group) -> float:
    return float(g.setup.memory.weights_bytes[index_of(g.setup, g.candidate)]) * g.candidate.gpus
