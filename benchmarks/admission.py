"""Admission by formula against the replay: `python -m benchmarks.admission [--quick]`.

Requests in the server, and the share of requests preempted, at several sizes of the KV cache, in closed loops
around what it holds and under Poisson arrivals around what it carries, for engines that take room on demand
and for those that reserve the longest output. Lengths are drawn from the two 2023 Azure traces, out of a
folder `shared` beside the repository; without it from two laws alike (log-normal prompts and outputs). Who
stays how long comes from the queueing formulas, over 12 kinds of requests.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.queueing import STEPS
from planner.cost.admission import Admission, Held, Lengths, Stay, closed_loop, open_loop, places
from planner.cost.queueing import closed_loop as queueing_loop
from planner.cost.queueing import estimate, prefill_s
from planner.cost.shape import Floats
from planner.simulate.replay import replay
from planner.simulate.requests import Requests, Settings

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
LAWS = {"code": (2048, 0.96, 7437, 28, 2.15, 1899), "conv": (1155, 0.96, 14050, 211, 0.77, 1000)}
"""Prompt: mean, variation, most; output: the same."""
KV_TOKENS = (50_000, 150_000, 400_000)
CLOSED = (0.8, 0.9, 1.0, 1.15, 1.5)
OPEN = (0.5, 0.7, 0.85, 0.95, 1.1)
BUDGET = 2048
KINDS = 4, 3
"""Groups of prompts, and of outputs in each."""
SEEDS = 1, 2
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

    def __str__(self) -> str:
        engine = "reserves" if self.reserves else "on demand"
        return f"{self.trace} {self.step:3s} {self.kv_tokens:7,d} {engine:9s} {self.loop:6s} {self.load:4.2f}"


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
    return held(s, drawn, e.ttft_s[0], e.tpot_s[0]), float(e.rate[0])


def held(s: Setting, drawn: Sample, ttft_s: Floats, tpot_s: Floats) -> Held:
    later = (drawn.osl - 1) * tpot_s[drawn.kind]
    return Held.of(drawn.lengths(s.reserves), ttft_s[drawn.kind], later)


def full(s: Setting, drawn: Sample) -> tuple[float, float]:
    """Requests inside and rate where the cache is always full."""
    count, rate = 32.0, 0.0
    for _ in range(ROUNDS):
        what, rate = inside(s, drawn, count)
        count = places(drawn.lengths(s.reserves), what, s.kv_tokens)
    return count, rate


def formula(s: Setting, drawn: Sample, count: int, rate: float) -> Admission:
    lengths = drawn.lengths(s.reserves)
    if s.loop == "closed":
        some = Admission(float(count), 0.0, 0.0)
        for _ in range(ROUNDS):
            some = closed_loop(lengths, inside(s, drawn, some.inside)[0], s.kv_tokens, count)
        return some
    m = drawn.means
    e = estimate(STEPS[s.step], m.isl, m.isl, m.osl, rate * m.share, BUDGET)
    if not np.isfinite(e.tpot_s).all():  # more than it would carry with room for all
        return formula(replace(s, loop="closed"), drawn, int(4 * full(s, drawn)[0] + 100), rate)
    stay_s = float(m.share @ (e.ttft_s[0] + (m.osl - 1) * e.tpot_s[0]))
    again_s = float(prefill_s(STEPS[s.step], m.isl + m.osl / 2, m.isl + m.osl / 2)[0] @ m.share)
    stay = Stay.of(stay_s, rate, float(e.utilisation[0]) / rate, again_s)
    return open_loop(lengths, held(s, drawn, e.ttft_s[0], e.tpot_s[0]), s.kv_tokens, rate, stay)


def truth(s: Setting, drawn: Sample, count: int, rate: float, requests: int) -> Admission:
    """The same counted in replays; how many waited is not told apart from waiting for the next step."""
    runs = [replayed(s, drawn, count, rate, requests, seed) for seed in SEEDS]
    return Admission(*(float(np.mean([getattr(r, f) for r in runs])) for f in vars(runs[0])))


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


def compared(s: Setting, drawn: Sample) -> tuple[Admission, Admission]:
    """By formula and in the replay, the load being that share of what the cache holds or carries."""
    most, rate = full(s, drawn)
    count, rate = max(1, round(s.load * most)), s.load * rate
    requests = int(min(60_000, 8000 + 80 * most))
    return formula(s, drawn, count, rate), truth(s, drawn, count, rate, requests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one step time, two sizes")
    options = parser.parse_args()
    began = time.process_time()
    print("lengths of " + ("the Azure traces" if TRACES.is_dir() else "log-normal laws (no traces here)"))
    print(f"{'':38s}{'inside':>9s}{'replay':>9s}{'':>8s}{'preempted':>11s}{'replay':>8s}")
    samples = {trace: sample(trace) for trace in LAWS}
    errors: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for s in settings(options.quick):
        said, seen = compared(s, samples[s.trace])
        off, points = said.inside / seen.inside - 1, said.preempted - seen.preempted
        errors.setdefault((s.loop, s.reserves), []).append((off, points))
        mark = "*" if abs(off) > 0.05 or abs(points) > 0.02 else ""
        chances = f"{said.preempted:10.1%} {seen.preempted:8.1%}"
        print(f"{s!s:38s}{said.inside:9.1f}{seen.inside:9.1f}{off:+8.1%} {chances} {mark}", flush=True)
    for (loop, reserves), found in errors.items():
        off, points = np.abs(found).T
        engine = "reserves" if reserves else "on demand"
        print(
            f"{engine}, {loop}: inside {(off > 0.05).sum()} of {len(off)} beyond 5 %, mean {off.mean():.1%}, "
            f"most {off.max():.1%}; preempted {(points > 0.02).sum()} beyond 2 points, "
            f"most {points.max():.1%}"
        )
    print(f"{time.process_time() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
