"""What of a replica lies beside its GPUs: each layer once, with all of its bytes; seconds that add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from planner.cost.work import WORK
from planner.plans.found import groups
from planner.plans.operation import index_of
from planner.plans.tiers import seconds_by, tiers
from tests.beside.solved import on

HOST = Host(memory_gb=256, gb_per_s=80, pcie_gb_per_s=25)
DISK = Tier(kind="nvme", gb=4000, read_gb_per_s=7, write_gb_per_s=5)


def made(model: str, memory_gb: float = 256.0, tiers=()):
    """Groups of a box of one GPU of 24 GB, with llama.cpp."""
    host = HOST.model_copy(update={"memory_gb": memory_gb})
    form = Node(name="box", device="rtx-4090", gpus_per_node=1, host=host, tiers=list(tiers))
    found = on(resolve(Cluster(nodes=[form])), model, engine="llama.cpp", tpot_ms="none", ttft_ms="none")[2]
    return groups(found)


def test_layers_in_host_memory_are_told_once_with_their_bytes():
    """Llama-3.1-70B in 16 bits: of 80 layers of 1.71 GB those that the GPU has no room for."""
    own = made("llama-3.1-70b")
    parts = tiers(own)
    layers = Counter(i for p in parts if p.what == "layers" for a, b in p.layers for i in range(a, b))

    assert parts
    assert {p.tier for p in parts} == {"host"}
    assert set(layers.values()) == {1}
    assert sorted(layers) == list(range(len(layers)))
    assert 65 < len(layers) < 80
    assert sum(p.bytes for p in parts) == pytest.approx(len(layers) * 1.711e9, rel=0.01)
    g = own[0]
    model, at = g.setup.model, index_of(g.setup, g.candidate)
    assert sum(p.bytes for p in parts) == pytest.approx(float(model.host_bytes[at]), rel=0.005)


def test_what_host_memory_lacks_is_on_disk():
    parts = tiers(made("deepseek-v2", 64.0, (DISK,)))
    size = {t: sum(p.bytes for p in parts if p.tier == t) for t in ("host", "nvme")}

    assert size["nvme"] > 2 * size["host"] > 0
    assert size["host"] <= 0.9 * 64e9 * 1.001
    assert {p.what for p in parts if p.tier == "nvme"} == {"experts"}


def test_seconds_of_a_step_go_to_what_it_waits_for():
    (g,) = made("llama-3.1-70b")
    by = seconds_by(g)

    assert sum(by.values()) == pytest.approx(g.operation.decode_s)
    assert all(s >= 0 for s in by.values())
    slow = replace(g.operation)
    slow.__dict__["decode_s"] = 2 * g.operation.decode_s
    assert sum(seconds_by(replace(g, operation=slow)).values()) == pytest.approx(2 * g.operation.decode_s)
    assert {p.way for p in tiers([g])} == {"pcie"}
    assert max(by, key=by.get) == "PCIe"


def test_replicas_on_their_gpus_have_nothing_beside():
    (g,) = made("llama-3.1-70b")
    plain = replace(g, candidate=replace(g.candidate, design=replace(g.candidate.design, stages=())))

    assert tiers([plain]) == []
    assert set(seconds_by(plain)) <= set(WORK)
    assert sum(seconds_by(plain).values()) == pytest.approx(g.operation.decode_s)
