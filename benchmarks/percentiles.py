"""Plans for percentiles of recorded arrivals, replayed: `python -m benchmarks.percentiles [--seeds 20]`.

Two public traces of an hour on three sets of GPUs each, one of unlike devices, one where prefill and decode
are apart. The p99 of TTFT and of TPOT is promised. Three plans of each question:

    replayed    sized by the replay (`planner/percentiles`)
    formula     by the formulas for the p99 of requests at random times, at the trace's mean rate
    mean / 0.7  by mean times, at the trace's mean rate over 0.7: the usual head-room

Each is replayed with the trace, and with `--seeds` others like it (minutes in another order inside each ten,
lengths dealt anew), none of which sized the plan:

    USD/h     what the nodes in use cost           sized    requests/s that it was sized for, over the mean
    trace     least share of requests within a limit, of the two, of the trace itself
    worst     the same, of the worst seed          kept     seeds in which at least 99 % were within each
    lindley   rate that the queue of the plan's own servers needs, over the rate it was sized for
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from planner import api
from planner.errors import MeshwrightError
from planner.inputs.traces import Trace, read_trace
from planner.percentiles.plan import Arrivals
from planner.plans.schema import Plan, Replica
from planner.question.asked import Asked, read
from planner.simulate.answer import Ask, Simulated, simulate
from planner.traffic.drawn import resampled
from solvers.linear import Limits

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
PROMISED = 0.99
FIRST_SEED = 1000
"""Of the replays that judge: planning takes others."""


@dataclass(frozen=True)
class Case:
    """A trace at a mean rate, GPUs, a model, and the limits at p99."""

    trace: str
    gpus: str
    model: str
    rate: float
    ttft_ms: float
    tpot_ms: float

    def __str__(self) -> str:
        limits = f"{self.ttft_ms:g}/{self.tpot_ms:g} ms"
        return f"{self.trace} {self.rate:g}/s, {self.model}, {self.gpus}, {limits}"


CASES = (
    Case("conv", "32xH100", "llama-3.1-70b", 5.4, 2000, 50),
    Case("conv", "8xH100,32xL40S", "llama-3.1-8b", 40, 1000, 50),
    Case("conv", "32xH100", "llama-3.1-70b", 12, 2000, 20),
    Case("code", "32xH100", "llama-3.1-8b", 2.6, 2000, 50),
    Case("code", "16xA100,32xL40S", "llama-3.1-8b", 2.6, 4000, 80),
    Case("code", "64xH100", "qwen3-32b", 2.6, 3000, 15),
)


def main() -> int:
    """Print a row for each plan of each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.percentiles")
    parser.add_argument("--seeds", type=int, default=20, help="traces that each plan is judged by")
    parser.add_argument("--only", type=int, nargs="*", help="cases, from 0")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each plan")
    given = parser.parse_args()
    if not TRACES.is_dir():
        print(f"the public traces are not here: {TRACES.name}/", file=sys.stderr)
        return 0
    print("| case | plan | roles | USD/h | sized | trace | worst | kept | lindley |")
    print("|---|---|---|---|---|---|---|---|---|")
    safe = every = 0
    for i, case in enumerate(CASES):
        if given.only is None or i in given.only:
            for row, kept, of in rows(case, given.seeds, given.seconds):
                print(row, flush=True)
                safe, every = safe + kept, every + of
    share = f"{safe} of {every}" if every else "none"
    print(f"\nReplays in which plans sized by replay kept their promise: {share}.")
    return 0


def rows(case: Case, seeds: int, seconds: float) -> Iterator[tuple[str, int, int]]:
    """A row for each plan, with the replays that kept the promise and all, of plans sized by replay."""
    trace = read_trace(TRACES / f"AzureLLMInferenceTrace_{case.trace}.csv.gz")
    asked = question(case, trace)
    for name, tight in ways(asked):
        try:
            plan = api.planned(tight, Limits(gap=0.01, seconds=seconds), time.perf_counter(), explain=False)
        except MeshwrightError as error:
            yield f"| {case} | {name} | {error.message} | | | | | | |", 0, 0
            continue
        judged, whole = judge(plan, trace.at_rate(case.rate), seeds)
        kept, by_replay = sum(x >= PROMISED for x in judged), name == "replayed"
        yield told(case, name, plan, judged, whole, asked), kept * by_replay, seeds * by_replay


def ways(asked: Asked) -> Iterator[tuple[str, Asked]]:
    """The three questions."""
    yield "replayed", asked
    bare = replace(asked, trace=None, workload=asked.workload.model_copy(update={"traffic": None}))
    yield "formula", bare
    rate, slo = asked.workload.rate_rps or 0.0, asked.workload.slo
    mean = slo.model_copy(update={"percentile": "mean"})
    roomy = bare.workload.model_copy(update={"rate_rps": rate / 0.7, "slo": mean})
    yield "mean / 0.7", replace(bare, workload=roomy)


def question(case: Case, trace: Trace) -> Asked:
    """As `plan --trace` asks it."""
    loads = {"rate": case.rate, "ttft_ms": case.ttft_ms, "tpot_ms": case.tpot_ms, "percentile": "p99"}
    loads |= {"isl": None, "osl": None}
    return read(None, case.model, case.gpus, "chat", loads, {}, trace=trace.path)


def judge(plan: Plan, trace: Trace, seeds: int) -> tuple[list[float], float]:
    """The least share of requests within a limit: of each seed, and of the trace itself."""
    others = [attained(simulate(plan, Ask(trace=resampled(trace, FIRST_SEED + i)))) for i in range(seeds)]
    return others, attained(simulate(plan, Ask(trace=trace)))


def attained(run: Simulated) -> float:
    return min((p.attained for p in run.promises.values()), default=1.0)


def told(case: Case, name: str, plan: Plan, judged: list[float], whole: float, asked: Asked) -> str:
    """One row."""
    rate = case.rate
    sized = plan.replayed.sized_rps if plan.replayed else plan.predicted.rps.value
    roles = " + ".join(f"{r.count} {r.role} {_layout(r)}" for r in plan.replicas)
    queue = Arrivals.of(asked).needed(plan).rate_rps / sized
    usd = plan.predicted.usd_per_hour
    cost = f"{usd.value:,.2f}" if usd else f"{sum(r.count * _gpus(r) for r in plan.replicas)} GPUs"
    kept = sum(x >= PROMISED for x in judged)
    figures = f"{sized / rate:.2f} | {whole:.1%} | {min(judged):.1%} | {kept}/{len(judged)} | {queue:.2f}"
    return f"| {case} | {name} | {roles} | {cost} | {figures} |"


def _layout(r: Replica) -> str:
    return f"{r.stages[0].device} tp{r.tp}" + (f" pp{r.pp}" if r.pp > 1 else "")


def _gpus(r: Replica) -> int:
    return sum(s.gpus for s in r.stages)


if __name__ == "__main__":
    raise SystemExit(main())
