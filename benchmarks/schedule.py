"""Schedules of public days and fortnights against a fleet that never changes and a tuned autoscaler.

    python -m benchmarks.schedule [--seconds 20] [--only NAME ...]

Load       ServeGen's rates and mean lengths by 10 minutes (`servegen_profile_10min.csv.gz` in
           `../shared/data/traces`; windows without data are filled from their neighbours), as a workload of
           hours: buckets are windows of like lengths (k-means, 12), an hour's shares those of its windows,
           its peak that of its busiest window. Rates of m-small and R1 are multiplied by 4, of mm-image by
           40. Each is sized for p95 (TTFT 2 s, 5 s for R1; TPOT 50 ms).
Nodes      five classes of 8 GPUs, H100 $32, H200 $39.2, A100 $14.4, L40S $8, B200 $64.8 an hour; vLLM.
Compared   what `meshwright schedule` answers, in one process. Everybody has the same units, prices, cold
           starts and sizes. All are replayed by the minute on the 10-minute rates, with straight lines
           between their middles. The autoscaler sees the rate of the minute before, stops what it had no
           use for in 5 minutes, and is tuned: of 16 head-rooms from 0 to 500 %, the cheapest that is short
           of 0.1 % of all requests at most, known afterwards; where that is dearer than the fleet that never
           changes, what is saved is counted against that.
Days before  the table of the day before on each following day, without more, with 20 % more, with the least
           margin that is short of 0.1 % at most, the best of a table and an autoscaler together, and the
           autoscaler alone; dearer than the day itself known, by the same count of servers.
Ratio      node hours of servers of prompts and of answers whose ratio follows each hour, against the best
           ratio that never changes: on the class that serves cheapest, servers counted in parts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.inputs.traffic import Traffic
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question.asked import read
from planner.schedule.answer import Ask, Schedule, schedule, stated
from planner.schedule.policies import FIXED, Fleet, Load, Policy, autoscaler, forecast
from planner.schedule.units import Unit
from solvers.linear import Limits

PROFILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "servegen_profile_10min.csv.gz"
CLUSTER = """\
name: five classes
nodes:
  - {device: h100-sxm, count: 200, gpus_per_node: 8, price_usd_per_hour: 32}
  - {device: h200-sxm, count: 100, gpus_per_node: 8, price_usd_per_hour: 39.2}
  - {device: a100-sxm, count: 200, gpus_per_node: 8, price_usd_per_hour: 14.4}
  - {device: l40s, count: 200, gpus_per_node: 8, price_usd_per_hour: 8}
  - {device: b200, count: 60, gpus_per_node: 8, price_usd_per_hour: 64.8}
