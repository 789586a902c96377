"""Replicas with weights in host memory: by hand, against the model that lies on its GPUs, and by what must
not be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, NodeClass, Tier
from model_zoo import catalog
from planner.cost.attention import Load
from planner.cost.host import HostStage, host_use
from planner.cost.host_ways import RESOURCES
from planner.cost.memory import room_by_stage
from planner.cost.model import CostModel
from planner.cost.offload import OffloadModel
from planner.cost.placements import HostStaging
from planner.cost.reserve import device_bytes
from planner.cost.streaming import AHEAD, streaming_s
from planner.designs.precision import precisions
from planner.designs.shape import designs_of, like

HOST = Host(memory_gb=512, gb_per_s=100, tflops=2, pcie_gb_per_s=32)
DISK = Tier(kind="nvme", gb=2000, read_gb_per_s=7, write_gb_per_s=5)


def node(gpus: int = 1, host: Host = HOST, disks: tuple[Tier, ...] = ()) -> NodeClass:
    form = Node(device="rtx-4090", gpus_per_node=gpus, host=host, tiers=list(disks))
    return resolve(Cluster(nodes=[form])).classes[0]


def model(
    stagings: list[HostStaging],
    name: str = "deepseek-v3",
    engine: str = "llama.cpp",
    precision: str | None = "int4_wo",
    at: NodeClass | None = None,
) -> OffloadModel:
    card, _ = catalog.find(name)
    return OffloadModel(card, at or node(), stagings, engine, precisions(card, precision))


def stage(away: int, kept: int = 0, layers: tuple[int, int] = (0, 61)) -> HostStage:
    return HostStage("rtx-4090", 1, layers, away, kept)


ALL_AWAY = (stage(58),)


def seconds(m: OffloadModel, batch: float = 1.0, prompt: float = 0.0) -> np.ndarray:
    designs = designs_of(m.stagings)
    return m.step_s(designs, Load.of(batch, 1000.0, prompt, prompt / 2))


def test_a_token_reads_its_experts_at_the_engines_share_of_host_bandwidth():
    """By hand: 58 layers x 8 experts x 3 matrices of 7168 x 2048, 4.125 bits each."""
    m = model([ALL_AWAY])
    moved = 58 * 8 * 3 * 7168 * 2048 * (0.5 + 2 / 128)
    by = m.seconds_by(designs_of([ALL_AWAY]), Load.of(1.0, 1000.0))

    assert by["host memory bandwidth"] == pytest.approx(moved / (host_use("llama.cpp", 1).memory * 100e9))
    assert by["hand-over"] == pytest.approx(58 * 20e-6)
    assert sum(by.values()) == pytest.approx(float(seconds(m)[0]))
    assert tuple(by) == RESOURCES


def test_with_nothing_away_it_is_the_model_that_lies_on_its_gpus():
    """But for the MTP layers, which offloading engines leave out."""
    card, _ = catalog.find("gpt-oss-20b")
    m = model([(stage(0, layers=(0, 24)),)], "gpt-oss-20b", precision=None)
    plain = CostModel(card, node(), "llama.cpp", precisions(card))
    own, like_it = designs_of(m.stagings), like(1, 1)

    for batch, prompt in ((1.0, 0.0), (16.0, 0.0), (4.0, 512.0)):
        args = Load.of(batch, 1000.0, prompt, prompt / 2)
        assert m.step_s(own, args) == pytest.approx(plain.step_s(like_it, args))
    assert m.memory(own, 2048, 1000.0).kv_bytes == pytest.approx(plain.memory(like_it, 2048, 1000.0).kv_bytes)


def test_the_more_is_away_the_longer_a_step_and_the_more_cache():
    stagings = [(stage(away),) for away in range(0, 59, 2)]
    m = model(stagings)
    memory = m.memory_by_stage(designs_of(stagings), 2048)

    assert (np.diff(seconds(m)) > 0).all()
    assert (np.diff(memory.kv_bytes[:, 0]) > 0).all()


@pytest.mark.parametrize(
    ("name", "staging"),
    [
        ("deepseek-v3", (stage(58),)),
        ("deepseek-v3", (stage(20, layers=(0, 30)), stage(31, layers=(30, 61)))),
        ("deepseek-v3", (stage(41, layers=(20, 61)),)),
        ("deepseek-v3", (stage(58, kept=10),)),
        ("llama-3.1-70b", (stage(0, layers=(50, 80)),)),
    ],
)
def test_weights_lie_somewhere_once(name, staging):
    m = model([staging], name, at=node(len(staging)))
    card, designs = m.card, designs_of([staging])
    every = m.memory_by_stage(designs, 2048)
    used = precisions(card, "int4_wo")
    args = (card, device_bytes(m.node_class.device), like(1, 1), used, "llama.cpp", 2048)
    whole = room_by_stage(*args).weights_bytes.sum()

    assert every.weights_bytes.sum() == pytest.approx(whole, rel=1e-3)


def test_popular_experts_on_the_gpu_save_more_than_their_share():
    stagings = [(stage(58, kept),) for kept in (0, 32, 64)]
    m = model(stagings, engine="sglang")
    host = [
        m.seconds_by(designs_of([s]), Load.of(1.0, 1000.0))["host memory bandwidth"] for s in stagings[:1]
    ]
    spared = [
        model([s], engine="sglang").seconds_by(designs_of([s]), Load.of(1.0, 1000.0))["host memory bandwidth"]
        for s in stagings
    ]

    assert spared[0] == pytest.approx(host[0])
    assert spared[1] < 0.75 * spared[0]
    assert spared[2] < spared[1]
    assert (np.diff(seconds(m)) < 0).all()


def test_a_prompt_takes_the_faster_of_cpu_and_pcie():
    thin = HOST.model_copy(update={"pcie_gb_per_s": 0.01})
    slow = HOST.model_copy(update={"tflops": 0.01})
    both, cpu, pcie = (
        float(seconds(model([ALL_AWAY], at=node(host=h)), 0.0, 2048.0)[0]) for h in (HOST, thin, slow)
    )

    assert both == pytest.approx(min(cpu, pcie), rel=1e-6)


def test_two_gpus_on_one_root_copy_no_faster_than_one():
    """KTransformers' kernels over tp 2: twice the lanes where each GPU has its own root."""
    staging = (HostStage("rtx-4090", 2, (0, 61), 58),)

    def prompt_s(on_root: int) -> float:
        host = HOST.model_copy(update={"gpus_per_pcie_root": on_root, "tflops": 0.01})
        return model([staging], engine="sglang", at=node(2, host)).seconds_by(
            designs_of([staging]), Load.of(4000.0, 1.0)
        )["PCIe"]

    assert prompt_s(2) == pytest.approx(2 * prompt_s(1))


