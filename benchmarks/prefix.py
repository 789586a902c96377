"""Prefix cache on Mooncake's traces, formulas against the replay: `python -m benchmarks.prefix`.

By cache size in 512-token blocks: tokens found by least-recently-used eviction (replayed; by the formula),
and the prompt FLOPs saved, replayed: by the same; where late blocks stay longer for what they cost (half of
Che's time for a first token's FLOPs); by times to live for each kind of block as the linear program sets them
for the whole trace, and for its first half; what the program says; and at most by anyone who knows the
future. FLOPs are Llama-3.1-8B's: a token after 28,600 others takes twice the first
one's. The traces lie in a folder `shared` beside the repository; reading them needs pyarrow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.replays import prefix
from planner.cost.idle_cache import Resting, resting_of
from planner.designs.shape import Floats, Ints
from planner.inputs.trace_workload import Uses, buckets_of, counted
from planner.inputs.traces import Trace, read_trace
from planner.inputs.workload import Workload
from planner.problems import idle_cache as stated
from solvers import idle_cache as keeping
from solvers.linear import Limits

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
NAMES = ("conversation", "synthetic")
SIZES = (1000, 5000, 20_000, 50_000, 100_000)
TWICE = 28_600
"""Tokens of context at which attention takes as long as all else: 2 x 7.5e9 / (4 x 32 layers x 4096)."""

DEARER = 0.5
"""Of Che's time, what a block stays longer for the FLOPs of a first one."""

TOKEN_BYTES = 131_072.0


@dataclass(frozen=True)
class Case:
    """A trace with the kinds of its blocks."""

    trace: Trace
    use: Uses
    kind: Ints
    resting: Resting
    rates: Floats

    @staticmethod
    def of(trace: Trace, until: int | None = None) -> Case:
        """Kinds as all requests have them, or the first `until`."""
        buckets, which = buckets_of(trace)
        use = Uses.of(trace)
        idle, kind = counted(trace, use, which)
        if until is not None:
            idle = counted(part := first(trace, until), Uses.of(part), which[:until])[0]
        resting = resting_of(Workload(buckets=buckets, idle=idle))
        assert resting is not None
        return Case(trace, use, kind, resting, trace.rate_rps * np.array([b.share for b in buckets]))

    def problem(self, blocks: int) -> keeping.KeepingProblem:
        room = stated.Tier("hbm", blocks * self.trace.block_tokens * TOKEN_BYTES)
        return stated.state(self.resting, self.rates, TOKEN_BYTES, lambda depth: 1 + depth / TWICE, [room])

    def keep_s(self, blocks: int) -> Floats:
        """The program's times to live by kind: the ages that what is kept reaches."""
        kept = keeping.solve(self.problem(blocks), Limits()).kept
        return (kept.sum(axis=1) * self.resting.widths_s).sum(axis=1)

    def dearer_s(self, blocks: int) -> Floats:
        """Time to live by value alone, for each use of a block."""
        seconds = self.resting.keep_s(blocks * self.trace.block_tokens, self.rates)
        return np.asarray(DEARER * seconds * (1 + self.use.depth / TWICE))

    @property
    def work(self) -> Floats:
        """FLOPs of each block, of a first block's."""
        return np.asarray((1 + (self.use.depth + self.use.tokens / 2) / TWICE) * self.use.tokens)

    def shares(self, found: prefix.Replayed) -> tuple[float, float]:
        """Of all prompt tokens, and of their FLOPs, what was found."""
        place = self.use.depth // self.trace.block_tokens
        hit = place < found.hits.sum(axis=1)[self.use.request]
        return float(self.use.tokens[hit].sum() / self.trace.isl.sum()), float(
            self.work[hit].sum() / self.work.sum()
        )

    def by_formula(self, blocks: int) -> tuple[float, float]:
        """The same of least-recently-used eviction, by Che's time; and what the program saves."""
        p = self.problem(blocks)
        seconds = self.resting.keep_s(blocks * self.trace.block_tokens, self.rates)
        found = self.rates @ self.resting.hit_tokens(seconds)
        tokens = self.rates @ np.bincount(self.resting.bucket, weights=self.resting.tokens)
        prompt = float(tokens) * float(self.trace.isl.sum() / (self.trace.isl.sum() + self.trace.osl.sum()))
        saved = keeping.solve(p, Limits()).saved * len(self.trace) / self.trace.rate_rps
        return float(found) / prompt, saved / float(self.work.sum())

    def at_most(self, blocks: int) -> float:
        """FLOPs that anyone could save: the dearest by the time they rest, as far as room times span goes."""
        back = np.isfinite(self.use.next_s)
        rest, gain = self.use.next_s[back] * self.use.tokens[back], self.work[back]
        order = np.argsort(rest / gain)
        fits = np.cumsum(rest[order]) <= blocks * self.trace.block_tokens * self.trace.span_s
        return float(gain[order][fits].sum() / self.work.sum())


def first(trace: Trace, until: int) -> Trace:
    """The first requests of a trace."""
    end = int(trace.start[until])
    return replace(
        trace,
        arrival_s=trace.arrival_s[:until],
        isl=trace.isl[:until],
        osl=trace.osl[:until],
        block=trace.block[:end],
        start=trace.start[: until + 1],
    )


def rows(name: str, trace: Trace) -> list[str]:
    """One line a size."""
    whole, half, made = Case.of(trace), Case.of(trace, len(trace) // 2), []
    for blocks in SIZES:
        plain = whole.shares(prefix.lru(trace, [blocks]))
        aware, learnt = (
            whole.shares(prefix.by_expiry(trace, [blocks], c.keep_s(blocks)[whole.kind]))[1]
            for c in (whole, half)
        )
        tokens, program = whole.by_formula(blocks)
        dear = whole.shares(prefix.by_expiry(trace, [blocks], whole.dearer_s(blocks)))[1]
        figures = (plain[0], tokens, plain[1], dear, aware, learnt, program, whole.at_most(blocks))
        made.append(f"| {name} | {blocks:,} | " + " | ".join(f"{100 * x:.1f}" for x in figures) + " |")
    return made


def main() -> int:
    began = time.perf_counter()
    heads = ("trace", "blocks", "found, LRU", "formula", "saved, LRU", "by value", "by kind", "by first half")
    print("| " + " | ".join([*heads, "program", "at most"]) + " |")
    print("|---" * 10 + "|")
    for name in NAMES:
        path = TRACES / f"mooncake_{name}.parquet"
        if not path.is_file():
            print(f"| {name} | not there: {path.name} |  |  |  |  |  |  |  |  |")
            continue
        for row in rows(name, read_trace(path)):
            print(row, flush=True)
    print(f"\nIn %. {time.perf_counter() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
