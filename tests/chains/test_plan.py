"""`--engine chains`: nodes with some of the layers each, from question to check."""

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from planner import plan
from planner.beside.chains import chains as way
from planner.chains import plan as chained
from planner.chains.repair import without
from planner.check import check
from planner.errors import Infeasible, InputError
from planner.fleet import finish
from planner.question.asked import read


def cluster(gb_per_s: float = 0.05, latency_ms: float = 20.0):
    nodes = [
        Node(name="a", device="l4", gpus_per_node=1, count=2, zone="home", price_usd_per_hour=0.7),
        Node(name="t", device="t4", gpus_per_node=1, count=2, zone="office", price_usd_per_hour=0.4),
    ]
    link = Link(between=("home", "office"), gb_per_s=gb_per_s, latency_ms=latency_ms)
    return resolve(Cluster(name="two", nodes=nodes, links=[link]))


def made(gb_per_s: float = 0.05, latency_ms: float = 20.0, **options: object):
    free = {"ttft_ms": "none", "tpot_ms": "none"}
    return plan(cluster(gb_per_s, latency_ms), "qwen3-8b", engine="chains", **{**free, **options})


@pytest.fixture(scope="module")
def two():
    return made()


def test_every_chain_runs_every_layer_and_the_plan_passes_its_check(two):
    assert two.chains
    assert sum(chain.share for chain in two.chains) == pytest.approx(1.0)
    for chain in two.chains:
        assert [hop.layers[0] for hop in chain.hops] == [0, *(hop.layers[1] for hop in chain.hops[:-1])]
        assert chain.hops[-1].layers[1] == 36
    assert {r.role for r in two.replicas} == {"chain"}
    assert [route.chains for route in two.routing] == [True]
    assert not check(two)


def test_it_says_that_no_stock_engine_runs_it_and_carries_a_bound(two):
    assert "not_stock" in {w.code for w in two.warnings}
    assert two.proof.bound >= two.proof.objective > 0
    assert (two.proof.status == "not_closed") == bool(two.proof.why) == (two.proof.gap > 0.01)
    assert two.predicted.usd_per_hour.value == pytest.approx(2.2)


def test_a_narrow_link_is_not_given_more_than_it_carries():
    narrow = made(gb_per_s=0.0005)
    crossing = [c for c in narrow.chains if len({h.node[0] for h in c.hops}) > 1]

    assert not check(narrow)
    rate = narrow.predicted.rps.value * sum(c.share for c in crossing)
    assert rate * (1024 + 255) * 2 * 4096 <= 0.0005e9 * 1.001


def test_a_slo_that_was_asked_for_and_that_no_chain_keeps_is_infeasible():
    with pytest.raises(Infeasible, match="nearest") as caught:
        made(tpot_ms=1.0)

    assert "--tpot-ms" in str(caught.value.hint)


def test_a_default_slo_is_relaxed_with_a_warning():
    far = plan(cluster(latency_ms=200.0), "qwen3-8b", engine="chains", ttft_ms="none", isl=512, osl=64)

    assert far.problem.workload["slo"]["tpot_ms"] > 50 or far.predicted.tpot_ms.value <= 50
    assert not check(far)


def test_chains_are_chosen_where_no_replica_can_serve(monkeypatch):
    def nothing(asked):
        raise Infeasible("no replica")

    monkeypatch.setattr("planner.api.pose", nothing)
    chosen = plan(cluster(), "qwen3-8b", ttft_ms="none", tpot_ms="none")

    assert chosen.chains
    assert chosen.problem.options["engine"] == "any"
    with pytest.raises(Infeasible, match="no replica"):
        plan(cluster(), "qwen3-8b", ttft_ms="none", tpot_ms="none", engine="vllm")


def test_a_plan_of_replicas_says_what_chains_would_have_given(monkeypatch):
    monkeypatch.setattr(finish, "WAYS", (way,))
    made_of_replicas = plan(cluster(), "qwen3-8b", ttft_ms="none", tpot_ms="none", loop="closed")
    told = next(a for a in made_of_replicas.alternatives if a.what.startswith("chains"))

    assert not made_of_replicas.chains
    assert told.objective > 0
    assert "--engine chains" in told.why