def test_what_host_memory_lacks_is_read_from_disk():
    """DeepSeek-V3's experts are 337 GB in 4 bits: of 512 GB of memory all fit, of 256 the popular ones."""
    half = HOST.model_copy(update={"memory_gb": 256})
    roomy, tight = model([ALL_AWAY]), model([ALL_AWAY], at=node(host=half, disks=(DISK,)))
    designs = designs_of([ALL_AWAY])
    read = tight.seconds_by(designs, Load.of(1.0, 1000.0))["NVMe reads"]
    everything = 58 * 8 * roomy.held.expert.max() * (1 - tight.cached[0])

    assert roomy.seconds_by(designs, Load.of(1.0, 1000.0))["NVMe reads"] == 0
    assert 0 < read < everything / (0.6 * 7e9)
    assert tight.host_bytes[0] + tight.disk_bytes[0] == pytest.approx(roomy.host_bytes[0])
    assert model([ALL_AWAY], at=node(host=half)).memory(designs, 2048, 1000.0).kv_bytes[0] < 0
    small = DISK.model_copy(update={"gb": 100})
    short = model([ALL_AWAY], at=node(host=half, disks=(small,)))
    assert short.memory(designs, 2048, 1000.0).kv_bytes[0] < 0


def test_an_engine_that_reads_no_disk_has_none():
    half = HOST.model_copy(update={"memory_gb": 256})
    m = model([ALL_AWAY], engine="sglang", at=node(host=half, disks=(DISK,)))

    assert m.memory(designs_of([ALL_AWAY]), 2048, 1000.0).kv_bytes[0] < 0


def test_a_dense_model_read_through_a_cache_too_small_is_read_whole():
    staging = (stage(0, layers=(50, 80)),)
    small = HOST.model_copy(update={"memory_gb": 16})
    m = model([staging], "llama-3.1-70b", at=node(host=small, disks=(DISK,)))
    by = m.seconds_by(designs_of([staging]), Load.of(1.0, 1000.0))

    assert by["NVMe reads"] == pytest.approx(50 * m.held.layer[0] / (0.6 * 7e9))


