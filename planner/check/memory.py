"""Bytes per GPU: the weights that must be there, all parts within the capacity, the cache as large as its
tokens say and large enough for any one request.

Bands: stated weights may lie 2 % under our leanest count (ranks are padded up, never down, but engines fuse
and drop small tensors) and 30 % over our most generous one (padding of heads and vocabulary, scales
kept in fp32). Below the band a plan would not fit although it says so; above it the figure
belongs to another model or split.
"""

from __future__ import annotations

from collections.abc import Iterator

from model_zoo.schema import ModelCard
from planner.check import kv, weights
from planner.check.case import Case
from planner.check.roofline import ACTIVATION_BYTES
from planner.check.violation import EXACT, GB, MODEL, Violation, at_most
from planner.plans.schema import Replica, StageMemory

GENEROUS = 1.30


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the memory of the replicas."""
    for index, replica in enumerate(case.plan.replicas):
        where = f"replicas[{index}].memory"
        for number, part in enumerate(replica.memory):
            yield from _capacity(case, replica, part, f"{where}[{number}]")
            if case.card is not None and not case.measured(replica):
                yield from _weights(case, case.card, replica, part, f"{where}[{number}].weights_bytes")
                yield from _activations(case.card, replica, part, f"{where}[{number}].activation_bytes")
        if case.card is not None:
            yield from _cache(case, case.card, replica, f"replicas[{index}]")
            if not case.measured(replica):
                yield from _requests(case, case.card, replica, where)


def _capacity(case: Case, replica: Replica, part: StageMemory, where: str) -> Iterator[Violation]:
    """weights + cache + activations + reserve = capacity <= what the device has: all of it is accounted
    for."""
    used = part.weights_bytes + part.kv_bytes + part.activation_bytes + part.reserve_bytes
    if not case.measured(replica) and not at_most(part.capacity_bytes, used, MODEL):
        text = f"{used / GB:.3f} GB are accounted for, of {part.capacity_bytes / GB:.3f} GB"
        yield Violation("memory_unexplained", where, text)
    if not at_most(used, part.capacity_bytes, EXACT):
        text = f"{used / GB:.3f} GB on a GPU with {part.capacity_bytes / GB:.3f} GB"
        yield Violation("memory_over", where, text)
    node_class = case.classes.get(replica.stages[part.stage].node_class)
    if node_class and not at_most(part.capacity_bytes, node_class.device.memory_gb * GB, EXACT):
        device = node_class.device
        text = f"{part.capacity_bytes / GB:.3f} GB, but {device.name} has {device.memory_gb:g} GB"
        yield Violation("capacity_over", f"{where}.capacity_bytes", text)


def _weights(
    case: Case, card: ModelCard, replica: Replica, part: StageMemory, where: str
) -> Iterator[Violation]:
    """Stated weights against our own count of the stage's layers."""
    span = weights.stage_bytes(card, replica, part.stage, case.away(replica)).total
    own = part.weights_bytes - kv.beside_bytes(replica)
    if not own >= (1 - MODEL) * span.low:
        text = f"{own / GB:.3f} GB stated, its layers weigh at least {span.low / GB:.3f} GB"
        yield Violation("weights_understated", where, text)
    if not own <= GENEROUS * span.high:
        text = f"{own / GB:.3f} GB stated, its layers weigh at most {span.high / GB:.3f} GB"
        yield Violation("weights_overstated", where, text)


def _activations(card: ModelCard, replica: Replica, part: StageMemory, where: str) -> Iterator[Violation]:
    """The tokens of a step that the engine is told to take have at least their hidden states on a GPU."""
    if replica.max_batched_tokens is None:
        return
    least = replica.max_batched_tokens / replica.cp * card.hidden * ACTIVATION_BYTES
    if not at_most(least, part.activation_bytes, MODEL):
        text = f"{part.activation_bytes / GB:.3f} GB, hidden states of a step alone take {least / GB:.3f} GB"
        yield Violation("activations_understated", where, text)


def _cache(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """kv_tokens within kv_bytes on every stage, at the workload's mean context, over all attention-dp
    ranks."""
    context = longest_mean_context(case)
    for number, part in enumerate(replica.memory):
        stage = replica.stages[part.stage]
        per_sequence = kv.sequence_bytes(card, replica, stage, context)
        if not per_sequence:
            continue
        room = replica.attn_dp * context * part.kv_bytes / per_sequence
        if not at_most(replica.kv_tokens, room, MODEL):
            text = f"{replica.kv_tokens:,.0f} tokens, but memory[{number}] has room for {room:,.0f}"
            yield Violation("kv_tokens_over", f"{where}.kv_tokens", text)
            return


def _requests(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """Room for one whole request of every bucket that comes here, with its shared prefix; for its prompt
    where it is only prefilled."""
    for bucket, _ in case.loads[replica.id].buckets if replica.role != "chain" else ():
        tokens = bucket.isl + (0 if replica.role == "prefill" else bucket.osl - 1)
        for number, part in enumerate(replica.memory):
            needed = kv.sequence_bytes(card, replica, replica.stages[part.stage], tokens)
            if not at_most(needed, part.kv_bytes, MODEL):
                text = f"a request of {tokens:,} tokens takes {needed / GB:.4g} GB of cache, "
                text += f"of {part.kv_bytes / GB:.4g} GB"
                yield Violation("request_over", f"{where}[{number}].kv_bytes", text)
                return


def longest_mean_context(case: Case) -> float:
    """The longest that "mean context" can mean: of whole requests, or of sequences as decode steps meet them.

    A longer one takes no more bytes a token (windows and states are paid once), so nothing sound is refused.
    """
    whole, steps = case.mean(lambda b: b.isl + b.osl), case.mean(lambda b: b.osl - 1)
    met = case.mean(lambda b: (b.osl - 1) * (b.isl + b.osl / 2))
    return max(whole, met / steps if steps else 0.0)
