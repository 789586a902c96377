"""What a finished plan says beside its fleet: reuse that nobody keeps, drafts nobody can have, losses."""

from dataclasses import dataclass, replace
from functools import cache
from math import inf
from types import SimpleNamespace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner import api
from planner.beside.planned import Planned
from planner.errors import OutOfTime
from planner.fleet import finish
from planner.fleet.finish import explained, insured, undrafted, uninsured, unkept
from planner.plans.found import Found
from planner.search.find import find
from planner.search.simple import Simple
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits
from tests.beside.solved import solved


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


@dataclass(frozen=True)
class Own:
    """What is left after losses, looked at within `limits`; `without`: the fleet that need survive none."""

    limits: Limits
    without: str | None = None

    @staticmethod
    def of(found, survive, limits):
        return Own(limits)


def safe(status="optimal", survive="node"):
    """A fleet that survives, the one that is best, and what ways start from."""
    options, solution = SimpleNamespace(survive=survive), FleetSolution(status, 1.0, 1.0, "none")
    own = Found(None, None, None, None, None, solution)
    asked = SimpleNamespace(options=options)
    return Planned(asked, "question", own, Limits(gap=0.1, seconds=7.0)), Simple(own, own, ())


def broken_off(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("until", "status", "looked"),
    [(inf, "optimal", True), (0.0, "optimal", False), (inf, "interrupted", False)],
)
def test_a_fleet_that_need_not_survive_is_looked_for_only_to_explain(monkeypatch, until, status, looked):
    monkeypatch.setattr(finish, "Insured", Own)
    monkeypatch.setattr(finish, "WAYS", (lambda _: ["a line"],))
    monkeypatch.setattr(finish, "uninsured", lambda *_: "cheaper")
    _, own, lines = explained(*safe(status), until)

    assert own.without == ("cheaper" if looked else None)
    assert lines == (["a line"] if looked else [])


def test_what_is_left_after_losses_is_known_to_the_last_digit_that_counts(monkeypatch):
    """However near to the best a fleet is asked for, what the rest serves is a promise."""
    monkeypatch.setattr(finish, "Insured", Own)

    assert insured("node", None, Limits(gap=0.1, seconds=7.0)).limits == Limits(gap=1e-6, seconds=7.0)
    assert insured(None, None, Limits()) is None


@pytest.mark.parametrize("broken", ["uninsured", "WAYS"])
def test_broken_off_the_losses_are_told_and_that_it_was(monkeypatch, broken):
    monkeypatch.setattr(finish, "Insured", Own)
    monkeypatch.setattr(finish, "WAYS", (broken_off,))
    monkeypatch.setattr(finish, "uninsured", broken_off if broken == "uninsured" else lambda *_: "cheaper")
    simple, own, lines = explained(*safe(), inf)

    assert simple.best.solution.status == "interrupted"
    assert own.without == (None if broken == "uninsured" else "cheaper")
    assert lines == []


def test_broken_off_while_losses_are_looked_at_they_are_looked_at_again(monkeypatch):
    """No plan that survives is told without them."""
    pressed = [True]

    def of(*given):
        return broken_off() if pressed and pressed.pop() else Own.of(*given)

    monkeypatch.setattr(finish, "Insured", SimpleNamespace(of=of))
    monkeypatch.setattr(finish, "WAYS", (lambda _: ["a line"],))
    simple, own, lines = explained(*safe(), inf)

    assert (simple.best.solution.status, own, lines) == ("interrupted", Own(Limits(1e-6, 7.0)), [])


@cache
def two_nodes():
    """Of a node of H100 and one of L40S any may be lost: what is left is the L40S at worst."""
    _, question, best = solved("8xH100,8xL40S", "llama-3.1-8b", survive="node")
    return question, best


def without_l40s(found: Found) -> Found:
    """The fleet, found among candidates on H100 alone."""
    few = tuple(c for c in found.pool.candidates if c.node_class == "h100-sxm")
    return replace(found, pool=replace(found.pool, candidates=few))


def test_a_fleet_that_need_not_survive_is_of_all_candidates_not_of_those_near_the_best_that_does():
    question, best = two_nodes()
    far = {c.id: 0.0 for c in best.pool.candidates if c.node_class != "h100-sxm"}
    whole = replace(best, solution=replace(best.solution, least=far))
    limits = Limits(work=1000)
    every = find(replace(question, survive=None), best.pool, limits).solution.objective
    some = find(replace(question, survive=None), without_l40s(best).pool, limits).solution.objective

    assert uninsured(question, Simple(without_l40s(best), whole, ()), limits).objective == pytest.approx(
        every
    )
    assert some < 0.9 * every


def test_it_has_no_more_kinds_than_the_plan_may_have():
    question, best = two_nodes()
    limits = Limits(work=1000)
    few = find(replace(question, most_kinds=1), best.pool, limits)
    free = uninsured(question, Simple(few, best, ()), limits)
    any_ = uninsured(question, Simple(best, best, ()), limits)

    assert len({best.candidates[c].kind for c, _ in free.flows}) == 1
    assert free.objective < 0.99 * any_.objective


@pytest.mark.parametrize("own", [[], ["copies"], ["limit"], ["copies", "limit"]])
def test_it_has_copies_and_limits_of_power_where_the_plan_may_have_them(monkeypatch, own):
    """Fleets without are chosen for being simple, and may lose something."""
    kinds = {
        name: SimpleNamespace(
            design=SimpleNamespace(redundant=8 * (name == "copies")),
            key=SimpleNamespace(power=0.8 * (name == "limit")),
        )
        for name in ("plain", "copies", "limit")
    }
    kept = list[str]()

    def restricted(question, best, keep, limits):
        kept.extend(name for name, c in kinds.items() if keep(c))

    monkeypatch.setattr(finish, "restricted", restricted)
    question, best = two_nodes()
    few = replace(best, pool=replace(best.pool, candidates=tuple(kinds[name] for name in own)))

    assert uninsured(question, Simple(few, best, ()), Limits()) is None
    assert kept == ["plain", *own]


@pytest.mark.parametrize("ended", ["interrupted", OutOfTime("late"), KeyboardInterrupt()])
def test_broken_off_it_is_not_told_and_out_of_time_there_is_none(monkeypatch, ended):
    question, best = two_nodes()

    def restricted(*_):
        if not isinstance(ended, str):
            raise ended
        return replace(best, solution=replace(best.solution, status=ended))

    monkeypatch.setattr(finish, "restricted", restricted)
    if isinstance(ended, OutOfTime):
        assert uninsured(question, Simple(best, best, ()), Limits()) is None
        return
    with pytest.raises(KeyboardInterrupt):
        uninsured(question, Simple(best, best, ()), Limits())


def test_ways_know_the_bound_on_fleets_of_any_kinds(monkeypatch):
    """Four H100 are chosen without the L4 that would serve 1.3 % more: other ways may gain that, too."""
    forms = [("h100-sxm", 4), ("l4", 1)]
    nodes = [Node(name=device, device=device, gpus_per_node=1, count=k) for device, k in forms]
    planned = []
    monkeypatch.setattr(finish, "WAYS", (lambda one: planned.append(one) or [],))
    plan = api.plan(
        resolve(Cluster(nodes=nodes)), "llama-3.1-8b", engine="vllm", tpot_ms=100, work_limit=2000, risk=0.5
    )

    assert plan.proof.given_up > 0.01
    assert planned[0].found.solution.bound < planned[0].fleet.bound == pytest.approx(plan.proof.bound)