def test_cache_of_layers_on_the_host_lies_there():
    few, many = (stage(0, layers=(60, 80)),), (stage(0, layers=(20, 80)),)
    m = model([few, many], "llama-3.1-70b")
    memory = m.memory(designs_of(m.stagings), 2048, 1000.0)
    held = m.cache_bytes(designs_of(m.stagings), np.array([1000.0]), np.array([1, 1]))

    assert held[0, 0] == pytest.approx(3 * held[1, 0])
    assert memory.kv_bytes[1] < 0  # 60 layers of 4 bits are 26 GB


def test_gpus_of_a_pipeline_draw_what_they_work():
    one, two = (stage(58),), (stage(28, layers=(0, 31)), stage(30, layers=(31, 61)))
    watts = [
        model([s], at=node(len(s))).watts(designs_of([s]), Load.of(1.0, 1000.0), 1.0)[0] for s in (one, two)
    ]

    assert watts[0] < watts[1] < 2 * watts[0]


def test_the_floor_is_below_the_step():
    stagings = [(stage(away),) for away in (0, 30, 58)]
    m, designs = model(stagings), designs_of(stagings)

    for batch, prompt in ((1.0, 0.0), (64.0, 0.0), (1.0, 2048.0)):
        args = Load.of(batch, 1000.0, prompt, prompt / 2)
        assert (m.floor_s(designs, args) <= m.step_s(designs, args)).all()


def test_other_shares_of_the_host_are_wider_bands():
    m = model([ALL_AWAY])
    plain = CostModel(m.card, node(), "llama.cpp", m.precisions)

    assert (m.sigmas(designs_of([ALL_AWAY])) > plain.sigmas(like(1, 1))).all()
    assert replace(m.use, sigma=0.0).sigma < m.use.sigma


def streaming(many: int = 126, group: int = 126, tp: int = 1) -> HostStaging:
    return (HostStage("gh", tp, (0, 126), group=group, streamed=many),)


def superchip(gpus: int = 1, **more: float) -> NodeClass:
    host = Host(memory_gb=480 * gpus, gb_per_s=512 * gpus, tflops=3.5, **more)  # type: ignore[arg-type]
    return resolve(Cluster(nodes=[Node(device="gh200-96gb", gpus_per_node=gpus, host=host)])).classes[0]


def streams(staging: HostStaging, at: NodeClass) -> tuple[OffloadModel, dict[str, float]]:
    m = model([staging], "llama-3.1-405b-fp8", "vllm", None, at)
    return m, m.seconds_by(designs_of([staging]), Load.of(1.0, 1000.0))


def test_a_step_copies_what_is_streamed_over_the_host_link():
    """By hand: 126 layers of 2 x 16384 x (16384 + 1024) + 3 x 16384 x 53248 bytes; the device's link."""
    m, by = streams(streaming(), superchip())
    size = 126 * 16384 * (2 * (16384 + 1024) + 3 * 53248)

    assert m.stream_bytes[0] == pytest.approx(size, rel=1e-3)
    assert by["NVLink-C2C"] == pytest.approx(m.stream_bytes[0] / (0.8 * 450e9))
    assert by["GPU"] == by["host memory bandwidth"] == by["host FLOP/s"] == 0.0
    assert m.host_bytes[0] == m.stream_bytes[0]


def test_host_memory_slower_than_the_link_is_what_binds():
    host = Host(memory_gb=480, gb_per_s=100, pcie_gb_per_s=450)
    at = resolve(Cluster(nodes=[Node(device="gh200-96gb", gpus_per_node=1, host=host)])).classes[0]
    m, by = streams(streaming(), at)

    assert by["host memory bandwidth"] == pytest.approx(m.stream_bytes[0] / (0.85 * 100e9))


def test_cache_of_streamed_layers_is_on_the_gpu():
    """What left is room, less the layers copied ahead; a sequence takes as much as without."""
    none, some = streaming(0), streaming(42, 126)
    m = model([none, some], "llama-3.1-405b-fp8", "vllm", None, superchip())
    designs = designs_of(m.stagings)
    memory = m.memory_by_stage(designs, 8192)
    held = m.cache_bytes(designs, np.array([1000.0]), np.array([0, 0]))

    layer = m.stream_bytes[1] / 42
    assert memory.kv_bytes[1, 0] - memory.kv_bytes[0, 0] == pytest.approx((42 - AHEAD) * layer)
    assert memory.weights_bytes[0, 0] - memory.weights_bytes[1, 0] == pytest.approx(42 * layer)
    assert held[0, 0] == held[1, 0]


