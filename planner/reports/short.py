"""A replica group in one short string: for sweep rows, logs, and where a plan has to fit in a line."""

from __future__ import annotations

from planner.plans.schema import Replica
from planner.reports import words as say


def short(r: Replica) -> str:
    """Count, GPUs of each, layout, role, engine, precision and batch:
    `4x 2×h100-sxm tp2 mixed vllm bf16 b96`."""
    precision = say.precision(r).replace(", ", "+").replace(" ", ":")
    gpus = say.hardware(r).replace(" ", "")
    layout = say.layout(r).replace(" ", "-")
    return f"{r.count}x {gpus} {layout} {r.role} {r.engine} {precision} b{r.max_batch}"
