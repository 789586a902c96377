"""Small problems, posed and solved, that tests of explanations share."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from cluster_configs.schema import ResolvedCluster
from planner.beside.reasons import Fleet
from planner.beside.ways import WAYS, Way
from planner.fleet import finish
from planner.objectives import named
from planner.plans.found import Found
from planner.question.asked import LOADS, Asked, read
from planner.question.posed import pose
from planner.search.find import find
from planner.search.question import Question
from solvers.linear import Limits


@cache
def solved(gpus: str = "8xH100", model: str = "llama-3.1-70b", **asked) -> tuple[Asked, Question, Found]:
    """The question and its best fleet with vLLM; `asked`: a load and options by name."""
    return posed(read(None, model, gpus, "chat", *_parts(asked)))


def posed(asked: Asked) -> tuple[Asked, Question, Found]:
    stated, pool, question = pose(asked)
    return stated, question, find(question, pool, Limits(work=1000))


def on(cluster: ResolvedCluster, model: str, **asked) -> tuple[Asked, Question, Found]:
    """The same on a cluster."""
    load, options = _parts(asked)
    return posed(read(cluster, model, None, "chat", load, options))


def _parts(asked):
    load = {k: v for k, v in asked.items() if k in LOADS}
    return load, {"engine": "vllm", "risk": 0.5} | {k: v for k, v in asked.items() if k not in LOADS}


def ended(found: Found, **solution) -> Found:
    """The fleet with another end of its solve: status, objective, bound."""
    return replace(found, solution=replace(found.solution, **solution))


def alone(*ways: Way):
    """A fixture of a module whose tests read what these ways tell: plans tell nothing else."""

    @pytest.fixture(autouse=True, scope="module")
    def told_alone():
        assert set(ways) <= set(WAYS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(finish, "WAYS", ways)
            yield

    return told_alone


class Figures(Fleet):
    """A fleet of which only figures are known."""

    def __init__(self, goal="throughput", objective=10.0, rate=10.0, kinds=None, bound=None, tokens=100):
        solution = SimpleNamespace(objective=objective, rate=rate, bound=bound, flows={}, pair_flows={})
        buckets = SimpleNamespace(buckets=[SimpleNamespace(osl=tokens)], shares=[1.0])
        cluster = SimpleNamespace(classes=[])
        super().__init__(
            SimpleNamespace(
                objective=named(goal), solution=solution, workload=buckets, cluster=cluster, others={}
            )
        )
        self.__dict__ |= {"kinds": kinds or {("mixed", "c", "vllm", "tp1"): 8}, "made": []}
