"""A planner that costs nothing and answers from the options alone, and a sweep of it to be killed."""

import sys
import time
from pathlib import Path

from planner.errors import Infeasible
from planner.plans.schema import Plan
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


def logged(log: str, **cell: object) -> Plan:
    """`plan`, slow enough to be killed, with a line in `log` for each call."""
    with Path(log).open("a") as file:
        file.write(f"{cell['model']} {cell['isl']}\n")
    return plan(**cell, pause_s=0.03)  # type: ignore[arg-type]


if __name__ == "__main__":
    from functools import partial

    results, log, jobs = sys.argv[1:]
    run(CELLS, Path(results), partial(logged, log), int(jobs), lambda *_: None)
