"""What a request of a pair waits for, what NICs and links carry of it, and by whose caution it is judged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from planner.cost.transfer import START_S
from planner.plans.found import Found, groups, paths
from planner.plans.strain import broken, exact_value, scaled, strain, watts
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits
from tests.beside.solved import solved

PROMPT = 1024 * 131072
"""Bytes of the cache of a prompt of Llama-3.1-8B."""

FIRST = Limits(gap=0.2, work=1000)
"""Ends with the first round: later ones have columns of all candidates."""


@cache
def split(**asked) -> Found:
    """A fleet that splits prefill from decode, over a declared link."""
    forms = [
        Node(name="p", device="h100-sxm", gpus_per_node=2, zone="a", nic_gb_per_s=10.0),
        Node(name="d", device="l40s", gpus_per_node=2, zone="b", nic="roce", nic_gb_per_s=5.0),
    ]
    link = Link(between=["a", "b"], gb_per_s=8.0, latency_ms=3.0)
    cluster, load = resolve(Cluster(nodes=forms, links=[link])), {"isl": 1024, "osl": 256, "ttft_ms": 300}
    _, pool, question = pose(
        read(cluster, "llama-3.1-8b", None, "chat", load, {"engine": "vllm", "risk": 0.5} | asked)
    )
    where = {("prefill", "p"), ("decode", "d")}
    keep = tuple(c for c in pool.candidates if (c.role, c.node_class) in where)
    return find(question, replace(pool, candidates=keep), FIRST)


def pair(**asked):
    """The fleet, its groups and the way of all requests."""
    found = split(**asked)
    made = groups(found)
    return found, made, paths(found, made)


def test_the_first_token_waits_for_the_transfer_and_for_a_step():
    """TTFT = prefill's + the link's start and the slowest of NICs and link, shared with others + a step."""
    _, made, ways = pair()
    for way in ways:
        p, d = way.first, way.second
        move_s = way.ttft_s - p.operation.ttft_s[0] - d.operation.tpot_s[0]
        assert move_s > 0.003 + PROMPT * d.candidate.copies["0"] / 8e9
        assert way.tpot_s == d.operation.tpot_s[0]
    assert {g.id[0] for g in made} == {"p", "d"}


def test_every_copy_that_ranks_keep_crosses():
    found, made, ways = pair()
    (p, d) = ways[0].first, ways[0].second
    twice = replace(d, candidate=replace(d.candidate, copies={"0": 2 * d.candidate.copies["0"]}))
    other = paths(found, [twice if g is d else g for g in made])

    assert ways[0].kv_bytes_per_s == pytest.approx(ways[0].rate * PROMPT * d.candidate.copies["0"])
    crossing = next(w for w in other if w.second is twice and w.first is p)
    assert crossing.kv_bytes_per_s == pytest.approx(2 * ways[0].kv_bytes_per_s)
    assert crossing.ttft_s > ways[0].ttft_s


def test_ways_carry_all_that_the_fleet_serves():
    found, _, ways = pair()

    assert sum(w.rate for w in ways) == pytest.approx(found.solution.rate)


WARY = 2.5
"""Enough that a limit is missed that was kept."""


def sure(made, role, which):
    """The groups with `WARY` times the caution of one limit in one role."""
    for g in made:
        factors = g.setup.caution(g.candidate.role).copy()
        if g.candidate.role == role:
            factors[which] *= WARY
        setup = replace(g.setup)
        setup.__dict__["caution"] = {g.candidate.role: factors}.get
        wary = WARY if (g.candidate.role, which) == (role, 0) else 1.0
        first = wary * g.operation.cautious_ttft_s
        yield replace(g, setup=setup, operation=replace(g.operation, cautious_ttft_s=first))


@pytest.mark.parametrize(("role", "which"), [("prefill", 0), ("decode", 1)])
def test_each_limit_is_judged_by_the_caution_of_the_side_that_answers_for_it(role, which):
    """TTFT by that of the prefill side, TPOT by that of the decode side; the other two count for nothing."""
    found, made, ways = pair()
    plain = strain(found, made)
    own = max(w.ttft_s / 0.3 if which == 0 else w.tpot_s / 0.05 for w in ways)
    other = "decode" if role == "prefill" else "prefill"

    assert strain(found, list(sure(made, role, which))) == pytest.approx(max(WARY * own, plain))
    assert strain(found, list(sure(made, other, which))) == pytest.approx(plain)
    late = {found.candidates[bad.candidate].role for bad in broken(found, list(sure(made, role, which)))}
    assert late == ({role} if WARY * own > 1 else set())
    assert WARY * own > 1
    assert not broken(found, list(sure(made, other, which)))


def test_a_link_that_others_fill_is_the_limit():
    found, made, _ = pair()
    narrow = replace(found.cluster, links=[replace(found.cluster.links[0], bytes_per_s=1e6)])

    assert strain(replace(found, cluster=narrow), made) > 100


def test_a_fleet_with_part_of_its_traffic_strains_less_and_draws_less():
    found, made, _ = pair()
    half = scaled(found, 0.5)
    few = groups(half)

    assert half.solution.rate == pytest.approx(found.solution.rate / 2)
    assert strain(found, made, 0.5) == pytest.approx(strain(half, few))
    assert strain(half, few) < strain(found, made)
    assert watts(half, few) < watts(found, made)


def test_a_late_group_is_told_how_much_it_may_carry():
    """Twice the traffic of a full GPU: about half of it."""
    found = solved("1xH100", "llama-3.1-8b", tpot_ms=60)[2]
    twice = scaled(found, 2.0)
    (bad,) = broken(twice, groups(twice))

    assert bad.candidate == groups(found)[0].candidate.id
    assert 0.4 < bad.share < 0.52
    assert not broken(found, groups(found))


def test_latency_is_the_mean_over_requests_of_first_token_and_answer():
    question, found = solved("1xH100", "llama-3.1-8b", rate=1.0, objective="latency")[1:]
    (g,) = groups(found)
    osl = found.workload.buckets[0].osl
    mean = g.operation.ttft_s[0] + (osl - 1) * g.operation.tpot_s[0]

    assert exact_value(found, [g]) == pytest.approx(mean)
    assert question.objective.spends == "latency"
    assert mean > START_S
