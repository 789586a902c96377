"""The way of requests through the fleet, with rates: prefill, the cache that moves, decode. Where the time
goes: a request's, and a step's by kind of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from planner.plans.schema import Plan, Replica, Route
from planner.reports import words as say
from planner.reports.page.adapted import blocks
from planner.reports.page.blocks import (
    Bar,
    Bars,
    Block,
    Flow,
    Folded,
    Key,
    Part,
    Section,
    Stop,
    Words,
    in_row,
)
from planner.reports.terminal import chains, routing

MOST = 6
"""Chains that are drawn."""


def section(plan: Plan) -> Section:
    """A lane for requests that stay on one server, for those that change from prefill to decode, for
    chains."""
    found: list[Block] = [*_lanes(plan)]
    if len(plan.problem.workload["buckets"]) > 1 or len(plan.routing) > 1:
        found.append(Folded("Every way by itself", tuple(blocks(routing(plan), "Ways of requests"))))
    if plan.chains:
        found.append(Folded("Chains", tuple(blocks(chains(plan), "Chains of nodes"))))
    return Section("flow", "The way of a request", tuple(found))


def rates(plan: Plan) -> list[tuple[Route, float]]:
    """Each way with its requests/s."""
    buckets = plan.problem.workload["buckets"]
    total = sum(b["share"] for b in buckets)
    each = [plan.predicted.rps.value * b["share"] / total for b in buckets]
    return [(route, route.share * each[route.bucket]) for route in plan.routing]


def _lanes(plan: Plan) -> Iterator[Flow]:
    ways = rates(plan)
    lone = [(r, rate) for r, rate in ways if r.replica]
    pairs = [(r, rate) for r, rate in ways if r.prefill]
    chained = sum(rate for r, rate in ways if r.chains)
    if pairs:
        yield _pairs(plan, pairs)
    if lone:
        met: dict[str, float] = defaultdict(float)
        for r, rate in lone:
            met[r.replica or ""] += rate
        title = "Prefill and decode on the same servers"
        stops = (
            _asked(plan, sum(met.values())),
            Stop(title, "mixed", _groups(plan, met)),
            _answered(plan, met),
        )
        yield Flow("Requests that one server answers", stops)
    if chained:
        yield _chained(plan, chained)


def _pairs(plan: Plan, pairs: list[tuple[Route, float]]) -> Flow:
    first: dict[str, float] = defaultdict(float)
    second: dict[str, float] = defaultdict(float)
    for r, rate in pairs:
        first[r.prefill or ""] += rate
        second[r.decode or ""] += rate
    moved = sum(r.kv_gb_per_s or 0.0 for r, _ in pairs)
    note = f"{say.number(moved)} GB/s from prefill to decode"
    stops = (
        _asked(plan, sum(first.values())),
        Stop("Prefill: the prompt is read", "prefill", _groups(plan, first)),
        Stop("KV cache moves", "transfer", note=note),
        Stop("Decode: the answer is written", "decode", _groups(plan, second)),
        _answered(plan, second),
    )
    return Flow("Requests that change servers between prefill and decode", stops)


def _chained(plan: Plan, rate: float) -> Flow:
    ranked = sorted(plan.chains, key=lambda chain: -chain.share)
    bars = [
        Bar(
            " → ".join(f"{hop.node} {hop.layers[0]}–{hop.layers[1] - 1}" for hop in chain.hops),
            f"{say.number(rate * chain.share)} /s",
            (Part("chain", 0.0, min(chain.share, 1.0)),),
        )
        for chain in ranked[:MOST]
    ]
    note = (
        f"and {len(ranked) - MOST:,} more chains" if len(ranked) > MOST else "nodes with the layers they run"
    )
    stop = Stop("Node by node, each with its layers", "chain", tuple(bars), note)
    return Flow("Requests that pass chains of nodes", (_asked(plan, rate), stop, _answered(plan, {"": rate})))


def _asked(plan: Plan, rate: float) -> Stop:
    """What comes in."""
    buckets = plan.problem.workload["buckets"]
    one = f"{buckets[0]['isl']:,} tokens in, {buckets[0]['osl']:,} out"
    note = one if len(buckets) == 1 else f"{len(buckets)} kinds of request"
    return Stop(f"{say.number(rate)} requests/s", "in", note=note)


def _answered(plan: Plan, met: Mapping[str, float]) -> Stop:
    """What comes out; of all tokens those that this lane's share of the requests gets."""
    p = plan.predicted
    share = sum(met.values()) / p.rps.value if p.rps.value else 0.0
    note = "" if share > 0.9995 else f"{say.percent(share)} of all requests"
    tokens = p.out_tok_per_s.value * share
    about = "about " if share < 0.9995 and len(plan.problem.workload["buckets"]) > 1 else ""
    return Stop(f"{about}{say.number(tokens)} output tokens/s", "out", note=note)