@pytest.fixture(scope="module")
def six():
    nodes = [
        Node(name="a", device="l4", gpus_per_node=1, count=3, zone="home"),
        Node(name="t", device="t4", gpus_per_node=1, count=3, zone="office"),
    ]
    link = Link(between=("home", "office"), gb_per_s=0.05, latency_ms=5)
    return plan(
        resolve(Cluster(nodes=nodes, links=[link])),
        "qwen3-8b",
        engine="chains",
        ttft_ms="none",
        tpot_ms="none",
    )


@pytest.mark.parametrize("node", ["a-0", "t-2"])
def test_a_node_that_leaves_takes_few_layers_along(six, node):
    left = without(six, [node])

    assert not check(left.plan)
    assert node not in {hop.node for chain in left.plan.chains for hop in chain.hops}
    assert 0 < left.kept <= 1.001
    assert sum(left.loaded.values()) < 36 * 5
    assert node not in left.loaded
    assert left.plan.problem.model_id == six.problem.model_id != ""


def promised(plan, ttft_ms, tpot_ms):
    """The same plan, asked for with limits."""
    slo = {**plan.problem.workload["slo"], "ttft_ms": ttft_ms, "tpot_ms": tpot_ms}
    workload = {**plan.problem.workload, "slo": slo}
    return plan.model_copy(update={"problem": plan.problem.model_copy(update={"workload": workload})})


def test_limits_that_the_plan_was_asked_for_are_kept_when_a_node_leaves(six):
    free = without(six, ["a-0"]).plan.predicted
    ttft_ms = 1e6
    for share, least in ((1.01, 0.99), (0.9, 0.1)):  # kept as it is; by serving less
        left = without(promised(six, ttft_ms, share * free.tpot_ms.value), ["a-0"])
        slo = left.plan.problem.workload["slo"]

        assert not check(left.plan)
        assert (slo["ttft_ms"], slo["tpot_ms"]) == (ttft_ms, share * free.tpot_ms.value)
        assert left.plan.predicted.tpot_ms.value <= slo["tpot_ms"]
        assert least * free.rps.value < left.plan.predicted.rps.value <= free.rps.value * (1 + 1e-9)
        assert "slo_relaxed" not in {w.code for w in left.plan.warnings}


def test_a_limit_that_no_chain_keeps_any_more_is_relaxed_and_said_to_be(six):
    asked = promised(six, 1e6, 1.0)
    left = without(asked, ["a-0"])
    (said,) = (w.message for w in left.plan.warnings if w.code == "slo_relaxed")

    assert not check(left.plan)
    assert left.plan.problem.workload["slo"]["ttft_ms"] == 1e6
    assert left.plan.predicted.tpot_ms.value <= left.plan.problem.workload["slo"]["tpot_ms"]
    assert said.startswith("without a-0 no chains keep the limits; relaxed: TPOT -> ")


def test_leaving_in_vain(six):
    with pytest.raises(InputError, match="no node `b-0`"):
        without(six, ["b-0"])
    with pytest.raises(Infeasible, match="do not hold all layers"):
        without(six, ["a-0", "a-1", "a-2", "t-0", "t-1"])


@pytest.mark.parametrize("asked", [{"rate": 1.0}, {"objective": "gpus", "rate": 1.0}])
def test_chains_are_for_throughput(asked):
    with pytest.raises(InputError, match="most throughput"):
        made(**asked)


def test_a_model_that_all_nodes_together_do_not_hold_is_infeasible():
    with pytest.raises(Infeasible, match="no chain of nodes holds"):
        plan(cluster(), "llama-3.1-405b-fp8", engine="chains")


def test_zones_without_a_link_are_not_chained():
    apart = resolve(
        Cluster(
            nodes=[
                Node(device="l4", gpus_per_node=1, count=2, zone="home"),
                Node(device="t4", gpus_per_node=1, count=2, zone="office"),
            ]
        )
    )
    asked = read(apart, "qwen3-8b", None, "chat", {}, {"engine": "chains"})
    link = chained.pose(asked).service.network.link

    assert (link[:2, 2:] == 0).all()
    assert (link[:2, :2].sum(axis=1) > 0).all()


def test_a_plan_edited_so_that_no_chain_holds_its_model_is_bad_input(six, monkeypatch):
    monkeypatch.setattr("planner.chains.repair.chained.pose", lambda asked: None)
    with pytest.raises(InputError, match="no chain of these nodes holds"):
        without(six, ["a-0"])
