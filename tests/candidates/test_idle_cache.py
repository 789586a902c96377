"""Levels of keeping idle cache, and where an engine may keep it, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from planner.candidates.idle_cache import COPIED, MOST_LEVELS, NEARLY, levels, places
from planner.cost.host import USABLE
from planner.cost.idle_cache import resting_of
from planner.inputs.reuse import Reuse
from planner.inputs.workload import Bucket, Workload
from tests.cost.samples import KINDS

HOST = Host(memory_gb=512, gb_per_s=300, pcie_gb_per_s=25)
DISK = Tier(kind="nvme", gb=4000, read_gb_per_s=12, write_gb_per_s=6)
FAR = Tier(kind="remote", gb=10_000, read_gb_per_s=4, write_gb_per_s=2)


def node(host=HOST, tiers=(DISK, FAR), device="l40s", gpus=2):
    form = Node(name="n", device=device, gpus_per_node=gpus, host=host, tiers=list(tiers), nic_gb_per_s=25)
    return resolve(Cluster(nodes=[form])).classes[0]


def resting(*reuse: Reuse):
    """What returns of prompts of 1,000 tokens and answers of 200."""
    return resting_of(Workload(buckets=[Bucket(isl=1000, osl=200)], reuse=list(reuse)))


TURNS = resting(Reuse(name="turns", gap_s=60, gap_cv=1.5, again=0.8))
ONE = np.array([1.0])


def test_levels_find_evenly_more_up_to_nearly_all_that_ever_returns():
    """Of twelve in one place the k-th finds 0.98 k / 12 of it."""
    found = [float(k.found[0]) for k in levels(TURNS, ONE, ["hbm"])]
    ever = float(TURNS.hits.sum())

    assert found == pytest.approx([NEARLY * ever * k / MOST_LEVELS for k in range(1, 13)])


def test_places_share_the_levels_and_each_has_a_number_of_its_own():
    made = levels(TURNS, ONE, ["hbm", "host", "nvme"])

    assert [k.place for k in made] == ["hbm"] * 4 + ["host"] * 4 + ["nvme"] * 4
    assert [k.number for k in made] == list(range(2, 14))
    assert [k.keep_s for k in made[:4]] == sorted({k.keep_s for k in made})


def test_what_a_level_keeps_is_what_requests_leave_for_its_time():
    for k in levels(TURNS, ONE, ["hbm"]):
        assert k.found == pytest.approx(TURNS.hit_tokens(k.keep_s))
        assert k.token_s == pytest.approx(TURNS.token_s(k.keep_s))


def test_shared_beginnings_alone_are_a_level_of_no_time():
    (only,) = levels(resting(Reuse(name="system", tokens=400, share=0.5, distinct=3)), ONE, ["hbm", "host"])

    assert (only.number, only.place, only.keep_s) == (1, "hbm", 0.0)
    assert (only.found[0], only.fixed_tokens) == (200, 1200)


def test_a_gpu_has_its_part_of_host_memory_and_of_the_link():
    """By hand: 0.9 of 512 GB and 0.8 of 25 GB/s a GPU, which the memory's 300 GB/s bear."""
    (host,) = places(node(), "vllm", KINDS["gqa"])
    (slow,) = places(node(HOST.model_copy(update={"gb_per_s": 10})), "vllm", KINDS["gqa"])

    assert host.name == "host"
    assert host.bytes == pytest.approx(USABLE * 512e9 / 2)
    assert host.read_bytes_per_s == host.write_bytes_per_s == pytest.approx(COPIED * 25e9)
    assert slow.read_bytes_per_s == pytest.approx(COPIED * 10e9 / 2)


def test_sglang_keeps_cache_on_disk_and_far_away_too():
    host, disk, far = places(node(), "sglang", KINDS["gqa"])

    assert (host.name, disk.name, far.name) == ("host", "nvme", "remote")
    assert (disk.read_bytes_per_s, disk.write_bytes_per_s) == (6e9, 3e9)
    assert disk.bytes <= 4000e9 / 2


@pytest.mark.parametrize(
    ("engine", "kind", "there"),
    [
        ("vllm", "gqa", True),
        ("vllm", "mla", False),
        ("vllm", "window", False),
        ("vllm", "linear", False),
        ("trtllm", "mla", True),
        ("trtllm", "linear", False),
        ("llama.cpp", "linear", True),
        ("llama.cpp", "window", True),
    ],
)
def test_engines_keep_what_their_pages_say(engine, kind, there):
    assert bool(places(node(), engine, KINDS[kind])) == there


@pytest.mark.parametrize(
    "without",
    [node(host=None), node(host=None, tiers=(), device="gb10", gpus=1)],
    ids=["no host", "one memory for both"],
)
def test_a_class_without_memory_of_its_own_beside_the_gpus_keeps_nothing(without):
    assert places(without, "vllm", KINDS["gqa"]) == []


def test_hicache_wants_more_memory_than_the_gpu_has():
    """48 GB on the GPU, 64 GB and 100 GB for two."""
    small, large = (node(HOST.model_copy(update={"memory_gb": gb})) for gb in (64, 120))

    assert places(small, "sglang", KINDS["gqa"]) == []
    assert places(small, "vllm", KINDS["gqa"]) != []
    assert places(large, "sglang", KINDS["gqa"]) != []
