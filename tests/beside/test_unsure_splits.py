"""Splits that may not pay: by how much they are predicted to bring."""

from types import SimpleNamespace

import pytest

from planner import plan
from planner.beside.unsure_splits import unsure_splits
from planner.objectives import named
from planner.plans.schema import Alternative


def found(objective, roles=("prefill", "decode")):
    """A fleet of one replica a role."""
    candidates = {role: SimpleNamespace(role=role) for role in roles}
    return SimpleNamespace(
        candidates=candidates,
        solution=SimpleNamespace(objective=objective, flows=dict.fromkeys((role, "w") for role in roles)),
    )


def beside(objective, what="no prefill/decode split, the plain fleet (one engine, tp alone)"):
    return [Alternative(what=what, objective=objective, loss=0.0, why="")]


@pytest.mark.parametrize(
    ("objective", "own", "without", "told"),
    [
        ("throughput", 10.0, 9.2, "bring 8.7 %"),
        ("throughput", 10.0, 9.0, None),  # 1.11 of it
        ("throughput", 10.0, None, None),  # there is none
        ("cost", 10.0, 10.5, "bring 5 %"),
        ("cost", 10.0, 11.5, None),
        ("throughput", 10.0, 10.2, "brings nothing"),
        ("cost", 10.0, 9.9, "brings nothing"),
        ("energy", 10.0, 10.5, None),  # what was compared are tokens a GPU
    ],
)
def test_a_split_for_little_is_told(objective, own, without, told):
    said = unsure_splits(found(own), named(objective), beside(without))

    assert [w.code for w in said] == ([] if told is None else ["split_unsure"])
    assert all(told in w.message for w in said)


def test_other_alternatives_say_nothing_of_a_split():
    assert not unsure_splits(found(10.0), named("throughput"), beside(9.9, "one device class a replica"))


def test_nothing_is_told_of_a_fleet_without_a_split():
    assert not unsure_splits(found(10.0, ("mixed",)), named("throughput"), beside(9.9))


def test_a_plan_says_once_that_its_split_goes_over_pcie():
    made = plan(None, "qwen3-32b", gpus="8xL40S", simple=0.0)

    assert {r.role for r in made.replicas} == {"prefill", "decode"}
    assert [e.mechanism for e in made.evidence].count("split") == 1
    assert not [w for w in made.warnings if "PCIe" in w.message]
