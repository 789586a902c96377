"""Where the time goes: a request's, and a step's by kind of work."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plans.schema import Plan, Replica
from planner.reports import words as say
from planner.reports.page.blocks import Bar, Bars, Block, Key, Part, Section, Words, in_row

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


def section(plan: Plan) -> Section | None:
    """A request from its arrival to its last token; a decode step and a mean prompt of each group."""
    timed = [r for r in plan.replicas if r.step.decode_s or r.step.prefill_s]
    found: list[Block] = [*_request(plan)]
    if timed:
        found += _steps(plan, timed)
    return Section("time", "Where the time goes", tuple(found)) if found else None


def _request(plan: Plan) -> Iterator[Block]:
    """The mean request: until its first token, and after."""
    p, buckets = plan.predicted, plan.problem.workload["buckets"]
    total = sum(b["share"] for b in buckets)
    further = sum(b["share"] * (b["osl"] - 1) for b in buckets) / total
    first, rest = p.ttft_ms.value, further * p.tpot_ms.value
    if not first + rest:
        return
    said = f"first token after {say.milliseconds(first)}"
    if rest:
        said += f", then {say.number(further)} more, one every {say.milliseconds(p.tpot_ms.value)}"
    bar = Bar(
        "A request, from its arrival to its last token",
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
