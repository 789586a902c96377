"""Placements of weights over GPUs and host memory: as good as trying all of them, and none that does not
fit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, NodeClass
from model_zoo import catalog
from planner.candidates.ask import Ask
from planner.candidates.largest import most
from planner.candidates.mix import Promise
from planner.candidates.points import batched
from planner.candidates.setup import Setup
from planner.cost.host import HostStage
from planner.cost.offload import OffloadModel
from planner.designs.precision import precisions
from planner.designs.shape import designs_of
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import THROUGHPUT
from planner.replicas import host_memory

HOST = Host(memory_gb=256, gb_per_s=90, tflops=2, pcie_gb_per_s=32)


def node(gpus: int = 1, host: Host | None = HOST, device: str = "rtx-4090") -> NodeClass:
    return resolve(Cluster(nodes=[Node(device=device, gpus_per_node=gpus, host=host)])).classes[0]


def ask(model: str, precision: str | None = None, tpot_ms: float | None = None, **more: object) -> Ask:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=1024, osl=256)], slo=slo)
    used = precisions(card, precision)
    made = Ask(card, used, ["llama.cpp"], load, Promise.of(slo, "closed"), THROUGHPUT, offload=True)
    return replace(made, **more)  # type: ignore[arg-type]


def best_rate(s: Setup) -> float:
    fits = np.flatnonzero(s.memory.kv_bytes > 0)
    batch = most(s, fits, "mixed")
    points = batched(s, fits[batch > 0], batch[batch > 0], "mixed")
    return float(points.rate.max(initial=0.0))


def every_count(at: NodeClass, a: Ask) -> Setup:
    """All counts of layers whose experts are away on one GPU."""
    layers = len(a.card.stack)
    moe = sum(getattr(layer.ffn, "kind", "") == "moe" for layer in a.card.stack)
    stagings = [(HostStage(at.id, 1, (0, layers), away),) for away in range(moe + 1)]
    model = OffloadModel(a.card, at, stagings, "llama.cpp", a.precisions)
    return a.setup(model, designs_of(stagings), [at], host_memory.TOKENS_PER_STEP)


@pytest.mark.parametrize(
    ("model", "precision"),
    [("gpt-oss-120b", None), ("qwen3-235b-a22b", "int4_wo"), ("deepseek-v3", "int4_wo")],
)
@pytest.mark.parametrize("tpot_ms", [50.0, 150.0, 400.0])
def test_no_count_of_layers_does_better_than_those_offered(model, precision, tpot_ms):
    a = ask(model, precision, tpot_ms)
    roomy = HOST.model_copy(update={"memory_gb": 1024, "gb_per_s": 300})
    offered, every = host_memory.setup(node(host=roomy), "llama.cpp", a), every_count(node(host=roomy), a)

    assert offered is not None
    assert best_rate(offered) >= best_rate(every) * (1 - 1e-9)


@pytest.mark.parametrize("tpot_ms", [20.0, 60.0])
def test_no_split_over_two_gpus_does_better_than_those_offered(tpot_ms):
    """gpt-oss-20b on two GPUs of 6 GB: every third cut, all counts of layers away on either side."""
    small = node().device.model_copy(update={"memory_gb": 6.0})
    at, a = replace(node(2), device=small), ask("gpt-oss-20b", None, tpot_ms)
    stagings = [
        (HostStage(at.id, 1, (0, cut), x), HostStage(at.id, 1, (cut, 24), y))
        for cut in range(3, 24, 3)
        for x in range(cut + 1)
        for y in range(24 - cut + 1)
    ]
    model = OffloadModel(a.card, at, stagings, "llama.cpp", a.precisions)
    every = a.setup(model, designs_of(stagings), [at], host_memory.TOKENS_PER_STEP)
    offered = host_memory.setup(at, "llama.cpp", a)

    assert offered is not None
    assert best_rate(offered) >= best_rate(every) * (1 - 1e-9) > 0


@pytest.mark.parametrize("gpus", [1, 2, 3])
@pytest.mark.parametrize(
    ("model", "precision"),
    [("gpt-oss-120b", None), ("llama-3.1-70b", "int4_wo"), ("llama-3.1-405b", "int4_wo")],
)
def test_what_is_offered_holds_a_sequence_and_stands_in_one_node(model, precision, gpus):
    a, at = ask(model, precision), node(gpus)
    s = host_memory.setup(at, "llama.cpp", a)

    assert s is not None
    assert (s.memory.kv_bytes > 0).any()
    for staging in s.model.stagings:
        assert len(staging) <= gpus
        assert staging[-1].layers[1] == len(a.card.stack)
        assert all(x.layers[1] == y.layers[0] for x, y in pairwise(staging))


def least_away(gpus: int) -> int:
    s = host_memory.setup(node(gpus), "llama.cpp", ask("gpt-oss-120b"))
    assert s is not None
    stagings: list[tuple[HostStage, ...]] = list(s.model.stagings)  # type: ignore[arg-type]
    return min(sum(stage.away for stage in staging) for staging in stagings)


def test_two_gpus_share_the_layers_so_that_fewer_experts_leave():
    assert least_away(2) < least_away(1) - 8


def test_whole_layers_leave_only_where_experts_are_not_enough():
    """8 GB hold gpt-oss-120b's attention and the cache of one sequence, not that of 200."""
    small = node().device.model_copy(update={"memory_gb": 8.0})
    placed = host_memory.Placements(replace(node(), device=small), "llama.cpp", ask("gpt-oss-120b"), 1)
    one, many = placed.least(1), placed.least(100)

    assert one is not None
    assert many is not None
    assert (one[1][0].layers[0], one[1][0].away) == (0, 36)
    assert many[1][0].layers[0] > 0


