"""Which nodes a plan takes, by name."""

from __future__ import annotations

from planner.reports.started import rented
from tests.exporters.samples import made, replica


def test_nodes_in_use_and_those_not_needed_are_named():
    lines = rented(made(replica("r1", "vllm", count=3, tp=8), replica("r2", "vllm", count=2, tp=2)))

    assert lines[0] == "nodes in use: 4 h200-sxm (h200-sxm-0, h200-sxm-1, h200-sxm-2, h200-sxm-3)"
    assert lines[1] == "not needed: 124 h200-sxm (h200-sxm-4 … h200-sxm-127)"


def test_nothing_is_said_where_all_nodes_are_in_use():
    plan = made(replica("r1", "vllm", count=2, tp=8))
    cluster = {**plan.problem.cluster, "nodes": [{**plan.problem.cluster["nodes"][0], "count": 2}]}

    assert (
        rented(plan.model_copy(update={"problem": plan.problem.model_copy(update={"cluster": cluster})}))
        == []
    )
