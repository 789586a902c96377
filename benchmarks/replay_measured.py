"""The replay against measured serving runs, beside `predict`: `python -m benchmarks.replay_measured`

Each run's replica is replayed in a closed loop at the run's concurrency: as many requests as its client
sends, ten for each in flight, all at once at the start where the run began so, their lengths drawn evenly
from 0.8 to 1 of what the run names where its client draws them. Steps are the cost model's with the shipped
parameters, made linear at the batch at which `predict` has them; so both know the same of the hardware, runs
that the parameters were fitted to among them, and what differs is the replay against the formulas. Errors
against the run: TTFT, TPOT (means), and output tokens/s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.truth import RUNS, Row, as_asked, clean_rows
from planner.designs.shape import Floats, StepTimes
from planner.errors import InputError
from planner.predict.loads import Group, Places, Rows
from planner.predict.predictions import looked_up
from planner.predict.rows import Row as Asked
from planner.predict.rows import parse
from planner.predict.served import operate, steps_of
from planner.simulate.fleet import Fleet, Outcome, Site
from planner.simulate.pools import Group as Servers
from planner.simulate.pools import Load
from planner.simulate.requests import Requests, Settings, StepCosts
from planner.simulate.routing import Way

EACH = 10
"""Requests of a run for each in flight: the InferenceX client's."""

MOST_FLIGHT = 2048
NARROW = 0.8
"""Of the named length: the shortest that a client draws."""

FIGURES = ("TTFT", "TPOT", "tok/s")


@dataclass(frozen=True)
class Run:
    """A measured run: its figures [s, s, 1/s], those of `predict`, and those of the replay."""

    row: Row
    measured: tuple[float, float, float]
    predicted: tuple[float, float, float]
    replayed: tuple[float, float, float]


def runs(rows: list[Row], seed: int) -> Iterator[Run]:
    """Every run that the table of `predict` can say."""
    groups: dict[Group, list[tuple[Row, Asked]]] = defaultdict(list)
    for row in rows:
        try:
            group, asked = looked_up(parse({k: v for k, v in as_asked(row).items() if v}))
        except InputError:
            continue
        groups[group].append((row, asked))
    for group, members in groups.items():
        cost, load = group.cost(), Rows.of(group, [asked for _, asked in members])
        places = Places.of(cost, load, group.token_budget)
        found = operate(cost, load, places, group.terms)
        steps = steps_of(cost, load, found.batch, group.terms)
        started_s = load.asked.mean(cost.tuning.started_s(load.asked.isl))
        for i, (row, asked) in enumerate(members):
            room = max(float(places.capacity[i]), 1.0)
            ranks = int(load.designs.attn_dp[i])
            server = Servers(
                "r", "mixed", ranks, _one(steps, i), Settings(group.token_budget, room), float(started_s[i])
            )
            out, osl = _replayed(server, row, asked, seed)
            rate = float(found.estimate.rate[i]) * ranks * float(load.asked.mean(load.asked.osl)[i])
            predicted = float(found.estimate.ttft_s[i, 0]), float(found.estimate.tpot_s[i, 0]), rate
            yield Run(row, _measured(row), predicted, _figures(out, osl))


def _one(steps: StepTimes, i: int) -> StepCosts:
    """The step of one row."""
    values = {f.name: np.broadcast_to(getattr(steps, f.name), steps.t0_s.shape)[i] for f in fields(steps)}
    return StepCosts.of(StepTimes(**values))


def _replayed(server: Servers, row: Row, asked: Asked, seed: int) -> tuple[Outcome, Floats]:
    """The run's requests on the replica's servers, and their output tokens."""
    inside = max(round(asked.concurrency), 1)
    count = max(EACH * inside, 50)
    rng = np.random.default_rng(seed)
    ((isl, osl, _),) = asked.requests
    low, high = (NARROW / 0.9, 1 / 0.9) if row["drawn"] != "1.0" else (1.0, 1.0)
    lengths = [np.maximum(np.round(x * rng.uniform(low, high, count)), 1.0) for x in (isl, osl)]
    load = Load(Requests(np.zeros(count), *lengths), np.zeros(count, dtype=np.int64), {}, inside)
    return Fleet(Site([server], [[Way(1.0, "r")]], {}, {}), load).run(), lengths[1]


def _measured(row: Row) -> tuple[float, float, float]:
    per_gpu = float(row.get("silicon_out_tok_per_s_per_gpu") or "nan")
    times = (float(row[f"silicon_{name}_ms"] or "nan") / 1e3 for name in ("ttft", "tpot"))
    return *times, per_gpu * float(row["gpus"])


def _figures(out: Outcome, osl: Floats) -> tuple[float, float, float]:
    """Means, and tokens over the time of the whole run, as clients count them."""
    span_s = float(out.end_s.max() - out.arrival_s.min())
    return float(out.ttft_s.mean()), float(np.nanmean(out.tpot_s)), float(osl.sum()) / span_s


def report(found: list[Run]) -> str:
    """Medians and 90th percentiles of the errors' sizes and the errors' median, in per cent."""
    lines = [f"{len(found)} runs{'':18}{'predict':>26}{'replay':>27}{'replay against':>18}"]
    lines.append(f"{'':12}{'median   P90  bias':>39}{'median   P90  bias':>27}{'predict':>18}")
    for k, name in enumerate(FIGURES):
        told = np.array([(r.measured[k], r.predicted[k], r.replayed[k]) for r in found])
        told = told[np.isfinite(told).all(axis=1) & (told > 0).all(axis=1)]
        cells = [_cells(told[:, j] / told[:, 0] - 1) for j in (1, 2)]
        apart = np.abs(told[:, 2] / told[:, 1] - 1)
        lines.append(f"{name:8}{len(told):5}{cells[0]:>26}{cells[1]:>27}{100 * np.median(apart):14.1f} %")
    return "\n".join(lines)


def _cells(error: Floats) -> str:
    size = 100 * np.abs(error)
    return f"{np.median(size):6.1f}{np.percentile(size, 90):6.1f}{100 * np.median(error):+6.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=0, help="of all runs so many, evenly chosen (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return 0
    rows = [r for r in clean_rows() if float(r["concurrency"]) <= MOST_FLIGHT]
    if options.rows:
        rows = [rows[i] for i in np.linspace(0, len(rows) - 1, options.rows).astype(int)]
    began = time.process_time()
    found = list(runs(rows, options.seed))
    print(report(found))
    print(f"in per cent; {time.process_time() - began:.0f} s of CPU")
    for name, chosen in (("up to 16 in flight", lambda c: c <= 16), ("more", lambda c: c > 16)):
        part = [r for r in found if chosen(float(r.row["concurrency"]))]
        if part:
            print(f"\n{name}\n{report(part)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
