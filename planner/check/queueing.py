"""Little's law on the stored step times: what is promised per second must find room in the batch and in the
cache."""

from __future__ import annotations

from collections.abc import Iterator

from model_zoo.schema import ModelCard
from planner.check import idle_cache as kept
from planner.check import kv
from planner.check.case import Case, Load
from planner.check.violation import EXACT, FIGURE, GB, MODEL, Violation, at_most, same
from planner.inputs.workload import Bucket
from planner.plans.schema import Band, Replica, Stage

CAUTIOUS = 0.1  # at this risk or below a limit must hold at the upper edge of the 80 % band


def violations(case: Case) -> Iterator[Violation]:
    """Everything that does not fit in time."""
    for index, replica in enumerate(case.plan.replicas):
        where = f"replicas[{index}]"
        if not at_most(replica.utilisation, 1.0, MODEL):
            text = f"busy {replica.utilisation:.4g} of the time"
            yield Violation("utilisation_over", f"{where}.utilisation", text)
        most = 1.0 if case.measured(replica) else case.options.max_utilisation
        if replica.role == "prefill" and not at_most(replica.utilisation, most, FIGURE):
            text = f"busy {replica.utilisation:.4g} of the time, --max-utilisation is {most:g}"
            yield Violation("utilisation_over", f"{where}.utilisation", text)
        step = replica.step
        if step.decode_s and not at_most(step.engine_s, step.decode_s):
            text = f"the engine's share {step.engine_s:g} s exceeds the step of {step.decode_s:g} s"
            yield Violation("engine_over_step", f"{where}.step", text)
        if replica.role == "chain":  # a request holds a place on every node of its chain: `chain_nodes`
            continue
        yield from room(case, replica, where)
    yield from _fleet(case)
    yield from _promises(case)


def room(case: Case, replica: Replica, where: str) -> Iterator[Violation]:
    """What is in flight finds room in the batch and in the cache."""
    yield from _batch(replica, case.loads[replica.id], f"{where}.max_batch")
    if case.card is not None:
        yield from _cache(case, case.card, replica, where)


def sequences(replica: Replica, load: Load) -> float:
    """Sequences being decoded at once by the whole group: rate x (osl - 1) x step."""
    return load.decode_tok_per_s * replica.token_s if replica.role != "prefill" else 0.0


def _batch(replica: Replica, load: Load, where: str) -> Iterator[Violation]:
    """Sequences in flight within max_batch."""
    batch = replica.count * replica.max_batch
    if not at_most(sequences(replica, load), batch, MODEL):
        text = f"{sequences(replica, load):.4g} sequences decode at once by Little's law, room for {batch}"
        yield Violation("batch_over", where, text)


def resident_bytes(case: Case, card: ModelCard, replica: Replica, stage: Stage, load: Load) -> float:
    """Bytes of cache on one GPU of the stage, summed over replicas and attention-dp ranks, by Little's law.

    Half a prompt while it is prefilled, the prompt and half the answer while it is decoded; shared prefixes
    count once for all, so they are left out.
    """
    total = 0.0
    for bucket, rate in load.buckets:
        own = own_tokens(case, replica, bucket)
        if replica.role != "decode":
            total += rate * replica.step.prefill_s * kv.sequence_bytes(card, replica, stage, own / 2)
        if replica.role != "prefill":
            held = kv.sequence_bytes(card, replica, stage, own + bucket.osl / 2)
            total += rate * (bucket.osl - 1) * replica.token_s * held
    return total


def own_tokens(case: Case, replica: Replica, bucket: Bucket) -> float:
    """Tokens of a prompt that its sequence alone holds; kept for others they are its own while it runs, but
    for beginnings that many have."""
    if replica.kept is None:
        return bucket.isl * (1 - case.workload.prefix_hit)
    return max(bucket.isl - kept.begun_tokens(case), 1.0)


