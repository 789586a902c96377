"""A table of measured rates as a fleet problem: which row speaks of which bucket, where, for how much."""

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ClusterLink, Node, NodeClass
from planner.errors import Infeasible, InputError
from planner.inputs.options import Budget
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Bucket, Workload
from planner.objectives import COST, GPUS, LATENCY, Objective
from planner.problems.profile import from_profile
from solvers import fleet
from solvers.fleet.types import FleetProblem
from solvers.linear import Limits

H100 = ProfileRow(2, "h100-tp2", "H100", 2, "mixed", 1, 2048, 1, 512, 20.0)
L4 = ProfileRow(3, "l4-tp1", "l4", 1, "mixed", 1, 2048, 1, 512, 2.0)
CHAT = Workload(buckets=[Bucket(isl=1024, osl=256)], rate_rps=22.0)
TWO = Workload(buckets=[Bucket(isl=1024, osl=256, share=3), Bucket(isl=4096, osl=256)], rate_rps=22.0)


def classes(*nodes: Node) -> tuple[NodeClass, ...]:
    named = nodes or (
        Node(device="h100-sxm", count=2, gpus_per_node=2, price_usd_per_hour=6.0),
        Node(device="l4", count=4, gpus_per_node=1, price_usd_per_hour=1.0),
    )
    return resolve(Cluster(nodes=list(named))).classes


def stated(
    rows: list[ProfileRow],
    workload: Workload = CHAT,
    nodes: tuple[NodeClass, ...] | None = None,
    objective: Objective = COST,
    links: tuple[ClusterLink, ...] = (),
) -> FleetProblem:
    there = classes() if nodes is None else nodes
    return from_profile(rows, there, workload, objective, workload.rate_rps, Budget(), links)[0]


def test_one_of_each_serves_22_requests_per_second_for_7_dollars():
    """By hand: 20/s from a node of two H100 ($6), the last 2/s from one L4 ($1)."""
    s = fleet.solve(stated([H100, L4]), Limits())

    assert s.replicas == {"h100-tp2 on h100-sxm": 1, "l4-tp1 on l4": 1}
    assert s.objective == pytest.approx(7.0) == s.bound


def test_rows_of_one_design_are_one_replica_over_its_buckets():
    long = replace(H100, isl_min=2049, isl_max=8192, max_rps=5.0)
    problem = stated([H100, long], TWO)

    assert len(problem.columns) == 1
    assert problem.columns["h100-tp2 on h100-sxm"].use == {"busy": {"0": 1 / 20, "1": 1 / 5}}
    assert problem.share == {"0": 0.75, "1": 0.25}


def test_where_two_rows_speak_of_a_bucket_the_narrower_does():
    narrow = replace(H100, isl_min=1000, isl_max=1100, max_rps=15.0)

    for rows in ([H100, narrow], [narrow, H100]):
        assert stated(rows).columns["h100-tp2 on h100-sxm"].use["busy"]["0"] == 1 / 15


def test_a_design_runs_on_every_class_of_its_device():
    nodes = classes(
        Node(device="l4", name="a", count=1, price_usd_per_hour=1.0),
        Node(device="l4", name="b", count=1, price_usd_per_hour=2.0),
    )

    assert set(stated([L4], nodes=nodes).columns) == {"l4-tp1 on a", "l4-tp1 on b"}


def test_candidates_are_the_columns_and_are_marked_as_measured():
    problem, candidates = from_profile([H100, L4], classes(), CHAT, COST, 22.0, Budget(gpus=5))

    assert [c.id for c in candidates] == list(problem.columns)
    assert all(c.measured and c.design.gpus == c.gpus for c in candidates)
    assert problem.budget == {"gpus": 5.0}


def test_prices_and_watts_of_the_table_stand_in_for_the_cluster():
    """By hand: at $2 a replica two more H100 are cheaper than the L4s."""
    rows = [replace(H100, price_usd_per_hour=2.0, watts=900.0), replace(L4, price_usd_per_hour=3.0)]
    problem = stated(rows)
    s = fleet.solve(problem, Limits())

    assert s.replicas == {"h100-tp2 on h100-sxm": 2}
    assert s.objective == pytest.approx(4.0)
    assert problem.columns["h100-tp2 on h100-sxm"].watts == 900.0


def test_watts_default_to_the_tdp_of_the_gpus():
    node = classes()[0]

    assert stated([H100]).columns["h100-tp2 on h100-sxm"].watts == 2 * node.device.tdp_watts


def test_a_design_without_a_price_beside_one_with_pays_its_share_of_the_node():
    """By hand: half of a node of two GPUs at $6."""
    rows = [replace(H100, price_usd_per_hour=2.0), replace(H100, design="h100-tp1", gpus=1, max_rps=9.0)]

    assert stated(rows).columns["h100-tp1 on h100-sxm"].price == pytest.approx(3.0)


def test_prefill_and_decode_designs_pair():
    """By hand: 3 prefill nodes make 30/s, one decode node takes 20/s."""
    rows = [
        replace(L4, design="p", role="prefill", max_rps=10.0),
        replace(H100, design="d", role="decode", max_rps=20.0),
    ]
    s = fleet.solve(stated(rows, objective=GPUS), Limits())

    assert s.replicas == {"p on l4": 3, "d on h100-sxm": 2}
    assert sum(s.pair_flows.values()) == pytest.approx(22.0)


@pytest.mark.parametrize("linked", [True, False])
def test_pools_of_two_zones_pair_only_over_a_link(linked):
    nodes = classes(
        Node(device="h100-sxm", count=2, gpus_per_node=2, zone="a"),
        Node(device="l4", count=4, gpus_per_node=1, zone="b"),
    )
    rows = [replace(L4, design="p", role="prefill"), replace(H100, design="d", role="decode")]
    links = (ClusterLink(("a", "b"), 1e9, 0.0),) if linked else ()

    if linked:
        assert len(stated(rows, nodes=nodes, objective=GPUS, links=links).pairs) == 1
    else:
        with pytest.raises(Infeasible, match="isl 1024 osl 256"):
            stated(rows, nodes=nodes, objective=GPUS, links=links)


def test_a_bucket_that_no_row_covers_is_named():
    with pytest.raises(Infeasible, match="isl 4096 osl 256") as caught:
        stated([H100, L4], TWO)

    assert "isl 1024" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "row", [replace(H100, role="decode"), replace(H100, gpus=64), replace(H100, device="t4")]
)
def test_half_a_pair_or_a_replica_that_no_class_holds_covers_nothing(row):
    with pytest.raises(Infeasible):
        stated([row])


def test_a_device_that_nobody_knows_is_refused_by_its_line():
    with pytest.raises(InputError) as caught:
        stated([replace(H100, device="h100-sxn")])

    assert caught.value.where == "line 2, column device"


def test_rows_of_devices_that_the_cluster_lacks_are_passed_over():
    assert list(stated([H100, replace(L4, device="t4")]).columns) == ["h100-tp2 on h100-sxm"]


def test_latency_cannot_be_planned_from_rates():
    with pytest.raises(InputError, match="latencies"):
        stated([H100], objective=LATENCY)
