"""Where room is looked for beside the GPUs: what is missing, and changes that would do, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from planner.inputs.options import Options
from planner.why.shortage_of_memory import HOST_SIZES_GB, Look, missing, remedies
from tests.candidates.samples import CHAT, ask
from tests.cost.samples import LLAMA_70B

WEIGHTS_GB = 70.5 * 2


def look(memory_gb=64.0, count=1, tiers=(), device="rtx-4090", isl=1000, **more):
    """A 70B model in 16 bits on boxes of one GPU of 24 GB."""
    host = Host(memory_gb=memory_gb, gb_per_s=80, pcie_gb_per_s=25) if memory_gb else None
    form = Node(name="box", device=device, count=count, gpus_per_node=1, host=host, tiers=list(tiers))
    load = CHAT.model_copy(update={"buckets": [CHAT.buckets[0].model_copy(update={"isl": isl})]})
    cluster = resolve(Cluster(nodes=[form]))
    return Look(cluster.classes, cluster.links, replace(ask(LLAMA_70B, load, offload=True), **more))


def figures(text):
    """GB that are short, needed, and there."""
    words = text.replace(",", "").replace(":", "").split()
    return [float(words[i - 1]) for i, w in enumerate(words) if w == "GB"]


def test_what_is_missing_is_what_is_needed_less_all_room():
    """By hand: 141 GB of weights and 0.4 of cache; 0.9 of 64 GB, and about 23 on the GPU."""
    short, need, gpu, host = figures(missing(look()))

    assert need == pytest.approx(WEIGHTS_GB, rel=0.03)
    assert host == pytest.approx(0.9 * 64, abs=0.1)
    assert 20 < gpu < 24
    assert short == pytest.approx(need - gpu - host, abs=0.2)


def test_several_nodes_and_a_disk_are_counted():
    assert figures(missing(look(32.0, count=2)))[3] == pytest.approx(2 * 0.9 * 32, abs=0.2)
    small = Tier(kind="nvme", gb=20, read_gb_per_s=7, write_gb_per_s=5)
    assert "on disk" in missing(look(tiers=(small,)))
    assert "on disk" not in missing(look())


def test_without_host_memory_nothing_can_be_said():
    assert missing(look(memory_gb=None)) is None


@pytest.mark.parametrize(("memory_gb", "fits"), [(64, False), (96, False), (256, True)])
def test_a_model_fits_where_weights_and_a_request_do(memory_gb, fits):
    assert look(memory_gb).fits is fits


def test_remedies_would_do_and_the_next_smaller_ones_would_not():
    here = look()
    said = list(remedies(here, Options(engine="any")))
    memory = next(int(s.split()[0]) for s in said if "host memory" in s and s[0].isdigit())
    smaller = HOST_SIZES_GB[HOST_SIZES_GB.index(memory) - 1]

    assert look(memory).fits
    assert not look(smaller).fits
    nodes = next(int(s.split()[0]) for s in said if "more node" in s)
    assert look(count=1 + nodes).fits
    assert nodes == 1 or not look(count=nodes).fits
    assert any("NVMe disk" in s for s in said)
    precision = next(s for s in said if s.startswith("--precision"))
    assert precision.endswith("with weights in host memory")


def test_an_engine_that_would_do_is_named_alone():
    one = look(256.0, engines=("trtllm",))
    (said,) = remedies(one, Options(engine="trtllm"))

    assert not one.fits
    assert said.startswith("--engine ")


def test_shorter_prompts_are_no_remedy_of_weights_that_do_not_fit():
    assert not any("--isl" in s for s in remedies(look(), Options(engine="any")))
