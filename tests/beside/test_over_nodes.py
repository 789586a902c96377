"""Tensor parallelism over small machines: shown beside plans over several, and within what memory allows."""

import re
from pathlib import Path

import numpy as np
import pytest

from cluster_configs.reading import read_cluster
from planner import api
from planner.beside.over_nodes import WHAT, _step_s, cut_over_nodes
from planner.beside.planned import Planned
from planner.cost.attention import Load
from planner.plans.operation import index_of
from solvers.linear import Limits
from tests.beside.solved import alone, on

told = alone(cut_over_nodes)

EXAMPLES = Path(__file__).resolve().parents[2] / "cluster_configs" / "examples"


def test_it_is_shown_beside_a_plan_over_several_nodes_and_reads_no_faster_than_memory():
    plan = api.plan(
        EXAMPLES / "four-small-boxes.yaml",
        "llama-3.1-405b",
        precision="int4_wo",
        loop="closed",
        work_limit=1000,
    )
    (way,) = [a for a in plan.alternatives if a.what == WHAT]
    said = re.search(r"TPOT ([\d,]+) ms for a batch of \d+, (\d+)% of it all-reduces; unmeasured", way.why)
    assert said
    token_s = float(said[1].replace(",", "")) / 1e3
    in_memory = sum(part.bytes for part in plan.tiers)

    assert token_s > in_memory / 4 / 80e9
    assert way.objective > plan.proof.objective  # all memories at once
    assert "no stock engine" in way.why


@pytest.mark.parametrize(("cluster", "model"), [("one-4090-128gb", "gpt-oss-120b"), ("h100-8", "qwen3-8b")])
def test_it_is_not_shown_else(cluster, model):
    plan = api.plan(EXAMPLES / f"{cluster}.yaml", model, work_limit=1000)

    assert all(a.what != WHAT for a in plan.alternatives)


def test_all_nodes_work_at_once_and_meet_twice_a_layer():
    """What the four boxes do in turn takes a quarter; all-reduces stand in place of the network."""
    cluster = read_cluster(EXAMPLES / "four-small-boxes.yaml")
    asked, question, found = on(cluster, "llama-3.1-70b", engine="any")
    (g,) = Planned(asked, question, found, Limits()).made
    load, card = Load.of(1.0, 1000.0), g.setup.model.card
    seconds, reduces = _step_s(g, load)
    by = g.setup.model.seconds_by(g.setup.designs.take(np.array([index_of(g.setup, g.candidate)])), load)
    sent = g.setup.model.links.all_reduce_s(np.array([2.0 * card.hidden]), np.array([4]))[0]

    assert reduces == pytest.approx(2 * len(card.stack) * sent)
    assert seconds - reduces == pytest.approx(
        (sum(by.values()) - by["network"] - by["engine"]) / 4 + by["engine"]
    )
