"""Clusters whose links cannot carry the caches of a prefill/decode split: mixed replicas, and why."""

import pytest

from cluster_configs.reading import read_cluster
from planner import plan
from planner.beside.alternatives import alternatives
from planner.beside.thin_links import WHAT
from planner.check import check
from tests.beside.solved import alone

told = alone(alternatives)

KV_BYTES = 131_072 * 4000  # Llama-3.1-8B: 32 layers x 2 x 8 heads x 128 x 2 bytes a token
LINKED = """
name: linked
nodes:
  - {{name: h, device: h100-sxm, gpus_per_node: 1, zone: east}}
  - {{name: l, device: l40s, gpus_per_node: 1, nic: roce, zone: west}}
links: [{{between: [east, west], gb_per_s: {gb_per_s}, latency_ms: 1}}]
"""
ETHERNET = """
name: ethernet
nodes: [{{name: l, device: l40s, count: 4, gpus_per_node: 1, nic_gb_per_s: {gb_per_s}, nic: roce}}]
"""
LOAD = {"isl": 4000, "osl": 200, "engine": "vllm"}


def made(tmp_path, text, gb_per_s):
    path = tmp_path / "c.yaml"
    path.write_text(text.format(gb_per_s=gb_per_s))
    return plan(read_cluster(path), "llama-3.1-8b", **LOAD)


def reasons(p):
    return {a.what: a.why for a in p.alternatives if a.what.startswith(WHAT)}


@pytest.mark.parametrize(
    ("text", "over", "carries", "gb_per_s", "room"),
    [
        (LINKED, "h and l", "the link east - west carries", 1.25, 1.25),
        (ETHERNET, "l", "the NICs of half of l carry", 0.125, 0.25),
    ],
)
def test_thin_links_leave_replicas_mixed_and_are_named(tmp_path, text, over, carries, gb_per_s, room):
    p = made(tmp_path, text, gb_per_s)
    rate = p.predicted.rps.value

    assert {r.role for r in p.replicas} == {"mixed"}
    assert reasons(p)[f"{WHAT}, over {over}"] == (
        f"KV of {rate:,.3g} requests/s is {rate * KV_BYTES / 1e9:,.3g} GB/s, {carries} {room:,.3g}: "
        f"{room * 1e9 / KV_BYTES:,.3g} requests/s"
    )


@pytest.mark.parametrize("text", [LINKED, ETHERNET])
def test_fast_links_need_no_excuse(tmp_path, text):
    p = made(tmp_path, text, 100)

    assert not reasons(p)
    assert not check(p)


def test_zones_that_nothing_joins_say_so(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(LINKED.format(gb_per_s=1).split("links")[0])
    p = plan(read_cluster(path), "llama-3.1-8b", **LOAD)

    assert "without a link from east to west these carry 0" in reasons(p)[f"{WHAT}, over h and l"]


def test_a_node_without_peer_to_peer_is_thin_itself(tmp_path):
    """Half of four L40S send 0.37 GB/s each."""
    path = tmp_path / "c.yaml"
    path.write_text("name: box\nnodes: [{name: l, device: l40s, gpus_per_node: 4}]\n")
    p = plan(read_cluster(path), "llama-3.1-8b", **LOAD)

    why = reasons(p)[f"{WHAT}, over l"]
    assert (
        "copies through the host's memory for half of l (no peer-to-peer between its GPUs) carry 0.74" in why
    )