def test_a_long_prompt_hides_the_copies():
    m, _ = streams(streaming(), superchip())
    designs = designs_of(m.stagings)
    token, short, long = (
        float(m.step_s(designs, Load.of(0.0, 0.0, n, n / 2))[0]) for n in (1.0, 256.0, 16384.0)
    )

    assert short == pytest.approx(token, rel=0.02)
    assert long > 1.5 * token


@pytest.mark.parametrize(("on_root", "times"), [(1, 0.5), (2, 1.0)])
def test_gpus_of_a_node_each_copy_their_shard(on_root, times):
    """In half the time where each has its own root; together where they share one."""
    one, two = (
        streams(streaming(tp=gpus), superchip(gpus, pcie_gb_per_s=64, gpus_per_pcie_root=min(on_root, gpus)))
        for gpus in (1, 2)
    )

    assert two[0].host_bytes[0] == pytest.approx(one[0].host_bytes[0], rel=1e-3)
    assert two[1]["NVLink-C2C"] == pytest.approx(times * one[1]["NVLink-C2C"], rel=1e-3)


def simulated_s(group: int, run: int, layer: float, copy: float) -> float:
    """A group of layers in the long run, layer by layer and copy by copy: the link copies one after the other
    once the layer that had the buffer is computed; a layer waits for its copy."""
    now, link, computed, ends = 0.0, 0.0, [0.0] * AHEAD, list[float]()
    for _ in range(400):
        for i in range(group):
            if i >= group - run:
                link = max(link, computed[-AHEAD]) + copy
                now = max(now, link)
            now += layer
            if i >= group - run:
                computed.append(now)
        ends.append(now)
    return (ends[-1] - ends[199]) / 200


@given(
    st.integers(1, 12),
    st.integers(0, 11),
    st.floats(0.01, 10.0),
    st.floats(0.01, 10.0),
)
def test_streaming_is_what_a_simulation_of_buffers_says(run, others, layer, copy):
    group = run + others
    said = streaming_s(*(np.array(x) for x in (group * layer, run * layer, run * copy, run)))

    assert float(said) == pytest.approx(simulated_s(group, run, layer, copy), rel=1e-2)


def test_pages_of_a_mapped_file_are_copied_at_the_pageable_rate():
    """The same bytes over PCIe, from memory of 512 GB and from one of 250 with a disk behind it."""
    pinned, mapped = (
        model([ALL_AWAY], at=node(host=HOST.model_copy(update={"memory_gb": gb}), disks=(DISK,)))
        for gb in (512, 250)
    )
    use, designs, load = pinned.use, designs_of([ALL_AWAY]), Load.of(1.0, 1000.0)
    link = [float(m._rates(np.zeros(1, dtype=np.int64)).copied[0]) for m in (pinned, mapped)]

    assert mapped.disk_bytes[0] > 0 == pinned.disk_bytes[0]
    assert link == pytest.approx([use.pcie * 32e9, use.pageable * 32e9])
    assert 0 < use.pageable < use.pcie
    assert mapped.seconds_by(designs, load)["NVMe reads"] > 0


CXL = Tier(kind="cxl", gb=256, read_gb_per_s=25, write_gb_per_s=20)


def test_cxl_memory_adds_its_rate_to_the_hosts():
    """100 and 25 GB/s, all read at once: four fifths of the time."""
    alone, both = model([ALL_AWAY]), model([ALL_AWAY], at=node(disks=(CXL,)))
    designs = designs_of([ALL_AWAY])
    before, after = (
        m.seconds_by(designs, Load.of(1.0, 1000.0))["host memory bandwidth"] for m in (alone, both)
    )

    assert after == pytest.approx(0.8 * before)
    assert both.cxl_bytes[0] == pytest.approx(0.2 * both.host_bytes[0])
    assert (both.sigmas(designs) > alone.sigmas(designs)).all()


def test_streamed_layers_come_as_fast_as_both_memories_and_the_link_let_them():
    """By hand: 0.85 of 10 + 5 GB/s, both read at once, is less than 0.8 of 32."""
    staging = [(HostStage("rtx-4090", 1, (0, 80), group=1, streamed=1),)]
    tier = CXL.model_copy(update={"read_gb_per_s": 5.0})
    at = node(host=HOST.model_copy(update={"gb_per_s": 10.0}), disks=(tier,))
    m = model(staging, "llama-3.1-70b", "vllm", at=at)
    by = m.seconds_by(designs_of(staging), Load.of(1.0, 1000.0))

    assert sum(by.values()) == pytest.approx(m.stream_bytes[0] / (0.85 * 15e9), rel=0.05)
    assert by["host memory bandwidth"] > by["PCIe"] == 0
