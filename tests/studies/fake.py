"""A planner that costs nothing and answers from the options alone, and a sweep of it to be killed."""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from planner.errors import Infeasible
from planner.plans.schema import Plan
from planner.studies.pools import Start
from planner.studies.pools.local import Here, Local
from planner.studies.questions import Planner, key
from planner.studies.sweep import run
from tests.reports.samples import ONE_NODE


def plan(model: str, isl: int, gpus: str, pause_s: float = 0.0) -> Plan:
    """Objective 1000/isl; nothing fits model "huge"; the log beside the results counts calls."""
    time.sleep(pause_s)
    if model == "huge":
        raise Infeasible("does not fit", hint="take more GPUs")
    if model == "bug":
        raise ZeroDivisionError("a bug")
    objective = 1000.0 / isl
    proof = ONE_NODE.proof.model_copy(update={"objective": objective, "seconds": time.perf_counter() % 1})
    return ONE_NODE.model_copy(update={"proof": proof})


CELLS = [
    {"gpus": "8xH100", "model": model, "isl": isl}
    for model in ("small", "huge", "large")
    for isl in range(100, 108)
]


def resolve(cell: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A cell is its question."""
    return key(cell), cell


def planned(cell: dict[str, Any]) -> Plan:
    return plan(**cell)


FAKE = Planner(resolve, planned)


def logged(log: str, cell: dict[str, Any]) -> Plan:
    """`plan`, slow enough to be killed, with a line in `log` for each call."""
    with Path(log).open("a") as file:
        file.write(f"{cell['model']} {cell['isl']}\n")
    return plan(**cell, pause_s=0.03)


def pool(jobs: int) -> Start:
    return Here if jobs == 1 else partial(Local, jobs=jobs)


if __name__ == "__main__":
    results, log, jobs = sys.argv[1:]
    run(CELLS, Path(results), Planner(resolve, partial(logged, log)), pool(int(jobs)), lambda *_: None)
