"""Transfers between replicas of a plan: over NICs, a link or the domain, alone and with others."""

from dataclasses import replace

import pytest

from cluster_configs.reading import from_gpus, read_cluster
from planner import plan
from planner.candidates.candidate import Candidate, Design
from planner.check import check
from planner.cost.transfer import START_S, Overlap
from planner.problems.ways import route, transfer_s
from planner.question.asked import read
from planner.question.posed import ask_of
from planner.replicas.generate import generate

ALONE = (0.0, 0.0, 0.0)
LINKED = """
name: linked
nodes:
  - {{name: h, device: h100-sxm, gpus_per_node: 2, zone: east}}
  - {{name: l, device: l40s, nic: roce, gpus_per_node: 2, zone: west}}
links: [{{between: [east, west], gb_per_s: {gb_per_s}, latency_ms: 1}}]
"""


def candidate(role: str, handoff_s: float) -> Candidate:
    return Candidate(
        id=role,
        role=role,
        node_class="h",
        engine="vllm",
        design=Design(),
        gpus=1,
        use={"busy": {"0": 1.0}},
        watts=1.0,
        handoff_s={"0": handoff_s},
    )


def linked(tmp_path, gb_per_s=8):
    path = tmp_path / "c.yaml"
    path.write_text(LINKED.format(gb_per_s=gb_per_s))
    return read_cluster(path)


def test_the_slowest_of_both_nics_and_the_link_counts(tmp_path):
    way = route(*linked(tmp_path).classes, linked(tmp_path))
    p, d = candidate("prefill", 0.05), candidate("decode", 0.1)

    assert transfer_s(p, d, way, "0", 4e9, ALONE) == pytest.approx(START_S + 0.001 + 4 / 8)
    assert transfer_s(p, d, way, "0", 4e8, ALONE) == pytest.approx(START_S + 0.001 + 0.1)
    twice = replace(d, copies={"0": 2.0})
    assert transfer_s(p, twice, way, "0", 4e9, ALONE) == pytest.approx(START_S + 0.001 + 8 / 8)


def test_others_on_the_link_make_it_longer_and_chunks_hide_some(tmp_path):
    way = route(*linked(tmp_path).classes, linked(tmp_path))
    p, d = candidate("prefill", 0.0), candidate("decode", 0.0)

    assert transfer_s(p, d, way, "0", 4e9, (0, 0, 0.5)) == pytest.approx(START_S + 0.001 + 1.0)
    hidden = replace(p, overlap={"0": Overlap(last=0.25, hidden_s=0.6)})
    assert transfer_s(hidden, d, way, "0", 4e9, (0, 0, 0.5)) == pytest.approx(START_S + 0.001 + 0.4)


def test_inside_a_domain_the_scale_up_links_carry_it():
    cluster = from_gpus("8xh100")
    node = cluster.classes[0]
    way = route(node, node, cluster)
    over_nics = 1e9 / node.nic_bytes_per_s
    p, d = candidate("prefill", over_nics), candidate("decode", over_nics / 2)

    took = transfer_s(p, d, way, "0", 8e9, ALONE)
    assert took == pytest.approx(START_S + 1e9 / node.intra_bytes_per_s)


def test_zones_without_a_link_are_not_joined(tmp_path):
    cluster = linked(tmp_path)

    assert route(*cluster.classes, replace(cluster, links=())) is None


def test_a_link_in_use_is_never_full_and_its_queue_is_in_the_first_token(tmp_path):
    """2,000 tokens of Llama-3.1-8B are 0.26 GB, 33 ms over 8 GB/s alone and 7 ms over 40."""
    seen = {}
    for gb_per_s in (8, 40):
        load = {"isl": 2000, "osl": 1000, "engine": "trtllm", "ttft_ms": 6000, "tpot_ms": 15}
        made = plan(linked(tmp_path, gb_per_s), "llama-3.1-8b", explain=False, **load)
        (pair,) = [r for r in made.routing if r.prefill]
        share = pair.kv_gb_per_s / gb_per_s
        assert 0 < share <= 0.9
        assert not check(made)
        seen[gb_per_s] = made.predicted.ttft_ms.value, 1e3 * 131_072 * 2000 / (gb_per_s * 1e9) / (1 - share)

    (slow_ms, slow_way_ms), (fast_ms, fast_way_ms) = seen[8], seen[40]
    assert slow_ms - fast_ms == pytest.approx(slow_way_ms - fast_way_ms, rel=0.02)


def test_a_prompt_in_chunks_is_handed_over_sooner_than_a_whole_one():
    """SGLang sends chunk by chunk, vLLM in one go: of as slow NICs less is seen."""
    seen = {}
    for engine in ("sglang", "vllm"):
        load = {"isl": 30_000, "osl": 200, "ttft_ms": 60_000}
        asked = read(None, "llama-3.1-70b", "8xh100", "chat", load, {"engine": engine}, False)
        pool = generate(asked.cluster.classes, ask_of(asked))
        found = [c for c in pool.candidates if c.role == "prefill"]
        assert found
        seen[engine] = [c.overlap.get("0", Overlap()) for c in found]
    assert all(o == Overlap() for o in seen["vllm"])
    assert all(o.last == pytest.approx(8192 / 30_000) and o.hidden_s > 0.1 for o in seen["sglang"])
