"""Admission by formula against the replay: `python -m benchmarks.admission [--quick]`.

Requests in the server, and the share of requests preempted, at several sizes of the KV cache, in closed loops
around what it holds and under Poisson arrivals around what it carries, for engines that take room on demand
and for those that reserve the longest output. Lengths are drawn from the two 2023 Azure traces, out of a
folder `shared` beside the repository; without it from two laws alike (log-normal prompts and outputs). Who
stays how long comes from the queueing formulas, over 32 kinds of requests. `error` is the standard error
of the replays; what is off where that is large is marked `?`, else `*`.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.queueing import STEPS
from benchmarks.replays.servers import Settings, replay
from planner.designs.shape import Floats
from planner.queueing import Estimate, estimate, prefill_s, work_s
from planner.queueing import closed_loop as queueing_loop
from planner.queueing.admission import Admission, Held, Lengths, Stay, closed_loop, open_loop, places
from planner.queueing.line import line, moments
from planner.queueing.load import Limits, Load, Parts
from planner.simulate.requests import Requests

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
LAWS = {"code": (2048, 0.96, 7437, 28, 2.15, 1899), "conv": (1155, 0.96, 14050, 211, 0.77, 1000)}
"""Prompt: mean, variation, most; output: the same."""
KV_TOKENS = (50_000, 150_000, 400_000)
CLOSED = (0.8, 0.9, 1.0, 1.15, 1.5)
OPEN = (0.5, 0.7, 0.85, 0.95, 1.1)
BUDGET = 2048
KINDS = 8, 4
"""Groups of prompts, and of outputs in each."""
REPLAYS = 2, 4
"""At least and at most, each with a seed of its own."""
NOISE = 0.01
"""Standard error aimed at; a replay with twice as much judges nothing."""
SLOW = 3
"""Near the capacity replays take so many times the requests."""
COUNTS = 24
"""Closed loops of so many numbers of requests say how long each stays."""

ROUNDS = 6
"""Of the fixed point of how long requests stay and how many are inside."""


@dataclass(frozen=True)
class Sample:
    """Lengths of requests (requests,), which of the kinds each is, and the kinds (w,) by means."""

    isl: Floats
    osl: Floats
    kind: np.ndarray
    means: Lengths

    @staticmethod
    def of(isl: Floats, osl: Floats) -> Sample:
        kind = np.zeros(len(isl), dtype=np.int64)
        groups = [
            part
            for some in np.array_split(np.argsort(isl, kind="stable"), KINDS[0])
            for part in np.array_split(some[np.argsort(osl[some], kind="stable")], KINDS[1])
        ]
        for i, part in enumerate(groups):
            kind[part] = i
        prompt, output = (np.array([x[part].mean() for part in groups]) for x in (isl, osl))
        share = np.array([len(part) / len(isl) for part in groups])
        return Sample(isl, osl, kind, Lengths(prompt, output, share))

    def lengths(self, reserves: bool) -> Lengths:
        """All of them, as the law takes them."""
        reserved = np.full(len(self.isl), self.osl.max()) if reserves else None
        return Lengths(self.isl, self.osl, np.full(len(self.isl), 1 / len(self.isl)), reserved)


@dataclass(frozen=True)
class Setting:
    trace: str
    step: str
    kv_tokens: int
    reserves: bool
    loop: str
    load: float

    def count(self, most: tuple[float, float]) -> int:
        """Requests in flight, of those that fit."""
        return max(1, round(self.load * most[0]))

    def rate(self, most: tuple[float, float]) -> float:
        """Arrivals a second, of what a full cache carries."""
        return self.load * most[1]

    def __str__(self) -> str:
        engine = "reserves" if self.reserves else "on demand"
        return f"{self.trace} {self.step:3s} {self.kv_tokens:7,d} {engine:9s} {self.loop:6s} {self.load:4.2f}"


@cache
def sample(trace: str) -> Sample:
    path = TRACES / f"AzureLLMInferenceTrace_{trace}.csv.gz"
    if path.is_file():
        with gzip.open(path, "rt") as file:
            rows = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(1, 2))
        return Sample.of(rows[:, 0], np.maximum(rows[:, 1], 1.0))
    rng = np.random.default_rng(7)
    prompt, output = (LAWS[trace][:3], LAWS[trace][3:])
    return Sample.of(*(drawn(rng, *law) for law in (prompt, output)))


def drawn(rng: np.random.Generator, mean: float, variation: float, most: float) -> Floats:
    sigma2 = np.log1p(variation**2)
    values = rng.lognormal(np.log(mean) - sigma2 / 2, np.sqrt(sigma2), 10_000)
    return np.clip(np.round(values), 1, most)


def inside(s: Setting, drawn: Sample, count: float) -> tuple[Held, float]:
    """What `count` requests in the server hold, and their rate."""
    m = drawn.means
    e = queueing_loop(STEPS[s.step], m.isl, m.isl, m.osl, m.share, np.array([count]), BUDGET)
    return held(s, drawn, e), float(e.rate[0])


def held(s: Setting, drawn: Sample, e: Estimate) -> Held:
    m, ttft_s, tpot_s = drawn.means, e.ttft_s[0], e.tpot_s[0]
    busy = float(e.rate[0]) * float(work_s(STEPS[s.step], m.isl, m.isl, m.osl)[0] @ m.share)
    later = (drawn.osl - 1) * tpot_s[drawn.kind]
    return Held.of(drawn.lengths(s.reserves), ttft_s[drawn.kind], later, min(busy, 1.0))


def full(s: Setting, drawn: Sample) -> tuple[float, float]:
    """Requests inside and rate where the cache is always full."""
    count, rate = 32.0, 0.0
    for _ in range(ROUNDS):
        what, rate = inside(s, drawn, count)
        count = places(drawn.lengths(s.reserves), what, s.kv_tokens)
    return count, rate


def formula(s: Setting, drawn: Sample, most: tuple[float, float]) -> Admission:
    """By the law; `most`: requests inside and rate where the cache is always full."""
    lengths, m, step = drawn.lengths(s.reserves), drawn.means, STEPS[s.step]
    if s.loop == "closed":
        some = Admission(most[0], 0.0, 0.0)
        for _ in range(ROUNDS):
            some = closed_loop(lengths, inside(s, drawn, some.inside)[0], s.kv_tokens, s.count(most))
        return some
    rate = s.rate(most)
    e = estimate(step, m.isl, m.isl, m.osl, rate * m.share, BUDGET)
    if not np.isfinite(e.tpot_s).all():  # more than it would carry with room for all
        return formula(replace(s, loop="closed", load=4 + 100 / most[0]), drawn, most)
    e = replace(e, ttft_s=np.maximum(e.ttft_s - entering_s(s, drawn, e), 0.0))
    stay_s = float(m.share @ (e.ttft_s[0] + (m.osl - 1) * e.tpot_s[0]))
    count = np.geomspace(1.0, 2 * max(most[0], rate * stay_s), COUNTS)
    loop = queueing_loop(step, m.isl, m.isl, m.osl, m.share, count, BUDGET)
    again_s = float(m.share @ prefill_s(step, m.isl + m.osl / 2, m.isl + m.osl / 2)[0])
    stay = Stay.of(stay_s, rate, count, count / loop.rate, again_s)
    what = inside(s, drawn, most[0])[0]  # it matters where the cache is full
    return open_loop(lengths, what, s.kv_tokens, rate, stay)


def entering_s(s: Setting, drawn: Sample, e: Estimate) -> float:
    """Seconds from an arrival to the end of the step in progress, when it can enter."""
    m = drawn.means
    parts = Parts.of(STEPS[s.step], m.isl, m.isl, m.osl, "mixed", BUDGET)
    load = Load.of(parts, e.rate[:, None] * m.share, Limits.of(BUDGET, np.inf, np.inf))
    return float(line(load, parts.drain_s, moments(load, e.sequences[:, None])).residual_s[0, 0])


def truth(s: Setting, drawn: Sample, most: tuple[float, float]) -> tuple[Admission, float]:
    """The same counted in replays, as many as bring the standard error of the requests inside to `NOISE` of
    them, and what it is; how many waited is not told apart from waiting for the next step."""
    slow = SLOW if s.loop == "open" and 0.9 < s.load < 1 else 1
    requests = slow * int(min(60_000, 8000 + 80 * most[0]))
    runs, noise = [], np.inf
    for seed in range(1, REPLAYS[1] + 1):
        runs.append(replayed(s, drawn, s.count(most), s.rate(most), requests, seed))
        count = np.array([r.inside for r in runs])
        if seed >= REPLAYS[0]:
            noise = float(count.std(ddof=1) / count.mean() / np.sqrt(seed))
            if noise <= NOISE:
                break
    preempted = float(np.mean([r.preempted for r in runs]))
    return Admission(float(count.mean()), float("nan"), preempted), noise


def replayed(s: Setting, drawn: Sample, count: int, rate: float, requests: int, seed: int) -> Admission:
    rng = np.random.default_rng(seed)
    which = rng.integers(len(drawn.isl), size=requests)
    closed = s.loop == "closed"
    arrival = np.zeros(requests) if closed else np.cumsum(rng.exponential(1 / rate, requests))
    rules = Settings(
        BUDGET,
        kv_tokens=s.kv_tokens,
        concurrency=count if closed else None,
        reserved_osl=int(drawn.osl.max()) if s.reserves else None,
    )
    result = replay(STEPS[s.step], Requests(arrival, drawn.isl[which], drawn.osl[which]), rules)
    steady = slice(requests // 8, requests * 15 // 16)
    hit = float((result.preempted[steady] > 0).mean())
    return Admission(result.mean_sequences, float("nan"), hit)


def settings(quick: bool) -> Iterator[Setting]:
    for trace in LAWS:
        for step in ("8b",) if quick else ("8b", "70b", "moe"):
            for kv in KV_TOKENS[:2] if quick else KV_TOKENS:
                for reserves in (False, True):
                    yield from (Setting(trace, step, kv, reserves, "closed", x) for x in CLOSED)
                    yield from (Setting(trace, step, kv, reserves, "open", x) for x in OPEN)


def compared(s: Setting, drawn: Sample) -> tuple[Admission, Admission, float]:
    """By formula and in the replay (with its standard error), the load being that share of what the cache
    holds or carries."""
    most = full(s, drawn)
    return formula(s, drawn, most), *truth(s, drawn, most)


def shown(s: Setting, said: Admission, seen: Admission, noise: float) -> tuple[float, float]:
    """Prints a line of the table; how far off the requests inside are, and points of preemption."""
    off, points = said.inside / seen.inside - 1, said.preempted - seen.preempted
    mark = "*" if abs(off) > 0.05 or abs(points) > 0.02 else ""
    mark = "?" if mark and noise > 2 * NOISE else mark
    chances = f"{said.preempted:10.1%} {seen.preempted:8.1%}"
    print(
        f"{s!s:38s}{said.inside:9.1f}{seen.inside:9.1f}{noise:7.1%}{off:+8.1%} {chances} {mark}", flush=True
    )
    return off, points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one step time, two sizes")
    options = parser.parse_args()
    began = time.perf_counter()
    print("lengths of " + ("the Azure traces" if TRACES.is_dir() else "log-normal laws (no traces here)"))
    print(f"{'':38s}{'inside':>9s}{'replay':>9s}{'error':>7s}{'':>8s}{'preempted':>11s}{'replay':>8s}")
    errors: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    every = list(settings(options.quick))
    drawn = [sample(s.trace) for s in every]
    with ProcessPoolExecutor() as pool:
        for s, (said, seen, noise) in zip(every, pool.map(compared, every, drawn), strict=True):
            errors.setdefault((s.loop, s.reserves), []).append(shown(s, said, seen, noise))
    for (loop, reserves), found in errors.items():
        off, points = np.abs(found).T
        engine = "reserves" if reserves else "on demand"
        print(
            f"{engine}, {loop}: inside {(off > 0.05).sum()} of {len(off)} beyond 5 %, mean {off.mean():.1%}, "
            f"most {off.max():.1%}; preempted {(points > 0.02).sum()} beyond 2 points, "
            f"most {points.max():.1%}"
        )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
