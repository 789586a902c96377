"""Drafted tokens: never more accepted than drafted, as many as was asked for, the drafter's weights in memory
and in the step, its kind one that the model has.

Of a drafter only what no engine can leave out is counted: its layers' matrices, split over all GPUs of the
stage, at the fewest bytes, read once for every drafted token.
"""

from __future__ import annotations

from collections.abc import Iterator

from model_zoo.schema import WEIGHT_BYTES, ModelCard
from planner.check import kv, weights
from planner.check.case import Case
from planner.check.roofline import Floors
from planner.check.violation import FIGURE, GB, MODEL, Violation, at_most, same
from planner.plans.schema import Draft, Replica

HEADS = ("mtp", "eagle")
"""Kinds whose cache of a prompt the decode server has from the prefill server's drafter."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with what replicas draft."""
    for index, replica in enumerate(case.plan.replicas):
        if replica.draft is not None:
            yield from _counts(case, replica, replica.draft, f"replicas[{index}].draft")
            if case.card is not None:
                yield from _drafter(case, case.card, replica, f"replicas[{index}]")
    yield from _pairs(case)
    yield from _tokens(case)


def _counts(case: Case, replica: Replica, draft: Draft, where: str) -> Iterator[Violation]:
    """Tokens drafted and accepted, and where drafting is started at all."""
    options = case.options
    if not at_most(draft.accepted, draft.tokens):
        text = f"{draft.accepted:.4g} of {draft.tokens} drafted tokens are accepted"
        yield Violation("accepted_over", f"{where}.accepted", text)
    if options.acceptance is not None:
        asked = sum(options.acceptance ** (i + 1) for i in range(draft.tokens))
        if not same(draft.accepted, asked, FIGURE):
            text = (
                f"{draft.accepted:.4g}, but {options.acceptance:g} for each of {draft.tokens} is {asked:.4g}"
            )
            yield Violation("accepted_wrong", f"{where}.accepted", text)
    if options.draft_tokens not in (None, draft.tokens):
        text = f"{draft.tokens} a step, asked for {options.draft_tokens}"
        yield Violation("draft_not_asked", f"{where}.tokens", text)
    if options.speculation is None:
        yield Violation("draft_not_asked", where, "drafts without --speculation")
    if replica.pp > 1 or replica.cp > 1:
        text = f"drafts with pp {replica.pp} and cp {replica.cp}: no engine is known to"
        yield Violation("draft_not_started", where, text)


def _drafter(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """A drafter that exists, lies on the GPUs beside the model, and is read in every step."""
    draft = replica.draft
    assert draft is not None
    if draft.kind == "mtp" and not card.mtp_layers:
        yield Violation("draft_not_started", f"{where}.draft.kind", f"{card.name} has no MTP layers")
    if draft.kind == "draft" and kv.model_of(draft) is None:
        yield Violation("draft_unknown", f"{where}.draft.model", "no card of a model that drafts")
    least = least_bytes(card, replica)
    if not at_most(least, draft.weights_bytes, MODEL):
        text = f"{draft.weights_bytes / GB:.3f} GB, its layers weigh at least {least / GB:.3f} GB"
        yield Violation("drafter_understated", f"{where}.draft.weights_bytes", text)
    if replica.role == "prefill" or not case.loads[replica.id].decode_tok_per_s:
        return
    floors = Floors(case, card, replica, case.loads[replica.id])
    bandwidth = floors.devices[-1].memory_gb_per_s * GB
    floor = floors.decode_floor_s() + draft.tokens * least / bandwidth
    if not at_most(floor, replica.step.decode_s, MODEL):
        text = f"{replica.step.decode_s:.4g} s, verifying and drafting take at least {floor:.4g} s"
        yield Violation("decode_below_drafting", f"{where}.step.decode_s", text)


def least_bytes(card: ModelCard, replica: Replica) -> float:
    """Bytes of the drafter's layers on one GPU at least."""
    model, layers = kv.drafter_of(card, replica)
    stage, own = replica.stages[-1], model.weights
    least = min(WEIGHT_BYTES[name] for name in (own.attention, own.dense, own.experts))
    split = weights.Split(stage.tp, stage.gpus, stage.gpus)
    parts = sum((weights.layer_params(layer, model.hidden, split) for layer in layers), weights.Parts())
    return least * (parts.attention.low + parts.dense.low + parts.experts.low)


def _pairs(case: Case) -> Iterator[Violation]:
    """Both servers of a pair are started with the same drafter, where it has a cache."""
    for number, route in enumerate(case.plan.routing):
        ends = [case.groups[name] for name in (route.prefill, route.decode) if name in case.groups]
        heads = (end.draft if end.draft and end.draft.kind in HEADS else None for end in ends)
        told = {(head.kind, head.tokens, head.accepted, head.option) if head else None for head in heads}
        if len(told) > 1:
            text = "one server of the pair has a drafter whose cache the other does not know"
            yield Violation("draft_unpaired", f"routing[{number}]", text)


def _tokens(case: Case) -> Iterator[Violation]:
    """TPOT x tokens of a step is no less than a step, where all that decode draft alike."""
    decoding = [g for name, g in case.groups.items() if g.role != "prefill" and case.loads[name].rps]
    if len(decoding) != 1 or decoding[0].draft is None or case.card is None:
        return
    (group,), percentile = decoding, case.workload.slo.percentile
    if percentile != "mean":
        return
    floor = Floors(case, case.card, group, case.loads[group.id]).decode_floor_s()
    step_s = case.plan.predicted.tpot_ms.value / 1e3 * group.emitted
    if not at_most(floor, step_s, MODEL):
        text = f"{group.emitted:.4g} tokens in {step_s:.4g} s, a step needs {floor:.4g} s"
        yield Violation("tpot_below_step", "predicted.tpot_ms", text)
