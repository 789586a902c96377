"""Candidates to the numbers of the fleet program: pairs, their claims on NICs and links, their groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_configs.reading import from_gpus, read_cluster
from planner.candidates.candidate import Candidate, Design
from planner.candidates.pairing import Edges
from planner.cost.power import idle_watts
from planner.cost.transfer import Overlap
from planner.inputs.options import Budget
from planner.problems.fleet import state, stock
from planner.problems.pairs import Traffic, banded
from planner.replicas.pool import Pool
from solvers.fleet.goals import LATENCY, THROUGHPUT
from solvers.fleet.types import FleetProblem

GB = 1e9
TWO = from_gpus("4xh100,4xa100")
LINKED = """
name: linked
nodes:
  - {name: h, device: h100-sxm, gpus_per_node: 2, zone: east}
  - {name: l, device: l40s, nic: roce, gpus_per_node: 2, zone: west}
  - {name: m, device: l40s, nic: roce, gpus_per_node: 2, zone: south}
links:
  - {between: [east, west], gb_per_s: 8}
  - {between: [east, south], gb_per_s: 8}
"""


@pytest.fixture
def linked(tmp_path):
    path = tmp_path / "linked.yaml"
    path.write_text(LINKED)
    return read_cluster(path)


def candidate(name: str, role: str, at: str, **given: object) -> Candidate:
    handoff = {} if role == "mixed" else {"0": 0.01}
    own = {"use": {"busy": {"0": 1.0}}, "watts": 500.0, "ttft_s": {"0": 0.1}, "handoff_s": handoff}
    known = {"id": name, "role": role, "node_class": at, "engine": "vllm", "design": Design(), "gpus": 1}
    return Candidate(**{**known, **own, **given})


def traffic(ttft_s: float = 10.0, gb: float = 1.0) -> Traffic:
    return Traffic({"0": 1.0}, {"0": gb * GB}, {"0": 100}, ttft_s)


def fleet(cluster, candidates, carried=None, side="plan", edges=None) -> FleetProblem:
    pool = Pool(tuple(candidates), {})
    pool = pool if edges is None else replace(pool, edges=edges)
    return state(cluster, carried or traffic(), THROUGHPUT, Budget(), side, pool)


def ends(cluster, **of_decode: object) -> list[Candidate]:
    a, b = cluster.classes[0].id, cluster.classes[1].id
    return [candidate("p", "prefill", a), candidate("d", "decode", b, **of_decode)]


def test_a_pair_claims_a_prompts_cache_as_often_as_decode_ranks_keep_it():
    (once,) = fleet(TWO, ends(TWO)).pairs.values()
    (twice,) = fleet(TWO, ends(TWO, copies={"0": 2.0})).pairs.values()

    assert once.bytes >= GB
    assert twice.bytes == pytest.approx(2 * once.bytes)


def test_a_plans_pair_claims_the_more_the_less_late_it_may_be_and_a_bounds_its_bytes(linked):
    """A gigabyte over 8 GB/s takes 0.125 s, alone."""
    for spare, share in ((0.2, 0.3), (0.3, 0.5), (2.0, 0.9)):
        carried = traffic(ttft_s=spare)
        (own,) = fleet(linked, ends(linked), carried).pairs.values()
        (best,) = fleet(linked, ends(linked), carried, "bound").pairs.values()

        assert own.bytes == pytest.approx(GB / share)
        assert best.bytes == GB


def test_a_pair_that_is_late_even_alone_is_no_pair(linked):

    assert not fleet(linked, ends(linked), traffic(ttft_s=0.12)).pairs
    assert fleet(linked, ends(linked), traffic(ttft_s=0.15)).pairs


def test_the_parts_of_a_pair_that_add_up_to_more_than_the_promise_are_no_pair():
    late = [replace(c, late_s=0.6) for c in ends(TWO)]

    assert not fleet(TWO, late, traffic(ttft_s=1.1)).pairs
    assert fleet(TWO, late, traffic(ttft_s=1.3)).pairs


def test_the_bound_counts_the_edge_before_that_at_which_a_column_stands():
    late = [replace(c, late_s=0.6) for c in ends(TWO)]
    edges = Edges((0.4, 0.6), (0.4, 0.6))

    assert not fleet(TWO, late, traffic(ttft_s=1.1), "plan", edges).pairs
    assert fleet(TWO, late, traffic(ttft_s=1.1), "bound", edges).pairs


def test_transfers_are_rounded_up_for_plans_and_down_for_bounds():
    carried = traffic(ttft_s=1.0)

    assert banded(0.012, carried, up=True) == 0.02
    assert banded(0.012, carried, up=False) == 0.01
    assert banded(0.7, carried, up=True) == 0.7  # beyond the last band
    assert banded(0.001, carried, up=False) == 0.0


def test_nics_are_limits_where_a_replica_could_fill_half_of_them_with_all_copies():
    nic = min(node.nic_bytes_per_s for node in TWO.classes)
    carried = traffic(ttft_s=100.0, gb=0.3 * nic / GB)
    (once,) = fleet(TWO, ends(TWO), carried).pairs.values()
    (twice,) = fleet(TWO, ends(TWO, copies={"0": 2.0}), carried).pairs.values()

    assert not once.on_nic
    assert twice.on_nic


def test_a_transfer_between_two_bands_is_the_longer_one_of_plans_and_the_shorter_one_of_bounds():
    """12 ms, counted as 20 or 10, of which 15 are left."""
    near = [replace(c, late_s=0.4925, handoff_s={"0": 0.012}) for c in ends(TWO)]
    carried = traffic(ttft_s=1.0, gb=1e-6)

    assert not fleet(TWO, near, carried, "plan").pairs
    assert fleet(TWO, near, carried, "bound", Edges((0.4925, 1.0), (0.4925, 1.0))).pairs


def test_groups_that_claim_unlike_bytes_do_not_become_one(linked):
    p, d = ends(linked)
    twice = replace(d, id="e", copies={"0": 2.0})
    moved = sorted(move.bytes for move in fleet(linked, [p, d, twice], traffic(ttft_s=100.0)).pairs.values())

    assert moved == pytest.approx([GB / 0.9, 2 * GB / 0.9])


def test_groups_behind_unlike_links_do_not_become_one(linked):
    """Each link carries its own traffic; groups with the same partners and ways are one."""
    h, west, south = (c.id for c in linked.classes)
    p = candidate("p", "prefill", h)
    apart = fleet(linked, [p, candidate("d", "decode", west), candidate("e", "decode", south)])
    hidden = {"0": Overlap(last=0.5, hidden_s=1e-6)}
    alike = fleet(linked, [p, candidate("d", "decode", west), candidate("e", "decode", west, overlap=hidden)])

    assert {len(move.links) for move in apart.pairs.values()} == {1}
    assert len({move.links for move in apart.pairs.values()}) == len(apart.pairs) == 2
    assert len(alike.pairs) == 1


def test_a_class_is_bins_of_as_many_nodes_as_links_join():
    """By hand: 72 GPUs in one domain are 18 nodes of 4; an ordinary node is a domain of its own."""
    (rack,), (box,) = from_gpus("144xgb200").classes, from_gpus("16xh100").classes

    assert stock(rack).domain_nodes == rack.scale_up_gpus // rack.gpus_per_node > 1
    assert (stock(rack).nodes, stock(rack).gpus_per_node) == (rack.node_count, rack.gpus_per_node)
    assert stock(box).domain_nodes == 1
    assert stock(replace(rack, scale_up_gpus=2_000_000)).domain_nodes == rack.node_count  # not half a million
    assert stock(box).idle_watts == pytest.approx(idle_watts(box.device.tdp_watts))


@pytest.mark.parametrize(("role", "late"), [("mixed", 0.1 + 99 * 0.02), ("prefill", 0.1), ("decode", 2.0)])
def test_where_latency_is_minimised_a_column_costs_the_seconds_of_its_part(role, late):
    """By hand: 0.1 s to the first token, 20 ms each of 99 further ones, and a step of a decode side."""
    at = TWO.classes[0].id
    own = candidate("c", role, at, tpot_s=0.02)
    other = [candidate("o", {"prefill": "decode", "decode": "prefill"}.get(role, "mixed"), at, tpot_s=0.02)]
    carried = replace(traffic(), rate_rps=1.0)
    problem = state(TWO, carried, LATENCY, Budget(), "plan", Pool((own, *other), {}))

    assert problem.columns["c"].latency["0"] == pytest.approx(late)
    assert all(move.latency > 0 for move in problem.pairs.values())


def test_budgets_and_demand_and_prices_stand_in_the_problem():
    at = TWO.classes[0].id
    carried = replace(traffic(), rate_rps=7.0)
    pool = Pool((candidate("c", "mixed", at),), {})
    problem = state(TWO, carried, THROUGHPUT, Budget(gpus=3), "plan", pool)

    assert (problem.demand, problem.budget) == (7.0, {"gpus": 3.0})
    assert problem.stocks[at].price == TWO.classes[0].price_usd_per_hour
    assert problem.kinds["c"] == pool.candidates[0].kind


def test_a_side_without_a_partner_is_no_column():
    p, d = ends(TWO)

    assert set(fleet(TWO, [p, d]).columns) == {"p", "d"}
    assert set(fleet(TWO, [p]).columns) == set()
    assert set(fleet(TWO, [p, replace(d, engine="sglang")]).columns) == set()


def test_the_start_of_a_links_transfers_is_part_of_the_promise(linked):
    """By hand: 0.125 s over 8 GB/s and 50 ms before: 0.16 s are too few, 0.2 s are enough."""
    slow = replace(linked, links=tuple(replace(link, latency_s=0.05) for link in linked.links))

    assert fleet(linked, ends(linked), traffic(ttft_s=0.16)).pairs
    assert not fleet(slow, ends(slow), traffic(ttft_s=0.16)).pairs
    assert fleet(slow, ends(slow), traffic(ttft_s=0.2)).pairs
