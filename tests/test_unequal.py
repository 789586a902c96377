"""Plans whose replicas stand on several device classes, from question to check."""

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from planner import plan
from planner.beside.alternatives import alternatives
from planner.beside.unlike import unlike
from planner.check import check
from planner.errors import Infeasible
from planner.reports import words
from tests.beside.solved import alone

told = alone(alternatives, unlike)


def cluster(link: float | None = None, **zones: str):
    nodes = [
        Node(device="rtx-3090", gpus_per_node=2, zone=zones.get("a", "x")),
        Node(device="rtx-5090", gpus_per_node=1, zone=zones.get("b", "x")),
    ]
    links = [] if link is None else [Link(between=("x", "y"), gb_per_s=link, latency_ms=0.1)]
    return resolve(Cluster(name="own", nodes=nodes, links=links))


def test_a_model_that_fits_only_on_both_cards_together_runs_on_both():
    made = plan(None, "qwen3-32b-fp8", gpus="1xrtx-3090,1xrtx-4090")
    r = made.replicas[0]
    held = {stage.device: stage.layers[1] - stage.layers[0] for stage in r.stages}

    assert r.pp == 2
    assert sum(held.values()) == 64
    assert held["rtx-4090"] > held["rtx-3090"]  # faster, and it has the LM head or the embedding either way
    assert words.layout(r) == f"pp2 {r.stages[0].layers[1]}+{64 - r.stages[0].layers[1]}"
    assert words.hardware(r) == " + ".join(f"1×{stage.device}" for stage in r.stages)
    assert len(held) == 2
    assert {a.what: a.objective for a in made.alternatives}["one device class a replica"] is None
    assert "all 1 pipelines" in made.proof.space.what
    assert not check(made)


def test_the_gain_over_one_class_a_replica_is_told():
    made = plan(cluster(), "qwen3-32b-fp8", engine="vllm", risk=0.5)
    alone = next(a for a in made.alternatives if "one device class a replica" in a.what)

    assert {stage.device for stage in made.replicas[0].stages} == {"rtx-3090", "rtx-5090"}
    assert alone.loss > 0.05
    assert alone.objective < made.proof.objective


def test_what_no_engine_starts_is_told_and_not_chosen():
    made = plan(cluster(), "qwen3-32b-fp8", engine="vllm")
    other = next(a for a in made.alternatives if a.what.startswith("different tp in one replica"))

    assert all(len({stage.tp for stage in r.stages}) == 1 for r in made.replicas)
    assert other.objective > made.proof.objective
    assert "no engine starts" in other.why


@pytest.mark.parametrize(("gb_per_s", "together"), [(None, False), (0.001, False), (5.0, True)])
def test_a_link_decides_whether_zones_share_a_replica(gb_per_s, together):
    made = plan(cluster(gb_per_s, b="y"), "qwen3-32b-fp8", engine="vllm", explain=False)

    assert any(len({stage.device for stage in r.stages}) > 1 for r in made.replicas) == together


def test_what_is_paid_for_mixed_replicas_is_both_nodes():
    nodes = [
        Node(device="rtx-3090", gpus_per_node=1, price_usd_per_hour=0.2),
        Node(device="rtx-4090", gpus_per_node=1, price_usd_per_hour=0.4),
    ]
    asked = {"rate": 0.1, "tpot_ms": 100.0, "ttft_ms": 20000.0, "explain": False}
    made = plan(resolve(Cluster(nodes=nodes)), "qwen3-32b-fp8", **asked)

    assert made.predicted.usd_per_hour.value == pytest.approx(0.6)


def test_a_limit_that_only_both_cards_together_miss_is_named():
    with pytest.raises(Infeasible, match=r"TPOT 10 ms \(best") as caught:
        plan(None, "qwen3-32b-fp8", gpus="1xrtx-3090,1xrtx-4090", tpot_ms=10.0)

    assert "--tpot-ms" in str(caught.value.hint)


def test_unlike_gpus_in_one_tp_group_are_told_where_they_pay():
    """Two cards that only side by side answer within the limit."""
    nodes = [Node(device=d, gpus_per_node=1, nic_gb_per_s=12) for d in ("rtx-3090", "rtx-5090")]
    made = plan(resolve(Cluster(nodes=nodes)), "qwen3-14b", tpot_ms=45.0, engine="vllm")
    told = [a for a in made.alternatives if a.what.startswith("unlike GPUs in one tp group")]

    assert all(len({stage.layers for stage in r.stages}) == r.pp for r in made.replicas)
    assert all(a.objective > made.proof.objective and "unequal shares" in a.why for a in told)


def test_an_engine_that_builds_for_one_device_does_not_mix():
    with pytest.raises(Infeasible):
        plan(None, "qwen3-32b-fp8", gpus="1xrtx-3090,1xrtx-4090", engine="trtllm")


def test_what_no_engine_starts_is_silent_where_it_loses():
    """Each card holds the model and serves by itself: no way over both beats that."""
    nodes = [Node(device=d, gpus_per_node=2) for d in ("h100-sxm", "l40s")]
    made = plan(resolve(Cluster(nodes=nodes)), "llama-3.1-8b", engine="vllm", work_limit=1000)
    ways = ("different tp", "unlike GPUs", "attention and FFNs")

    assert not any(a.what.startswith(ways) for a in made.alternatives)
