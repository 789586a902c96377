"""No stored time is below physics: bytes that must move over peak bandwidth, FLOPs over the best FLOP/s that
any product of matrices was measured at on the device.

Every figure here errs low: precisions run at the fastest rate their format could use, sparse attention
reads only what it selects, experts are the expected number of distinct ones spread evenly, and tensors are
split as finely as any engine does. A step of pp stages carries a micro-batch of 1/pp of the sequences
through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from model_zoo.schema import ModelCard, MoeFfn
from planner.check import kv, weights
from planner.check.case import Case, Load
from planner.check.flops import StageWork, stage_work
from planner.check.violation import GB, MODEL, Violation, at_most
from planner.inputs.workload import Bucket
from planner.plans.schema import Replica

ACTIVATION_BYTES = 2.0  # bf16 hidden states between stages
PARTS = 0.02
"""Of a step, by which what it goes to may be apart from it."""


def violations(case: Case) -> Iterator[Violation]:
    """Stored step times below their floor, and rates that no hardware could compute."""
    if case.card is None:
        return
    for index, replica in enumerate(case.plan.replicas):
        load, known = case.loads[replica.id], weights.known(replica.precision)
        if known and load.rps and not case.measured(replica):
            floors = Floors(case, case.card, replica, load)
            yield from floors.violations(f"replicas[{index}]")


class Floors:
    """The floors of one group of replicas at a load."""

    def __init__(self, case: Case, card: ModelCard, replica: Replica, load: Load) -> None:
        self.case, self.card, self.replica, self.load = case, card, replica, load
        self.away = case.away(replica)
        self.devices = [case.classes[stage.node_class].device for stage in replica.stages]
        self.work = [stage_work(card, replica, i, device) for i, device in enumerate(self.devices)]
        classes = [case.classes[stage.node_class] for stage in replica.stages]
        around = pairwise([*classes, classes[0]])  # the last: the way back to the first stage
        self.links = [case.link(a, b) if a.id != b.id else None for a, b in around]

    def violations(self, where: str) -> Iterator[Violation]:
        """What is below its floor."""
        step, role = self.replica.step, self.replica.role
        if role != "prefill" and self.load.decode_tok_per_s:
            floor = self.decode_floor_s()
            if not at_most(floor, step.decode_s, MODEL):
                text = f"{step.decode_s:.4g} s, physics needs {floor:.4g} s"
                yield Violation("decode_below_roofline", f"{where}.step.decode_s", text)
            parts = sum(step.by.values())
            if step.by and abs(parts - step.decode_s) > PARTS * step.decode_s:
                text = f"its parts add up to {parts:.4g} s, not {step.decode_s:.4g} s"
                yield Violation("step_parts", f"{where}.step.by", text)
        if role != "decode":
            floor = self.prefill_floor_s()
            if not at_most(floor, step.prefill_s, MODEL):
                text = f"{step.prefill_s:.4g} s, physics needs {floor:.4g} s"
                yield Violation("prefill_below_roofline", f"{where}.step.prefill_s", text)
        # the hops of chains use a part of a group's layers, each another one: `chain_nodes` adds them up
        busy, stated = 0.0 if role == "chain" else self.busy(), self.replica.utilisation
        if not at_most(busy, 1.0, MODEL):
            text = f"its requests need {busy:.4g} times the FLOP/s that its busiest stage could reach"
            yield Violation("rate_above_roofline", where, text)
        if "utilisation" in self.replica.model_fields_set and not at_most(busy, stated, MODEL):
            text = f"busy {stated:.4g} of the time, at the best FLOP/s that were measured {busy:.4g}"
            yield Violation("utilisation_below_roofline", f"{where}.utilisation", text)

    def decode_floor_s(self) -> float:
        """Least seconds of one decode step: a micro-batch passes all stages, each at least its bytes or its
        FLOPs, and the declared links between them."""
        replica = self.replica
        if replica.role == "chain":  # stated for a full batch, whatever the load
            return self.step_floor_s(replica.max_batch)
        batch = sequences(self.case, replica, self.load) / replica.count / replica.pp
        message = batch * self.card.hidden * ACTIVATION_BYTES
        forth = sum(link.latency_s + message / link.bytes_per_s for link in self.links[:-1] if link)
        back = sum(link.latency_s for link in self.links[-1:] if link)
        return self.step_floor_s(batch) + forth + back

    def step_floor_s(self, batch: float) -> float:
        """Least seconds of all stages for a micro-batch of `batch` sequences."""
        replica, total = self.replica, 0.0
        for index, (stage, device, work) in enumerate(
            zip(replica.stages, self.devices, self.work, strict=True)
        ):
            cached = decode_mean(self.load, partial(kv.read_bytes, self.card, replica, stage))
            moved = (
                weight_read_bytes(self.card, replica, index, batch * self.verified, self.away)
                + batch / replica.attn_dp * cached
            )
            token_s = work.mixers_s + work.ffns_s + work.head_s + decode_mean(self.load, work.pairs_s)
            computed_s = batch * self.verified * token_s / stage.gpus
            total += max(moved / (device.memory_gb_per_s * GB), computed_s)
        return total

    def prefill_floor_s(self) -> float:
        """Least seconds of one mean prompt alone: its stages read their weights one after the other and
        compute at best at once; attention runs on the prompt's own rank, FFNs at best on all GPUs of the
        stage. Its activations pass the links at best while it is computed."""
        new = self.case.new_prompt(self.replica, self.load)
        read_s = compute_s = 0.0
        for index, (stage, device, work) in enumerate(
            zip(self.replica.stages, self.devices, self.work, strict=True)
        ):
            read = weight_read_bytes(self.card, self.replica, index, new, self.away)
            read_s += read / (device.memory_gb_per_s * GB)
            attention_s = new * work.mixers_s + work.prompt_pairs_s(self.load.prompt, new)
            own = attention_s / (stage.tp * self.replica.cp) + new * work.ffns_s / stage.gpus
            compute_s = max(compute_s, own)
        links = [link for link in self.links[:-1] if link]
        message = new * self.card.hidden * ACTIVATION_BYTES
        sent_s = max((message / link.bytes_per_s for link in links), default=0.0)
        return max(read_s, compute_s, sent_s) + sum(link.latency_s for link in links)

    def busy(self) -> float:
        """Least busy share of the busiest stage: FLOPs per second of all its requests over the most that its
        GPUs reach."""
        return max(
            sum(rate * self._request_s(work, bucket) for bucket, rate in self.load.buckets)
            / (stage.gpus * self.replica.count)
            for stage, work in zip(self.replica.stages, self.work, strict=True)
        )

    @property
    def verified(self) -> int:
        """Tokens that a step computes of each sequence: the next one and those that were drafted."""
        return 1 + (self.replica.draft.tokens if self.replica.draft else 0)

    def _request_s(self, work: StageWork, bucket: Bucket) -> float:
        """GPU-seconds that one request takes of one stage."""
        token_s, total, isl, osl = work.mixers_s + work.ffns_s, 0.0, bucket.isl, bucket.osl
        if self.replica.role != "decode":
            new = self.case.new_tokens(self.replica, bucket)
            total += new * token_s + work.prompt_pairs_s(isl, new)
        if self.replica.role != "prefill":
            pairs_s = (work.pairs_s(isl) + work.pairs_s(isl + osl)) / 2
            steps = (osl - 1) / self.replica.emitted
            total += steps * self.verified * (token_s + work.head_s + pairs_s)
        return total


def sequences(case: Case, replica: Replica, load: Load) -> float:
    """Sequences the group decodes at once, by Little's law: at the predicted TPOT where no other group
    shares in it."""
    tpot_s = replica.token_s
    decoding = [g for name, g in case.groups.items() if g.role != "prefill" and case.loads[name].rps]
    if len(decoding) == 1 and case.workload.slo.percentile == "mean":
        tpot_s = max(tpot_s, case.plan.predicted.tpot_ms.value / 1e3)
    return load.decode_tok_per_s * tpot_s


def decode_mean(load: Load, of_context: Callable[[float], float]) -> float:
    """Mean of a function of the context over the sequences met in decode steps: the mean of both ends of
    each answer, which errs low where the function grows ever slower."""
    weighted = sum(
        rate * (b.osl - 1) * (of_context(b.isl) + of_context(b.isl + b.osl)) / 2 for b, rate in load.buckets
    )
    return weighted / load.decode_tok_per_s


def weight_read_bytes(
    card: ModelCard, replica: Replica, index: int, tokens: float, away: weights.Away = weights.ALL_HERE
) -> float:
    """Bytes of weights that one GPU of the stage reads for a step of `tokens`: of the experts, those that
    are met at least, one copy of each."""
    parts = weights.stage_bytes(card, replica, index, away)
    first, end = replica.stages[index].layers
    moe = [layer.ffn for layer in card.stack[first:end] if isinstance(layer.ffn, MoeFfn)]
    copies = replica.redundant_experts
    shares = (distinct_share(ffn, tokens) * ffn.experts / (ffn.experts + copies) for ffn in moe)
    met = min(shares, default=0.0)
    return parts.attention.low + parts.dense.low + parts.head.low + met * parts.experts.low


def distinct_share(moe: MoeFfn, tokens: float) -> float:
    """Expected share of the experts that `tokens` tokens meet at least: popularity is exponential, as much as
    public runs show; alike experts would be met more.

    >>> round(distinct_share(MoeFfn(experts=8, top_k=2, inner=64), 4), 3)
    0.571
    """
    share = moe.top_k / moe.experts
    return tokens * share / (1 - share + tokens * share)