def _cache(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """What is resident fits kv_bytes on every stage, and kv_tokens."""
    load, servers = case.loads[replica.id], replica.count * replica.attn_dp
    shortest = max(min((own_tokens(case, replica, b) for b in case.workload.buckets), default=1.0), 1.0)
    for part in replica.memory:
        stage = replica.stages[part.stage]
        needed = resident_bytes(case, card, replica, stage, load)
        rests = kept.in_gpu_bytes(case, card, replica, stage) if replica.kept is not None else 0.0
        if not at_most(needed + rests, servers * part.kv_bytes, MODEL):
            text = f"{needed / servers / GB:.4g} GB resident on a GPU of stage {part.stage} by Little's law"
            reserved = f"{part.kv_bytes / GB:.4g} GB reserved"
            yield Violation("kv_over", f"{where}.memory", f"{text}, {reserved}")
            return
        token = kv.sequence_bytes(card, replica, stage, shortest) / shortest
        if token and not at_most(needed * replica.attn_dp / servers / token, replica.kv_tokens, MODEL):
            tokens = needed / replica.count / token
            text = f"{tokens:,.0f} tokens resident in one replica by Little's law, "
            yield Violation("kv_over", f"{where}.kv_tokens", f"{text}room for {replica.kv_tokens:,.0f}")
            return


def _fleet(case: Case) -> Iterator[Violation]:
    """Predicted latencies against the stored times of all groups and chains, and against their batches.

    A mean is no less than the mean of what each group takes; a percentile no less than what as many of all
    requests take at least. Of TTFT that says nothing over unlike prompts, and a median may lie below a mean.
    Latencies of chains are means, queueing included.
    """
    if not case.rps:
        return
    percentile = case.workload.slo.percentile
    predicted, chains = case.plan.predicted, case.plan.chains
    loads = [(case.groups[name], load) for name, load in case.loads.items()]
    known = 1.0 if percentile == "mean" else 0.0
    if percentile == "mean" or len(case.workload.buckets) == 1:
        times = [(load.rps, g.step.prefill_s) for g, load in loads if g.role not in ("decode", "chain")]
        times += [(case.chain_load.rps * chain.share, known * chain.ttft_s) for chain in chains]
        lone_s = _at(percentile, times)
        yield from _not_below("ttft_ms", predicted.ttft_ms.value, 1e3 * lone_s, "a mean prompt alone takes")
    decoding = [(load.decode_rps, g.token_s) for g, load in loads if g.role not in ("prefill", "chain")]
    decoding += [(case.chain_load.decode_rps * chain.share, known * chain.tpot_s) for chain in chains]
    if sum(rate for rate, _ in decoding) and percentile != "p50":
        step_ms = 1e3 * _at(percentile, decoding)
        yield from _not_below("tpot_ms", predicted.tpot_ms.value, step_ms, "decode steps alone take")
    alike = len({bucket.osl for bucket in case.workload.buckets}) == 1 or len(decoding) == 1
    if percentile == "mean" and alike and not chains:
        yield from _all_in_flight(case)


def _at(percentile: str, times: list[tuple[float, float]]) -> float:
    """The mean of (requests/s, seconds), or the seconds that a percentile of requests are within.

    >>> [_at(percentile, [(3.0, 1.0), (1.0, 9.0)]) for percentile in ("mean", "p50", "p95")]
    [3.0, 1.0, 9.0]
    """
    rate = sum(rate for rate, _ in times)
    if percentile == "mean":
        return sum(rate * seconds for rate, seconds in times) / rate
    left = float(percentile.removeprefix("p")) / 100 * rate * (1 - EXACT)
    for own, seconds in sorted(times, key=lambda one: one[1]):
        left -= own
        if left <= 0:
            return seconds
    return 0.0


def _not_below(name: str, value_ms: float, floor_ms: float, what: str) -> Iterator[Violation]:
    if not at_most(floor_ms, value_ms, MODEL):
        text = f"{value_ms:.5g} ms, but {what} {floor_ms:.5g} ms"
        yield Violation(f"{name.removesuffix('_ms')}_below_step", f"predicted.{name}", text)


def _all_in_flight(case: Case) -> Iterator[Violation]:
    """rate x (TTFT + (osl - 1) TPOT) within all batches; of TTFT only where one group does both phases, and
    of requests that come at random what the prompt itself takes: those that wait are in no batch."""
    predicted = case.plan.predicted
    serving = [case.groups[name] for name, load in case.loads.items() if load.rps]
    seconds = case.mean(lambda b: b.osl - 1) * predicted.tpot_ms.value / 1e3
    if all(group.role == "mixed" for group in serving):
        closed = case.workload.loop == "closed"
        alone_s = sum(case.loads[g.id].rps * g.step.prefill_s for g in serving) / case.rps
        seconds += predicted.ttft_ms.value / 1e3 if closed else alone_s
    room = sum(group.count * group.max_batch for group in serving if group.role != "prefill")
    if not at_most(case.rps * seconds, room, MODEL):
        text = f"{case.rps * seconds:.4g} requests in flight by Little's law, room for {room}"
        yield Violation("batch_over", "predicted", text)


def _promises(case: Case) -> Iterator[Violation]:
    """The rate asked for is served, and latencies keep the SLO unless the plan says that it was relaxed."""
    predicted, slo = case.plan.predicted, case.workload.slo
    stated = [replica for replica in case.plan.replicas if "utilisation" in replica.model_fields_set]
    busy = [replica.utilisation for replica in stated] if len(stated) == len(case.plan.replicas) else []
    value = predicted.utilisation.value
    if busy and not same(value, max(busy), FIGURE):
        text = f"{value:.4g}, but the busiest replicas are so for {max(busy):.4g} of the time"
        yield Violation("utilisation_wrong", "predicted.utilisation", text)
    rate = case.workload.rate_rps
    if rate is not None and not at_most(rate, predicted.rps.value, EXACT):
        text = f"{predicted.rps.value:.6g} req/s, asked for {rate:.6g}"
        yield Violation("rate_not_served", "predicted.rps", text)
    if case.has_warning("slo_relaxed"):
        return
    for name, band, limit in (
        ("ttft_ms", predicted.ttft_ms, slo.ttft_ms),
        ("tpot_ms", predicted.tpot_ms, slo.tpot_ms),
    ):
        if limit is not None and not at_most(_cautious(case, band), limit, MODEL):
            text = f"{_cautious(case, band):.5g} ms, the limit is {limit:g} ms"
            yield Violation("slo_missed", f"predicted.{name}", text)


def _cautious(case: Case, band: Band) -> float:
    """The value that must keep the limit. Groups that differ share one band in `predicted`, so it speaks of
    none of them."""
    kinds = {(replica.engine, stage.device) for replica in case.plan.replicas for stage in replica.stages}
    return band.high if case.options.risk <= CAUTIOUS and len(kinds) == 1 else band.value
