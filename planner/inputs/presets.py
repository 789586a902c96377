"""Workloads known by name: round figures of each kind of traffic, and limits that its users put up with.

chat is the contract's; the lengths of code are near the means of the Azure LLM inference trace 2023 (2,048
in, 28 out); the others are ours.
"""

from __future__ import annotations

from planner.inputs.workload import Bucket, Loop, Slo, Workload


def _preset(
    name: str, isl: int, osl: int, slo: Slo, prefix_hit: float = 0.0, arrivals: Loop | None = None
) -> Workload:
    buckets = [Bucket(isl=isl, osl=osl)]
    return Workload(name=name, buckets=buckets, slo=slo, prefix_hit=prefix_hit, arrivals=arrivals)


_NO_PROMISE = Slo(ttft_ms=None, tpot_ms=None)

PRESETS = {
    preset.name: preset
    for preset in (
        _preset("chat", 1024, 256, Slo(ttft_ms=2000, tpot_ms=50)),
        _preset("code", 2048, 32, Slo(ttft_ms=1000, tpot_ms=50)),
        _preset("rag", 8192, 256, Slo(ttft_ms=4000, tpot_ms=50)),
        _preset("agent", 16384, 512, Slo(ttft_ms=3000, tpot_ms=30), prefix_hit=0.8),
        _preset("reasoning", 1024, 8192, Slo(ttft_ms=2000, tpot_ms=30)),
        _preset("long-context", 65536, 1024, Slo(ttft_ms=30000, tpot_ms=100)),
        _preset("batch", 1024, 512, _NO_PROMISE, arrivals="closed"),
        _preset("offline", 1024, 512, _NO_PROMISE, arrivals="closed"),
    )
}
"""By name; `batch` and `offline` are the same: all requests are there from the start."""

SOURCES = {
    "chat": "round figures; the Azure conversation trace 2023 has 1,155 in, 211 out",
    "code": "near the means of the Azure code trace 2023: 2,048 in, 28 out",
    "rag": "ours: some pages in, a paragraph out",
    "agent": "ours: a long context that grows, four fifths of it met again",
    "reasoning": "ours: a question in, a long chain of thought out",
    "long-context": "ours: a book in, a page out",
    "batch": "ours: nobody waits",
    "offline": "the same as batch",
}
"""Where the lengths of each are from."""
