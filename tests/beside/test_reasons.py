"""Reasons are in the objective's own terms and never argue against the verdict."""

import random
import re

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.beside import reasons
from planner.beside.reasons import Fleet, describe, lacking, why
from planner.search.find import restricted
from solvers.linear import Limits
from tests.beside.solved import Figures, on, solved

GOALS = ("throughput", "cost", "energy", "gpus", "latency")
MORE = {"req/s": True, "GPUs": True, "a million": False, "J": False, "s to": False, "s a": False}
"""Figures of which more is better, by how their unit begins."""


@pytest.fixture(autouse=True)
def nothing_holds(monkeypatch):
    """Fleets of figures have no operation that could be at a limit."""
    monkeypatch.setattr(reasons, "binding", lambda found, made: None)


def gpus(count):
    return {("mixed", "c", "vllm", "tp1"): count}


def test_a_worse_fleet_that_serves_more_a_gpu_is_said_to_use_fewer():
    """As was printed: 39 % worse ... 1.67 against 0.625 req/s a GPU."""
    plan, rival = (
        Figures(objective=5.0, rate=5.0, kinds=gpus(8)),
        Figures(objective=3.34, rate=3.34, kinds=gpus(2)),
    )

    assert why(plan, rival) == "2 against 8 GPUs in use"


def test_a_worse_fleet_on_as_many_gpus_serves_less_a_gpu():
    plan, rival = Figures(objective=20.0, rate=20.0), Figures(objective=16.0, rate=16.0)

    assert why(plan, rival) == "2 against 2.5 req/s a GPU in use"
    assert why(rival, plan) == "2.5 against 2 req/s a GPU in use"


@pytest.mark.parametrize("goal", GOALS)
def test_no_figure_argues_against_the_verdict(goal, monkeypatch):
    draw = random.Random(goal)
    monkeypatch.setattr(reasons, "_times_s", lambda fleet: (draw.uniform(0.1, 2), draw.uniform(0.01, 0.1)))
    said = 0
    for _ in range(200):
        rates = [draw.uniform(1, 50)] * 2 if goal != "throughput" else [draw.uniform(1, 50) for _ in "ab"]
        values = rates if goal == "throughput" else [draw.uniform(1, 50) for _ in "ab"]
        made = zip(values, rates, strict=True)
        plan, rival = (Figures(goal, v, r, gpus(draw.randint(1, 64))) for v, r in made)
        reason = why(plan, rival)
        told = re.fullmatch(r"\$?([\d.,e+-]+) against \$?([\d.,e+-]+) (.*)", reason)
        assert told or reason == ""
        if told is None:
            continue
        said += 1
        a, b = (float(x.replace(",", "")) for x in told.groups()[:2])
        more = next(better for unit, better in MORE.items() if told[3].startswith(unit))
        assert ((a > b) == more) == (plan.gain(rival.objective) > 0)
    assert said > 100


def test_figures_that_round_to_the_same_say_nothing():
    assert why(Figures(objective=20.0, rate=20.0), Figures(objective=19.98, rate=19.98)) == ""


@pytest.mark.parametrize("goal", GOALS)
def test_between_equals_there_is_nothing_to_explain(goal):
    assert why(Figures(goal), Figures(goal, rate=20.0, kinds=gpus(4))) == ""


def test_what_holds_a_fleet_back_is_told_of_worse_ones_alone(monkeypatch):
    monkeypatch.setattr(reasons, "binding", lambda found, made: "its tp1 is held by KV room")
    worse, better = Figures(objective=8.0, rate=8.0), Figures(objective=12.0, rate=12.0)

    assert why(Figures(), worse) == "1 against 1.25 req/s a GPU in use; its tp1 is held by KV room"
    assert "held" not in why(Figures(), better)


def test_dollars_are_those_of_whole_nodes():
    """By hand: 2 of 8 GPUs in use, 16 $/h paid for 10 requests/s of 256 tokens: 1.74 $ a million."""
    node = Node(device="h100-sxm", gpus_per_node=8, price_usd_per_hour=16)
    dear = Node(device="h200-sxm", gpus_per_node=8, price_usd_per_hour=40)
    _, question, found = on(resolve(Cluster(nodes=[node, dear])), "qwen3-8b", rate=10)
    rival = restricted(question, found, lambda c: c.node_class.startswith("h200"), Limits(work=1000))

    assert sum(g.count * g.candidate.gpus for g in Fleet(found).made) < 8
    assert why(Fleet(found), Fleet(rival)) == (
        "$4.34 against $1.74 a million output tokens, whole nodes paid"
    )


def test_a_fleet_too_large_to_be_seen_is_named_by_what_it_lacks():
    kinds = {("decode", "h100", "vllm", "tp4"): 8, ("prefill", "h100", "vllm", "pp2"): 64}
    plan, rival = Figures(kinds=kinds), Figures(kinds={("decode", "h100", "vllm", "tp4"): 72})

    assert lacking(plan, rival) == ""
    rival.__dict__["made"] = [None] * 5
    assert lacking(plan, rival) == "without prefill pp2 h100 (vllm)"


def test_a_fleet_in_short_marks_phases_and_ends_after_four_groups():
    made = Fleet(solved()[2]).made

    assert describe(made) == " + ".join(
        f"{g.count} x {g.candidate.role} {g.candidate.label} h100-sxm (vllm)" for g in made
    )
    assert describe(made * 3).endswith(" + …")


def test_a_fleet_in_short_says_what_its_gpus_are_limited_to():
    """By hand: 3,920 W over the eight GPUs of a node."""
    nodes = [Node(name="h", device="h100-sxm", power_cap_watts=3920.0)]
    made = Fleet(on(resolve(Cluster(name="capped", nodes=nodes)), "llama-3.1-8b")[2]).made

    assert all(" h100-sxm at 490 W (" in part for part in describe(made).split(" + "))