def test_dense_models_leave_by_layers():
    s = host_memory.setup(node(), "llama.cpp", ask("llama-3.1-70b", "int4_wo"))

    assert s is not None
    assert all(staging[0].layers[0] > 0 and staging[0].away == 0 for staging in s.model.stagings)


def test_kernels_for_experts_keep_the_most_popular_on_the_gpu():
    a = ask("qwen3-235b-a22b", "int4_wo", engines=["sglang"])
    s = host_memory.setup(node(), "sglang", a)

    assert s is not None
    kept = [staging[0].kept for staging in s.model.stagings]
    assert kept == sorted(kept, reverse=True)
    assert len(set(kept)) == len(kept)
    assert 0 < max(kept) < 128


def test_engines_offload_what_they_can():
    both = ["vllm", "sglang", "trtllm", "llama.cpp"]

    assert host_memory.engines(node(), ask("qwen3-235b-a22b", "int4_wo", engines=both)) == [
        "vllm",
        "sglang",
        "llama.cpp",
    ]
    assert host_memory.engines(node(), ask("llama-3.1-70b", "int4_wo", engines=both)) == ["vllm", "llama.cpp"]
    assert host_memory.engines(node(), ask("gpt-oss-120b", engines=both)) == [
        "vllm",
        "llama.cpp",
    ]  # mxfp4 on Ada
    assert host_memory.engines(node(host=None), ask("gpt-oss-120b", engines=both)) == []
    apart = node(host=HOST.model_copy(update={"pcie_gb_per_s": None}))
    unknown = replace(apart, device=apart.device.model_copy(update={"pcie_gb_per_s": None}))
    assert "vllm" in host_memory.engines(apart, ask("llama-3.1-70b", "int4_wo", engines=both))
    assert host_memory.engines(unknown, ask("llama-3.1-70b", "int4_wo", engines=both)) == ["llama.cpp"]


@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3"])
def test_every_number_of_streamed_bytes_is_offered_with_the_shortest_run(model):
    """Against all groups."""
    a = ask(model, "int4_wo", engines=["vllm"])
    s = host_memory.setup(node(), "vllm", a)
    assert s is not None
    m = s.model
    assert isinstance(m, OffloadModel)
    layers = len(a.card.stack)
    every = [
        (HostStage(m.node_class.id, 1, (0, layers), group=g, streamed=n),)
        for n in range(1, layers + 1)
        for g in range(n, layers + 1)
    ]
    whole = OffloadModel(m.card, m.node_class, every, "vllm", m.precisions)
    least: dict[int, int] = {}
    for staging, moved in zip(every, whole.stream_bytes.round().tolist(), strict=True):
        least[moved] = min(least.get(moved, layers), staging[0].streamed)

    offered = {round(b): p[0].streamed for b, p in zip(m.stream_bytes.tolist(), m.placements, strict=True)}
    assert offered == least


def test_no_group_of_streamed_layers_does_better_than_those_offered():
    a = ask("llama-3.1-70b", "int4_wo", 2000.0, engines=["vllm"])
    stagings = [
        (HostStage(node().id, 1, (0, 80), group=g, streamed=n),)
        for n in range(1, 81)
        for g in range(n, 81, 3)
    ]
    model = OffloadModel(a.card, node(), stagings, "vllm", a.precisions)
    every = a.setup(model, designs_of(stagings), [node()], host_memory.TOKENS_PER_STEP)
    offered = host_memory.setup(node(), "vllm", a)

    assert offered is not None
    assert best_rate(offered) >= best_rate(every) * (1 - 1e-9) > 0
