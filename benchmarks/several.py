"""Several models on one cluster against the best split by hand: `python -m benchmarks.several`.

A split gives each model whole nodes of its own. On small clusters every split is tried: each model is planned
by itself on every part of the cluster that it may get, and the best sum (of costs) or the best common share
(of throughput) is taken. Then large clusters, up to 1,000 GPUs, against the best of `--draws` random splits
(0: none).

    objective  of the joint plan, in req/s of all or $/h      gap, s  of the joint plan, as it is printed
    split      of the best split that was tried, of how many; `none` where no split serves all
    better     the joint plan against it: above 0 % it is better
    bound      the best split against the joint bound: below 0 % it would prove the bound false
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ResolvedCluster
from planner.api import with_loads
from planner.errors import Infeasible
from planner.inputs.reading import read_workload
from planner.inputs.several import Wanted
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from planner.several.plan import plan_several
from solvers.linear import Limits

PRICES = {"H100": 24.0, "H200": 32.0, "A100": 12.0, "L40S": 8.0, "L4": 4.0, "B200": 48.0, "MI300X": 20.0}
"""US$ an hour of a node of eight."""

SMALL, MID, BIG, MOE = "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "qwen3-30b-a3b"


@dataclass(frozen=True)
class Case:
    """Nodes of eight GPUs by device, and models with their rates (None: as many requests as possible)."""

    nodes: tuple[tuple[str, int], ...]
    models: tuple[str, ...]
    rates: tuple[float, ...] | None = None

    def __str__(self) -> str:
        gpus = ",".join(f"{8 * k}x{name}" for name, k in self.nodes)
        rates = "" if self.rates is None else " at " + "/".join(f"{r:g}" for r in self.rates)
        return f"{gpus}: {', '.join(self.models)}{rates}"


CASES = (
    Case((("H100", 2), ("L40S", 2)), (SMALL, MID)),
    Case((("H100", 3), ("L4", 2)), (SMALL, BIG)),
    Case((("H200", 2), ("A100", 2)), (MID, BIG), (20.0, 8.0)),
    Case((("H100", 2), ("L40S", 3)), (SMALL, MID), (60.0, 30.0)),
    Case((("A100", 3), ("L4", 3)), (SMALL, MOE)),
    Case((("B200", 1), ("H100", 2), ("L40S", 1)), (MID, BIG)),
    Case((("MI300X", 2), ("H100", 2)), (MOE, BIG), (60.0, 12.0)),
    Case((("H100", 2), ("L40S", 2)), (SMALL, MID, MOE)),
    Case((("H200", 2), ("A100", 2)), (SMALL, MID, BIG), (40.0, 10.0, 6.0)),
    Case((("H100", 3), ("L4", 3)), (SMALL, MOE, BIG), (50.0, 40.0, 6.0)),
)

LARGE = (
    Case((("H100", 40), ("H200", 20), ("L40S", 40), ("A100", 25)), (SMALL, BIG)),
    Case((("H100", 40), ("H200", 20), ("L40S", 40), ("A100", 25)), (SMALL, MID, BIG)),
    Case((("H100", 40), ("H200", 20), ("L40S", 40), ("A100", 25)), (SMALL, MID, BIG), (900.0, 300.0, 200.0)),
)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.several")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each joint plan")
    parser.add_argument("--draws", type=int, default=10, help="random splits of each large cluster")
    parser.add_argument("--only", type=int, nargs="*", help="cases by number")
    asked = parser.parse_args()
    print(f"{'':72}{'objective':>10} {'gap':>6} {'s':>5} {'split':>8} {'of':>5} {'better':>7} {'bound':>7}")
    for i, case in enumerate([*CASES, *LARGE]):
        if asked.only is None or i in asked.only:
            print(row(case, asked.seconds, asked.draws if case in LARGE else None), flush=True)


def row(case: Case, seconds: float, draws: int | None) -> str:
    """One case, measured; `draws`: random splits in place of all."""
    began = time.perf_counter()
    rates = {} if case.rates is None else {"objective": "cost"}
    joint = plan_several(
        cluster_of(dict(case.nodes)),
        wanted(case),
        time_limit_s=seconds,
        **rates,  # type: ignore[arg-type]
    )
    took = time.perf_counter() - began
    p = joint.proof
    best, tried = split(case, draws)
    told = f"{case!s:72}{p.objective:10.2f} {100 * p.gap:5.2f}% {took:5.1f}"
    if best is None:
        return f"{told} {'none':>8} {tried:>5}"
    sign = 1 if case.rates is None else -1
    better, under = sign * (p.objective / best - 1), sign * (p.bound / best - 1)
    return f"{told} {best:8.2f} {tried:5} {100 * better:6.2f}% {100 * under:6.2f}%"


def cluster_of(nodes: Mapping[str, int]) -> ResolvedCluster:
    """Nodes of eight GPUs at the prices above."""
    listed = [
        {"device": devices[0], "count": k, "gpus_per_node": 8, "price_usd_per_hour": PRICES[name]}
        for name, k in nodes.items()
        if k and (devices := [node.device.name for node in from_gpus(f"8x{name}").classes])
    ]
    return resolve(Cluster.model_validate({"name": "mixed", "nodes": listed}))


def wanted(case: Case) -> list[Wanted]:
    """The models with their rates, chat requests."""
    rates = case.rates or (None,) * len(case.models)
    return [
        Wanted(model, read_workload("chat", rate=rate)[0])
        for model, rate in zip(case.models, rates, strict=True)
    ]


def split(case: Case, draws: int | None) -> tuple[float | None, int]:
    """The best objective of a model each on whole nodes of its own, and how many splits were tried: all, or
    as many as are drawn."""
    totals = [k for _, k in case.nodes]
    splits = every(totals, len(case.models)) if draws is None else drawn(totals, len(case.models), draws)
    best, tried = None, 0
    for parts in splits:
        tried += 1
        values = [alone(case, m, part) for m, part in enumerate(parts)]
        if None in values:
            continue
        known = [x for x in values if x is not None]
        value = len(known) * min(known) if case.rates is None else sum(known)
        if best is None or (value > best if case.rates is None else value < best):
            best = value
    return best, tried


def every(totals: Sequence[int], parts: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give each of `parts` models whole nodes of each class; none is left over."""
    if parts == 1:
        yield (tuple(totals),)
        return
    for first in product(*(range(k + 1) for k in totals)):
        rest = [k - mine for k, mine in zip(totals, first, strict=True)]
        for others in every(rest, parts - 1):
            yield (first, *others)


def drawn(totals: Sequence[int], parts: int, draws: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Random ones, by random weights of the models on each class."""
    rng = random.Random(1)
    for _ in range(draws):
        columns = []
        for k in totals:
            cuts = sorted(rng.randint(0, k) for _ in range(parts - 1))
            columns.append([b - a for a, b in zip([0, *cuts], [*cuts, k], strict=True)])
        yield tuple(zip(*columns, strict=True))


@cache
def alone(case: Case, m: int, part: tuple[int, ...]) -> float | None:
    """What one model by itself serves on a part of the nodes, or costs there; None where it cannot."""
    nodes = {name: k for (name, _), k in zip(case.nodes, part, strict=True) if k}
    if not nodes:
        return None
    options = {} if case.rates is None else {"objective": "cost"}
    try:
        asked = read(cluster_of(nodes), case.models[m], None, wanted(case)[m].workload, {}, options)
        _, pool, question = pose(with_loads(asked, None))
    except Infeasible:
        return None
    return find(question, pool, Limits(gap=0.005, seconds=10.0)).solution.objective


if __name__ == "__main__":
    main()
