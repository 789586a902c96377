"""What peer-to-peer between GPUs on PCIe would bring, where nobody said that nodes have it."""

from dataclasses import replace

import pytest

from planner.beside import peers as module
from planner.beside.peers import WHAT, peer_to_peer
from planner.beside.planned import Planned
from planner.search.splits import SURE
from solvers.linear import Limits
from tests.beside.solved import ended, solved

LIMITS = Limits(work=1000)
LOAD = {"isl": 4000, "osl": 500, "engine": "trtllm"}


def planned(gpus: str, model: str = "qwen3-14b", **asked: object) -> Planned:
    stated, question, found = solved(gpus, model, **{**LOAD, **asked})
    return Planned(stated, question, found, LIMITS)


def test_it_brings_a_split_where_the_same_fleets_are_told_to_have_it():
    case = planned("8xL40S")
    (line,) = peer_to_peer(case)

    assert {g.candidate.role for g in case.made} == {"mixed"}
    assert (line.what, line.loss) == (WHAT, 0.0)
    assert line.objective > SURE * case.fleet.objective
    assert "prefill" in line.why
    told = tuple(replace(node, peer_to_peer=True) for node in case.question.cluster.classes)
    question = replace(case.question, cluster=replace(case.question.cluster, classes=told))
    assert peer_to_peer(replace(case, question=question)) == []


@pytest.mark.parametrize(
    ("gpus", "asked"),
    [("2xH100", {}), ("4xRTX-4090", {"model": "llama-3.1-8b"}), ("1xL40S", {"model": "llama-3.1-8b"})],
)
def test_it_brings_nothing_to_nvlink_to_cards_that_refuse_it_and_to_one_gpu(gpus, asked):
    assert peer_to_peer(planned(gpus, **asked)) == []


def test_a_search_that_ended_far_from_its_bound_says_nothing(monkeypatch):
    case = planned("8xL40S")
    vague = ended(case.found, objective=2 * case.fleet.objective, bound=4 * case.fleet.objective)
    monkeypatch.setattr(module, "find", lambda *given: vague)

    assert peer_to_peer(case) == []
