"""Plans that survive a lost node, with each node taken away: `python -m benchmarks.survive [--seconds 15]`.

Ten questions, mixed clusters too. Of each the best fleet that survives, on its nodes; then every node in use
is taken away in turn (any two of them where two may be lost), those that hold the same once:

    price     what the best fleet that need not survive has more, or costs less; `at most`: by its bound
    promised  share of the rate that the rest is to serve        left    the least that it serves, of the rate
    holds     how many losses leave as much as was promised, of how many; `check` finds nothing wrong
    bare      left of the fleet that need not survive, with its replicas as they are
    anew      left where the nodes that remain are planned anew, all replicas started again
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from cluster_configs.reading import from_gpus
from planner import api
from planner.errors import MeshwrightError
from planner.inputs.options import Survive
from planner.inputs.reading import parse_survive
from planner.objectives import THROUGHPUT
from planner.plans.losses import least_left
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from planner.search.question import Question
from solvers.linear import Limits


@dataclass(frozen=True)
class Case:
    """A question: GPUs by device in nodes of 8, a model, what may be lost, and the load."""

    nodes: dict[str, int]
    model: str
    survive: str = "node"
    load: dict[str, Any] | None = None

    def gpus(self, lost: dict[str, int] | None = None) -> str:
        """Of all nodes but those that are lost."""
        left = {g: n - (lost or {}).get(from_gpus(f"8x{g}").classes[0].id, 0) for g, n in self.nodes.items()}
        return ",".join(f"{8 * n}x{g}" for g, n in left.items() if n)

    def __str__(self) -> str:
        load = " ".join(f"{k} {v}" for k, v in (self.load or {}).items())
        return f"{self.model} on {self.gpus()} {load}".strip()


CASES = (
    Case({"L40S": 2}, "llama-3.1-8b"),
    Case({"H100": 2, "L40S": 2}, "llama-3.1-8b", "node:80%"),
    Case({"L40S": 3}, "qwen3-30b-a3b"),
    Case({"H200": 2, "A100": 2}, "qwen3-32b"),
    Case({"H100": 4}, "llama-3.1-70b", "node", {"isl": 8000, "osl": 500}),
    Case({"H100": 3}, "llama-3.1-70b", "node", {"rate": 20.0}),
    Case({"H100": 2, "L40S": 1}, "qwen3-32b", "node:70%", {"rate": 30.0}),
    Case({"H100": 8}, "llama-3.1-70b", "node", {"rate": 60.0}),
    Case({"H100": 6}, "llama-3.1-70b", "2:80%", {"rate": 40.0}),
    Case({"H100": 50}, "llama-3.1-70b", "node", {"rate": 200.0}),
)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survive")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each solve")
    seconds = parser.parse_args().seconds
    head = f"{'survive':>9} {'rps':>7} {'gap':>6} {'price':>6} {'at most':>7}"
    print(f"{'':62}{head} {'left':>6} {'holds':>7} {'bare':>6} {'anew':>6}")
    for case in CASES:
        print(row(case, seconds), flush=True)


def row(case: Case, seconds: float) -> str:
    """One case, measured."""
    lost = parse_survive(case.survive)
    plan = api.plan(
        None, case.model, gpus=case.gpus(), survive=case.survive, time_limit_s=seconds, **(case.load or {})
    )
    told, rate = plan.survives, plan.predicted.rps.value
    assert told is not None
    holds = sum(loss.rps >= lost.share * rate * (1 - 1e-6) for loss in told.losses)
    least = min(loss.rps for loss in told.losses) / rate
    bound = told.without if told.bound is None else told.bound
    price, most = (abs(x - plan.proof.own) / abs(x) if x else 0.0 for x in (told.without, bound))
    bare = uninsured(case, lost, seconds) / rate
    anew = min(again(case, loss.classes, seconds) for loss in told.losses) / rate
    paid = f"{plan.proof.gap:6.1%} {price:6.1%} {most:7.1%} {least:6.1%}"
    kept = f"{f'{holds}/{len(told.losses)}':>7} {bare:6.1%} {anew:6.1%}"
    return f"{case!s:62.62}{case.survive:>9} {rate:7.2f} {paid} {kept}"


def question(case: Case, gpus: str, load: dict[str, Any]) -> tuple[Any, Question]:
    """Candidates of a cluster and the question without losses."""
    loads = dict.fromkeys(("isl", "osl", "rate", "ttft_ms", "tpot_ms", "percentile")) | load
    asked = read(None, case.model, gpus, "chat", loads, {})
    _, pool, posed = pose(asked)
    return pool, posed


def uninsured(case: Case, lost: Survive, seconds: float) -> float:
    """Requests/s that the best fleet's rest serves after the worst loss; it is placed apart, too."""
    pool, posed = question(case, case.gpus(), case.load or {})
    found = find(posed, pool, Limits(gap=0.01, seconds=seconds))
    return least_left(found, lost, Limits(gap=1e-6, seconds=seconds))


def again(case: Case, lost: dict[str, int], seconds: float) -> float:
    """The most requests/s of the nodes that remain; arrivals as they were. 0: none."""
    try:
        pool, posed = question(case, case.gpus(lost), case.load or {})
    except MeshwrightError:
        return 0.0
    most = replace(posed, objective=THROUGHPUT, traffic=replace(posed.traffic, rate_rps=None))
    return find(most, pool, Limits(gap=0.01, seconds=seconds)).solution.rate


if __name__ == "__main__":
    main()
