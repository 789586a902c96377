"""Limits that are said to be in conflict, each set tried by planning: `python -m benchmarks.conflicts
[--problems 50] [--seed 0]`.

Questions are random and ask for too much: more than the cluster serves, or for less money, fewer GPUs or
in less time than that takes. Where nothing can be planned, the planner names the smallest set of limits that
cannot be kept together (planner/why/conflict.py). Each set is then planned with nothing else limited: with
all of it (there must be no fleet), and without each of its members (there must be one, which passes
`check`).

    questions  without a plan        named   of them, with a set of limits; the others lack one limit alone
    infeasible as a whole            minimal  without any member there is a plan
    size       members, most and mean
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from planner import plan
from planner.errors import Infeasible
from planner.question.asked import Asked, read
from planner.why.conflict import conflict, limits_of

CLUSTERS = ("16xL40S", "16xH100", "8xA100,8xL40S", "8xH100,8xL40S", "4xH200,8xL40S", "8xA100,8xH100")
MODELS = ("llama-3.1-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b")
SECONDS = 60.0
"""For a set to be found; the planner itself takes ten at most."""

MOST = 20
"""Questions drawn for each that is wanted."""


@dataclass(frozen=True)
class Asking:
    """A question by the names of `planner.plan`."""

    gpus: str
    model: str
    loads: dict[str, Any]
    budget: dict[str, float]
    survive: str | None

    @property
    def asked(self) -> Asked:
        names = ("isl", "osl", "rate", "ttft_ms", "tpot_ms", "e2e_ms", "percentile")
        budget = ",".join(f"{name}={value:g}" for name, value in self.budget.items()) or None
        options = {"engine": "vllm", "objective": "gpus", "budget": budget, "survive": self.survive}
        told = {k: v for k, v in options.items() if v is not None}
        return read(None, self.model, self.gpus, "chat", {n: self.loads.get(n) for n in names}, told)

    def plannable(self, kept: Collection[str]) -> bool:
        """Whether there is a plan when only these limits hold."""
        case = self.asked
        for name, limit in limits_of(case).items():
            if name not in kept:
                case = limit.without(case)
        budget = case.options.budget.model_dump(exclude_none=True)
        try:
            plan(
                None,
                self.model,
                gpus=self.gpus,
                workload=case.workload,
                engine="vllm",
                objective="gpus",
                budget=",".join(f"{name}={value:.9g}" for name, value in budget.items()) or None,
                survive=self.survive if "survive" in kept else None,
                explain=False,
                gap=0.3,
            )
        except Infeasible:
            return False
        return True


@dataclass(frozen=True)
class Tried:
    """A set that was named, and what planning says of it."""

    asking: Asking
    names: tuple[str, ...]
    infeasible: bool
    loose: tuple[str, ...]
    """Members without which there is no plan either."""
    seconds: float


def main() -> None:
    """Print the table, and each set that is not one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conflicts")
    parser.add_argument("--problems", type=int, default=50, help="sets of limits")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, tried, alone = random.Random(options.seed), list[Tried](), 0
    for _ in range(MOST * options.problems):
        asking = drawn(rng)
        if len(tried) == options.problems:
            break
        if asking.plannable(limits_of(asking.asked)):
            continue
        found = named(asking)
        if found is None:
            alone += 1
        else:
            tried.append(found)
    print(report(tried, alone))


def named(asking: Asking) -> Tried | None:
    """The set that the planner names for a question without a plan, tried; None where it names none."""
    asked, began = asking.asked, time.perf_counter()
    words = conflict(asked, SECONDS)
    took = time.perf_counter() - began
    if words is None:
        return None
    names = tuple(name for name, limit in limits_of(asked).items() if limit.words in words)
    loose = tuple(n for n in names if not asking.plannable(set(names) - {n}))
    return Tried(asking, names, not asking.plannable(names), loose, took)


def report(tried: list[Tried], alone: int) -> str:
    """Counts, the sets by their members, and what is wrong."""
    sizes = [len(t.names) for t in tried]
    lines = [
        f"questions without a plan      {len(tried) + alone:4}",
        f"named a set of limits         {len(tried):4}   of {sum(sizes) / max(len(sizes), 1):.1f} "
        f"members, {max(sizes, default=0)} at most",
        f"  infeasible as a whole       {sum(t.infeasible for t in tried):4}",
        f"  feasible without any member {sum(not t.loose for t in tried):4}",
        f"seconds to name one           {max((t.seconds for t in tried), default=0.0):4.1f}   at most",
        "",
        *(f"{n:4}  {' + '.join(names)}" for names, n in Counter(t.names for t in tried).most_common()),
    ]
    lines += [f"feasible: {t.names} of {t.asking}" for t in tried if not t.infeasible]
    lines += [f"infeasible without {t.loose}: {t.names} of {t.asking}" for t in tried if t.loose]
    return "\n".join(lines)


def drawn(rng: random.Random) -> Asking:
    """A random question with several limits, some of them hard to keep."""
    loads: dict[str, Any] = {"isl": rng.choice((300, 1024, 4000)), "osl": rng.choice((100, 256, 600))}
    loads["rate"] = float(f"{10 ** rng.uniform(-0.5, 2.2):.2g}")
    loads["ttft_ms"] = rng.choice(("none", 300.0, 1000.0, 3000.0))
    loads["tpot_ms"] = rng.choice(("none", 8.0, 15.0, 25.0, 50.0))
    budget = dict[str, float]()
    if rng.random() < 0.6:
        budget["gpus"] = rng.randint(1, 12)
    if rng.random() < 0.5:
        budget["usd_per_hour"] = float(rng.randint(1, 30))
    if rng.random() < 0.3:
        budget["watts"] = float(100 * rng.randint(3, 60))
    survive = "node" if rng.random() < 0.2 else None
    return Asking(rng.choice(CLUSTERS), rng.choice(MODELS), loads, budget, survive)


if __name__ == "__main__":
    main()
