"""What a finished plan says beside its fleet: reuse that nobody keeps, drafts nobody can have, losses."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner import api
from planner.fleet import finish
from planner.fleet.finish import insured, undrafted, unkept
from solvers.linear import Limits


def asked(reuse=(), idle=None, offload=False, speculation=None):
    workload = SimpleNamespace(reuse=list(reuse), idle=idle)
    return SimpleNamespace(
        workload=workload, offload=offload, options=SimpleNamespace(speculation=speculation)
    )


def found(*levels: int):
    """A fleet of replicas that keep cache at these levels, and one beside it that is not run."""
    run = {f"c{i}": SimpleNamespace(level=level) for i, level in enumerate(levels)}
    return SimpleNamespace(
        candidates={**run, "other": SimpleNamespace(level=9)},
        solution=SimpleNamespace(replicas=dict.fromkeys(run, 1)),
    )


@pytest.mark.parametrize(
    ("question", "fleet", "why"),
    [
        (asked(), found(0), None),
        (asked(reuse=["chat"]), found(0, 2), None),  # one keeps some
        (asked(reuse=["chat"]), found(0, 0), "none has room for it"),
        (asked(idle="hours"), found(0), "none has room for it"),
        (asked(reuse=["chat"], offload=True), found(0), "weights in host memory"),
    ],
)
def test_reuse_that_no_replica_makes_use_of_is_told(question, fleet, why):
    said = unkept(question, fleet)

    assert [w.code for w in said] == ([] if why is None else ["reuse_unused"])
    assert all(why in w.message for w in said)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (asked(), False),
        (asked(speculation="mtp"), False),
        (asked(offload=True), False),
        (asked(speculation="mtp", offload=True), True),
    ],
)
def test_drafts_that_no_replica_can_have_are_told(question, told):
    assert [w.code for w in undrafted(question)] == (["drafts_unused"] if told else [])


class Own:
    """What is left after losses, looked at within `limits`; `without`: the fleet that need survive none."""

    def __init__(self, without=None, limits=None):
        self.without, self.limits = without, limits

    @staticmethod
    def of(found, survive, limits):
        return Own(limits=limits)


FOUND = SimpleNamespace(pool=None, space=SimpleNamespace(most_kinds=2))
"""A fleet chosen for two kinds."""


def replaced(one, **new):
    """`dataclasses.replace`, for what stands in for a question, too."""
    return replace(one, **new) if isinstance(one, Limits) else Own(**new) if isinstance(one, Own) else new


@pytest.mark.parametrize("explain", [True, False])
def test_a_fleet_that_need_not_survive_is_looked_for_only_to_explain(monkeypatch, explain):
    looked = []

    def find(question, pool, limits):
        looked.append(question)
        return SimpleNamespace(solution="cheaper")

    monkeypatch.setattr(finish, "Insured", Own)
    monkeypatch.setattr(finish, "replace", replaced)
    monkeypatch.setattr(finish, "find", find)
    safe = insured("node", "question", FOUND, Limits(gap=0.1), explain)

    assert looked == ([{"survive": None, "most_kinds": 2}] if explain else [])
    assert safe.without == ("cheaper" if explain else None)


def test_what_is_left_after_losses_is_known_to_the_last_digit_that_counts(monkeypatch):
    """However near to the best a fleet is asked for, what the rest serves is a promise."""
    monkeypatch.setattr(finish, "Insured", Own)
    safe = insured("node", "question", None, Limits(gap=0.1, seconds=7.0), explain=False)

    assert safe.limits == Limits(gap=1e-6, seconds=7.0)


def test_broken_off_the_losses_are_told_without_what_they_cost(monkeypatch):
    def find(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(finish, "Insured", Own)
    monkeypatch.setattr(finish, "replace", replaced)
    monkeypatch.setattr(finish, "find", find)

    assert insured("node", "question", FOUND, Limits(), True).without is None


def test_ways_know_the_bound_on_fleets_of_any_kinds(monkeypatch):
    """Four H100 are chosen without the L4 that would serve 1.3 % more: other ways may gain that, too."""
    forms = [("h100-sxm", 4), ("l4", 1)]
    nodes = [Node(name=device, device=device, gpus_per_node=1, count=k) for device, k in forms]
    planned = []
    monkeypatch.setattr(finish, "WAYS", (lambda one: planned.append(one) or [],))
    plan = api.plan(
        resolve(Cluster(nodes=nodes)), "llama-3.1-8b", engine="vllm", tpot_ms=100, work_limit=2000
    )

    assert plan.proof.given_up > 0.01
    assert planned[0].found.solution.bound < planned[0].fleet.bound == pytest.approx(plan.proof.bound)
