"""What one more of a limit is worth, against the whole question asked again with one more:
`python -m benchmarks.worth [--problems 50] [--seed 0]`.

A plan prices its limits from its own candidates: a node more of each class, a tenth more of a budget. Here
the question with one more is asked anew, candidates and all, by `planner.plan`. With objectives o, o' and
bounds b, b' before and after, what one more is really worth lies between these:

    of what is to be large  o' - b <= worth <= b' - o        small  b - o' <= worth <= o - b'

and the price is right where it lies there, up to the gap that is left open to each solve (1 % of o).

    limits     priced, over all problems       within   of them, inside these bounds
    apart      |worth - what the two objectives differ by| / o, the median and the most
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.process import rows
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node, ResolvedCluster
from planner import plan
from planner.api import with_loads
from planner.beside.prices import BUDGET_STEP, priced
from planner.errors import Infeasible
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits

GAP = 0.01
PRICES = {"h100-sxm": 3.0, "h200-sxm": 4.0, "a100-sxm": 1.5, "l40s": 1.0, "l4": 0.5, "b200-sxm": 6.0}
"""US$ an hour of a GPU."""

MODELS = ("llama-3.1-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b", "llama-3.1-70b-fp8")
LENGTHS = ((1024, 256), (4000, 500), (300, 600), (8000, 200))
LOAD = (0.3, 0.9)
"""Of the most that the cluster serves, what is asked for where a fleet is to be cheap."""


@dataclass(frozen=True)
class Problem:
    """What is asked: nodes as (device, GPUs, count); a budget where one is set."""

    nodes: tuple[tuple[str, int, int], ...]
    model: str
    isl: int
    osl: int
    tpot_ms: float
    objective: str
    rate: float | None = None
    budget: tuple[str, float] | None = None

    @property
    def cluster(self) -> ResolvedCluster:
        entries = [
            Node(name=device, device=device, gpus_per_node=g, count=k, price_usd_per_hour=g * PRICES[device])
            for device, g, k in self.nodes
        ]
        return resolve(Cluster(name="mixed", nodes=entries))

    @property
    def loads(self) -> dict[str, object]:
        """Of the traffic, by the names of `planner.plan`."""
        none = dict.fromkeys(("e2e_ms", "percentile"))
        told = {"isl": self.isl, "osl": self.osl, "rate": self.rate, "ttft_ms": 5000.0}
        return {**none, **told, "tpot_ms": self.tpot_ms}

    @property
    def options(self) -> dict[str, object]:
        budget = None if self.budget is None else f"{self.budget[0]}={self.budget[1]:.9g}"
        return {"engine": "vllm", "objective": self.objective, "budget": budget, "gap": GAP}

    def larger(self, limit: str) -> Problem:
        """The same with one more of a limit: "nodes CLASS" or "budget NAME"."""
        kind, name = limit.split(" ", 1)
        if kind == "budget":
            assert self.budget is not None
            return replace(self, budget=(name, self.budget[1] * (1 + BUDGET_STEP)))
        more = tuple((d, g, k + (d == name)) for d, g, k in self.nodes)
        return replace(self, nodes=more)

    def answer(self) -> tuple[float, float]:
        """Objective and bound of the best plan, asked from the beginning."""
        proof = plan(self.cluster, self.model, explain=False, **self.loads, **self.options).proof  # type: ignore[arg-type]
        return proof.objective, proof.bound


@dataclass(frozen=True)
class Compared:
    """A price, what it should be at least and at most, and what the objectives differ by; shares of the
    objective."""

    kind: str
    worth: float
    low: float
    high: float
    again: float
    words: str

    @property
    def within(self) -> bool:
        return self.low - GAP <= self.worth <= self.high + GAP


def main() -> None:
    """Print the table, and each price that is not within its bounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worth")
    parser.add_argument("--problems", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    found: list[Compared] = []
    for number in range(asked.problems):
        found += compared(drawn(rng, number))
    print(report(found, asked.problems))


def report(found: Sequence[Compared], problems: int) -> str:
    """A line a kind of limit."""
    kinds = defaultdict[str, list[Compared]](list)
    for one in found:
        kinds[one.kind].append(one)
    table = [["one more", "limits", "of worth", "within", "apart, median", "most"]]
    for kind, own in sorted(kinds.items()):
        apart = [abs(c.worth - c.again) for c in own]
        figures = (len(own), sum(c.worth > GAP for c in own), sum(c.within for c in own))
        table.append([kind, *map(str, figures), f"{100 * median(apart):.2f} %", f"{100 * max(apart):.2f} %"])
    wrong = [f"not within: {c.words}" for c in found if not c.within]
    return "\n".join([rows(table, markdown=True), f"\n{problems} problems.", *wrong])


def compared(problem: Problem) -> Iterator[Compared]:
    """Every price of nodes and budgets of a problem, beside the larger problem asked anew."""
    limits = Limits(gap=GAP, seconds=60.0)
    asked = read(problem.cluster, problem.model, None, "chat", problem.loads, problem.options)
    posed, pool, question = pose(with_loads(asked, None))
    best = find(question, pool, limits)
    o, b = best.solution.objective, best.solution.bound
    assert o is not None
    assert b is not None
    sign = 1.0 if posed.objective.more else -1.0
    for price in priced(best, limits, posed.options.budget):
        after, bound = problem.larger(price.limit).answer()
        low, high, again = (sign * x / o for x in (after - b, bound - o, after - o))
        words = f"{problem}, {price.limit}: {price.worth / o:.4f} of {low:.4f} to {high:.4f}"
        kind = price.limit.split(" ")[0] if price.limit.startswith("nodes") else price.limit
        yield Compared(f"{kind}, {problem.objective}", price.worth / o, max(low, 0.0), high, again, words)


def drawn(rng: random.Random, number: int) -> Problem:
    """The next random problem that has a plan."""
    while True:
        kinds = rng.sample(sorted(PRICES), rng.choice((1, 1, 2, 2, 3)))
        nodes = tuple((d, rng.choice((1, 2, 4, 8)), rng.randint(1, 4)) for d in kinds)
        isl, osl = rng.choice(LENGTHS)
        tpot_ms = rng.choice((20.0, 35.0, 50.0, 100.0))
        most = Problem(nodes, rng.choice(MODELS), isl, osl, tpot_ms, "throughput")
        load, kind = rng.uniform(*LOAD), number % 4
        try:
            if kind == 0:
                most.answer()
                return most
            if kind == 1:  # as much as possible for a part of what all nodes cost
                usd = sum(PRICES[d] * g * k for d, g, k in nodes)
                found = replace(most, budget=("usd_per_hour", round(load * usd, 2)))
            else:
                light = replace(most, rate=0.1)
                rate = float(f"{load * light.answer()[0]:.3g}")
                found = replace(most, rate=rate, objective="cost" if kind == 2 else "gpus")
            found.answer()
            return found
        except Infeasible:
            continue


if __name__ == "__main__":
    main()