"""
MODELS = {
    "m-small": ("llama-3.1-8b", 2000.0),
    "m-mid": ("qwen3-32b", 2000.0),
    "m-large": ("llama-3.1-70b", 2000.0),
    "deepseek-r1": ("deepseek-r1", 5000.0),
    "mm-image": ("qwen3-32b", 2000.0),
}
TIMES = {"m-small": 4.0, "mm-image": 40.0, "deepseek-r1": 4.0}
"""Rates are multiplied where a node or two would do for all of them."""

WINDOW_S, IN_HOUR, BUCKETS = 600.0, 6, 12
SHORT = 0.001


@dataclass(frozen=True)
class Profile:
    """Windows of 10 minutes (n,): requests/s and mean tokens."""

    rate: np.ndarray
    isl: np.ndarray
    osl: np.ndarray

    @property
    def hours(self) -> int:
        return len(self.rate) // IN_HOUR


def profiles() -> dict[str, Profile]:
    """By model, gaps filled."""
    rows: dict[str, list[list[float]]] = {}
    with gzip.open(PROFILE, "rt") as file:
        for row in csv.DictReader(file):
            cells = (row["rate_rps"], row["prompt_mean"], row["output_mean"])
            rows.setdefault(row["model"], []).append([float(x or "nan") for x in cells])
    return {name: Profile(*(_filled(x) for x in np.array(found).T)) for name, found in rows.items()}


def _filled(x: np.ndarray) -> np.ndarray:
    """Zeros and blanks from their neighbours, in a straight line."""
    known = np.isfinite(x) & (x > 0)
    at = np.arange(len(x))
    return np.interp(at, at[known], x[known])


def workload_of(p: Profile, ttft_ms: float) -> Workload:
    """Hours of `p` with buckets of windows of like lengths."""
    lengths = np.log(np.stack([p.isl, p.osl], axis=1))
    order = np.argsort(p.isl * 1.0 + p.osl)
    centre = lengths[order[np.linspace(0, len(order) - 1, BUCKETS).astype(int)]]
    for _ in range(30):
        which = ((lengths[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        centre = np.stack(
            [lengths[which == i].mean(axis=0) if (which == i).any() else centre[i] for i in range(BUCKETS)]
        )
    used, which = np.unique(which, return_inverse=True)
    weight = np.zeros((p.hours, len(used)))
    np.add.at(
        weight,
        (np.arange(p.hours * IN_HOUR) // IN_HOUR, which[: p.hours * IN_HOUR]),
        p.rate[: p.hours * IN_HOUR],
    )
    shares = weight / weight.sum(axis=1, keepdims=True)
    buckets = []
    for i in range(len(used)):
        mine = which == i
        isl, osl = (round(float(np.average(x[mine], weights=p.rate[mine]))) for x in (p.isl, p.osl))
        buckets.append(
            Bucket(isl=max(isl, 1), osl=max(osl, 1), share=float(weight[:, i].sum() / weight.sum()))
        )
    hours = p.rate[: p.hours * IN_HOUR].reshape(p.hours, IN_HOUR)
    traffic = Traffic(
        slot_s=3600.0,
        rate_rps=hours.mean(axis=1).tolist(),
        peak_rps=hours.max(axis=1).tolist(),
        shares=[[round(float(x), 5) for x in row] for row in shares],
    )
    slo = Slo(ttft_ms=ttft_ms, tpot_ms=50.0, percentile="p95")
    return Workload(buckets=buckets, slo=slo, traffic=traffic, rate_rps=float(hours.max()))


@dataclass(frozen=True)
class Ran:
    """One load, scheduled."""

    name: str
    profile: Profile
    found: Schedule
    fleet: Fleet
    load: Load
    seconds: float
    cpu_s: float


def run(name: str, profile: Profile, cluster: Path, seconds: float) -> Ran:
    """Schedule it, and the load by the minute on the units that were found."""
    model, ttft_ms = MODELS[name]
    profile = replace(profile, rate=profile.rate * TIMES.get(name, 1.0))
    asked = read(str(cluster), model, None, workload_of(profile, ttft_ms), {}, {"engine": "vllm"})
    ask = Ask(limits=Limits(gap=0.002, seconds=seconds), short=SHORT)
    began, cpu = time.perf_counter(), time.process_time()
    found = schedule(asked, ask)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    fleet = Fleet(stated(found.units, found.sized_rps, found.slot_s, ask))
    minutes = np.arange(profile.hours * 60) + 0.5
    rate = np.interp(minutes, (np.arange(len(profile.rate)) + 0.5) * WINDOW_S / 60, profile.rate)
    return Ran(name, profile, found, fleet, Load(rate, (minutes // 60).astype(int), 60.0), took, used)


def compared(r: Ran) -> list[str]:
    """Schedule, static fleet and autoscaler."""
    s = r.found
    n = np.array(s.counts, dtype=float)[:, r.load.slot]
    missed = np.maximum(r.load.rate - r.fleet.carried(n, r.load.slot), 0).sum() / r.load.rate.sum()
    best = autoscaler(r.fleet, r.load, SHORT)
    assert s.static_usd is not None
    return [
        r.name,
        f"{s.hours / 24:g} d",
        f"{len({u.node_class for u in s.units})}",
        f"${s.usd:,.0f}",
        f"{100 * missed:.2g} %",
        "-" if s.gap is None else f"{100 * s.gap:.2f} %",
        f"{r.seconds:.0f} ({r.cpu_s:.0f})",
        f"${s.static_usd:,.0f}",
        f"{100 * (1 - s.usd / s.static_usd):.0f} %",
        f"${best.usd:,.0f}",
        f"+{100 * (best.policy.head or 0):.0f} %",
        f"{100 * best.short:.2g} %",
        f"{100 * (1 - s.usd / min(best.usd, s.static_usd)):.0f} %",
        "-" if s.whole_usd is None else f"{100 * (1 - s.usd / s.whole_usd):.0f} %",
    ]


def before(r: Ran) -> list[str] | None:
    """Those who know the day before; None for a day."""
    f = forecast(r.fleet, r.profile.rate[: r.profile.hours * IN_HOUR].tolist(), WINDOW_S, SHORT, IN_HOUR)
    if f is None:
        return None

    def cell(usd: float, short: float) -> str:
        return f"{100 * (usd / f.known_usd - 1):+.0f} %, short {100 * short:.2g} %"

    return [
        r.name,
        f"{f.days:.0f}",
        *(cell(j.usd, j.short) for j in (f.bare, f.fixed)),
        *(f"{_policy(j.policy)}: {cell(j.usd, j.short)}" for j in (f.table, f.both, f.alone)),
    ]


def _policy(p: Policy) -> str:
    """Margin of the table and head-room of the autoscaler."""
    parts = [("table", p.margin), ("autoscaler", p.head)]
    return ", ".join(f"{name} {100 * x:+.0f} %" for name, x in parts if x is not None)


def ratio(r: Ran) -> list[str] | None:
    """GPU hours by a ratio that follows, and by the best that does not."""
    roles: dict[str, Unit] = {u.role: u for u in r.found.units if u.role != "mixed"}
    if len(roles) < 2:
        return None
    rate = np.array(r.found.sized_rps)
    prompts, answers = (rate / np.array(roles[role].by_slot) for role in ("prefill", "decode"))
    follows = (prompts + answers).sum()
    shares = np.linspace(0.01, 0.99, 197)[:, None]
    fixed = np.maximum(prompts / shares, answers / (1 - shares)).sum(axis=1)
    share = prompts / (prompts + answers)
    return [
        r.name,
        roles["prefill"].node_class,
        f"{100 * share.min():.0f} – {100 * share.max():.0f} %",
        f"{100 * float(shares[fixed.argmin(), 0]):.0f} %",
        f"{100 * (1 - follows / fixed.min()):.0f} %",
    ]


TABLES = {
    "Schedules": "load | span | classes | schedule | short | gap | s (CPU) | static | saved | autoscaler | "
    "head-room | short | saved | roles save",
    "Knowing the day before: dearer than the day itself known, and short": "load | days | its table | "
    f"+{100 * FIXED:.0f} % | least margin | both | autoscaler",
    "Prefill and decode servers": "load | class | prefill share by hour | best fixed | fewer node hours",
}


def tables(ran: Sequence[Ran]) -> Iterator[str]:
    """In markdown."""
    for (title, head), rows in zip(TABLES.items(), (compared, before, ratio), strict=True):
        yield f"### {title}\n"
        yield f"| {head} |"
        yield f"|{' --- |' * (head.count('|') + 1)}"
        for r in ran:
            cells = rows(r)
            if cells is not None:
                yield f"| {' | '.join(cells)} |"
        yield ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="*", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    if not PROFILE.is_file():
        print("no loads: they lie in ../shared/data/traces, beside the repository")
        return 2
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        cluster = Path(folder) / "cluster.yaml"
        cluster.write_text(CLUSTER)
        known = profiles()
        ran = [run(name, known[name], cluster, options.seconds) for name in options.only]
    print("\n".join(tables(ran)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