def _groups(plan: Plan, met: Mapping[str, float]) -> tuple[Bar, ...]:
    """Replica groups by what they take of the lane."""
    groups, total = {r.id: r for r in plan.replicas}, sum(met.values()) or 1.0
    bars = []
    for name, rate in sorted(met.items(), key=lambda item: -item[1]):
        r = groups[name]
        servers = f"{r.count:,} servers, each" if r.count > 1 else "a server"
        label = f"{r.id}: {servers} on {say.hardware(r)}"
        said = f"{say.layout(r)}, {r.engine}"
        bars.append(Bar(label, f"{say.number(rate)} /s", (Part(r.role, 0.0, min(rate / total, 1.0)),), said))
    return tuple(bars)


WORK = {
    "matmuls": "matmul",
    "attention": "attend",
    "experts": "experts",
    "communication": "communication",
    "engine": "engine",
    "drafts": "drafts",
    "GPU": "attend",
    "host memory bandwidth": "weights",
    "host FLOP/s": "drafts",
    "PCIe": "communication",
    "NVMe reads": "experts",
    "hand-over": "wait",
}
"""What a step's time goes to → the part of a bar that it is."""

REST = "kernels"
"""What is not the engine's own, where a plan tells no more."""


def times(plan: Plan) -> Section | None:
    """A request from its arrival to its last token; a decode step and a mean prompt of each group."""
    timed = [r for r in plan.replicas if r.step.decode_s or r.step.prefill_s]
    found: list[Block] = [*_request(plan)]
    if timed:
        found += _steps(plan, timed)
    return Section("time", "Where the time goes", tuple(found)) if found else None


def _request(plan: Plan) -> Iterator[Block]:
    """The mean request: until its first token, and after; at a percentile both times, no request's."""
    p, buckets = plan.predicted, plan.problem.workload["buckets"]
    total = sum(b["share"] for b in buckets)
    further = sum(b["share"] * (b["osl"] - 1) for b in buckets) / total
    first, rest = p.ttft_ms.value, further * p.tpot_ms.value
    if not first + rest:
        return
    said = f"first token after {say.milliseconds(first)}"
    if rest:
        said += f", then {say.number(further)} more, one every {say.milliseconds(p.tpot_ms.value)}"
    which = plan.problem.workload.get("slo", {}).get("percentile", "mean")
    bar = Bar(
        "A request, from its arrival to its last token"
        if which == "mean"
        else f"Times to the first and to further tokens, each at {which}, added: not those of one request",
        say.milliseconds(first + rest),
        in_row(("prefill", "decode"), (first, rest), first + rest),
        said,
    )
    yield Bars((bar,), (Key("prefill", "until the first token"), Key("decode", "the further tokens")))


def _steps(plan: Plan, timed: list[Replica]) -> Iterator[Block]:
    longest = max(r.step.decode_s for r in timed)
    decoding = [r for r in timed if r.step.decode_s and r.role != "prefill"]
    if decoding:
        names = [name for r in decoding for name in split(r)]
        keys = tuple(Key(kind(name), name) for name in dict.fromkeys(names))
        told = any(r.step.by for r in decoding)
        yield Words.of(
            "A decode step gives every request in flight its next token."
            + ("" if told else " This plan does not tell what its kernels do.")
        )
        yield Bars(tuple(_step(r, longest) for r in decoding), keys)
    reading = [r for r in timed if r.step.prefill_s]
    if reading:
        slowest = max(r.step.prefill_s for r in reading)
        yield Words.of("A prompt of mean length, read by itself:")
        yield Bars(
            tuple(
                Bar(
                    f"{r.id}: {say.hardware(r)}",
                    say.milliseconds(1e3 * r.step.prefill_s),
                    (Part(r.role, 0.0, r.step.prefill_s / slowest),),
                )
                for r in reading
            )
        )


def split(r: Replica) -> dict[str, float]:
    """Seconds of a decode step by what they go to, as far as the plan tells."""
    if r.step.by:
        return {name: seconds for name, seconds in r.step.by.items() if seconds > 0}
    engine = min(r.step.engine_s, r.step.decode_s)
    return {REST: r.step.decode_s - engine, "engine": engine}


def kind(name: str) -> str:
    """The part of a bar that stands for what time goes to."""
    return WORK.get(name, "plain")


def _step(r: Replica, longest: float) -> Bar:
    parts = split(r)
    ranked = sorted(parts.items(), key=lambda item: -item[1])
    said = ", ".join(f"{name} {say.percent(s / r.step.decode_s)}" for name, s in ranked if s > 0)
    bar = in_row([kind(name) for name in parts], list(parts.values()), longest)
    return Bar(f"{r.id}: {say.hardware(r)}", say.milliseconds(1e3 * r.step.decode_s), bar, said)
