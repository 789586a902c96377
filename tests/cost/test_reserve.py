"""What engines reserve for the sequences that a plan lets in: sampling, captured graphs, their own limits."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from cluster_configs import devices
from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.cost import afd_layout, unequal
from planner.cost.afd import AfdModel
from planner.cost.afd_layout import Layout
from planner.cost.host import HostStage
from planner.cost.memory import Memory, device_bytes, room_by_stage
from planner.cost.model import CostModel
from planner.cost.offload import OffloadModel
from planner.cost.reserve import (
    DEFAULT_SEQUENCES,
    GIB,
    GRAPH_BYTES,
    default_tokens_per_step,
    graph_bytes,
)
from planner.cost.rpc import RpcModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Stage, designs_of, like
from planner.errors import InputError
from planner.replicas import uneven_heads
from tests.cost.memory_cases import designs, room
from tests.cost.test_offload import node
from tests.replicas.test_several_hosts import box

LLAMA = catalog.find("llama-3.1-8b")[0]
MOE = catalog.find("qwen3-30b-a3b")[0]


def test_sampling_takes_41_bytes_a_sequence_and_vocabulary_entry_once_that_is_most():
    """By hand, vLLM on the last of two stages: 1024 x 128,256 x 41 B = 5.39 GB; at 16 sequences a step of
    8192 tokens takes more."""
    many, few = (
        room_by_stage(LLAMA, 80 * GIB, designs((1, 2)), precisions(LLAMA), "vllm", 8192, n)
        for n in (1024, 16)
    )

    assert many.activation_bytes[0, 1] == pytest.approx(1024 * 128_256 * 41)
    assert few.activation_bytes[0, 1] == few.activation_bytes[0, 0] == many.activation_bytes[0, 0] < 1.4e9


def test_vllm_captures_as_many_sizes_as_it_logs():
    """Logs: "35/35" sizes up to 256 tokens, "51/51" up to 512, for twice as many sequences."""
    at = graph_bytes("vllm", np.array([128, 256, 1024])) / GIB

    assert at == pytest.approx([0.2 + 0.4 * 35 / 51, 0.6, 0.6])


@pytest.mark.parametrize(
    ("sequences", "sizes"), [(1, 2), (2, 3), (4, 4), (16, 7), (120, 33), (127, 34), (136, 36)]
)
def test_sizes_are_one_two_four_then_by_8_and_by_16(sequences: int, sizes: int):
    held = [i for i in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if i <= 2 * sequences]

    assert len(held) == sizes
    assert graph_bytes("vllm", sequences)[0] / GIB == pytest.approx(0.2 + 0.4 * sizes / 51)


def test_graphs_are_part_of_the_reserve():
    def kept(engine: str, sequences: int) -> float:
        own = (LLAMA, 80 * GIB, designs((1, 1)), precisions(LLAMA), engine, 8192, sequences)
        return float(room(*own).reserve_bytes[0])

    saved = float(GRAPH_BYTES - graph_bytes("vllm", 8)[0])
    assert kept("vllm", 256) - kept("vllm", 8) == pytest.approx(saved) != 0
    assert graph_bytes("trtllm", 8) == GRAPH_BYTES  # nothing is logged
    assert kept("sglang", 8) == kept("sglang", 256)  # its share counts the graphs of its own default


def test_without_a_number_it_is_the_default_s():
    own = (LLAMA, 80 * GIB, designs((1, 2), (2, 1)), precisions(LLAMA), "vllm", 8192)

    assert same(room_by_stage(*own), room_by_stage(*own, DEFAULT_SEQUENCES))
    assert not same(room_by_stage(*own), room_by_stage(*own, 2 * DEFAULT_SEQUENCES))


def same(a: Memory, b: Memory) -> bool:
    return all(np.allclose(getattr(a, f.name), getattr(b, f.name)) for f in fields(Memory)[:5])


def plain() -> tuple[CostModel, Designs]:
    model = CostModel(LLAMA, from_gpus("8xh100").classes[0], "vllm", precisions(LLAMA))
    return model, designs((1, 2), (2, 2), (8, 2))


def stages() -> tuple[CostModel, Designs]:
    cluster = from_gpus("2xh100,2xl40s")
    a, b = (c.id for c in cluster.classes)
    made = [(Stage(a, 1, (0, cut)), Stage(b, 1, (cut, 32))) for cut in (16, 20, 24)]
    own = (LLAMA, cluster.classes, cluster.links, made, "vllm", precisions(LLAMA))
    return unequal.UnequalModel(*own), designs_of(made)


def shares() -> tuple[CostModel, Designs]:
    cluster = from_gpus("1xrtx-4090,1xrtx-5090")
    made = [g for g in uneven_heads.groups(cluster.classes, LLAMA) if g[0].heads in (2, 3, 4)]
    own = (LLAMA, cluster.classes, cluster.links, made, "vllm", precisions(LLAMA))
    return uneven_heads.UnevenModel(*own), uneven_heads.designs_of(made)


def apart() -> tuple[CostModel, Designs]:
    cluster = from_gpus("8xh100,8xh200")
    a, b = (c.id for c in cluster.classes)
    layouts = [Layout(a, b, 1, 4, 1, ep) for ep in (2, 4, 8)]
    model = AfdModel(MOE, cluster.classes, (), layouts, "vllm", precisions(MOE))
    return model, afd_layout.designs_of(layouts)


def beside() -> tuple[CostModel, Designs]:
    made = [(HostStage("rtx-4090", 1, (0, 48), away, 0),) for away in (0, 20, 48)]
    return OffloadModel(MOE, node(), made, "llama.cpp", precisions(MOE)), designs_of(made)


def over_nodes() -> tuple[CostModel, Designs]:
    at = box(24.0)
    made = [(HostStage(at.id, 1, (0, cut), node=1), HostStage(at.id, 1, (cut, 32))) for cut in (4, 8, 16)]
    return RpcModel(LLAMA, at, [at], [], made, precisions(LLAMA)), designs_of(made)


@pytest.mark.parametrize("kind", [plain, stages, shares, apart, beside, over_nodes])
def test_each_design_may_have_a_number_of_its_own(kind):
    """With 4096 sequences sampling takes more than any step here."""
    model, d = kind()
    wanted = np.array([8, 4096, 1000])
    together = model.memory_by_stage(d, 512, wanted)
    whole = model.memory(d, 512, 1000.0, wanted)

    for i, number in enumerate(wanted.tolist()):
        one = d.take(np.array([i]))
        assert same(model.memory_by_stage(one, 512, number), cut(together, i))
        assert same(model.memory(one, 512, 1000.0, number), whole.take(np.array([i])))
    assert same(model.memory_by_stage(d, 512), model.memory_by_stage(d, 512, DEFAULT_SEQUENCES))
    assert not same(model.memory_by_stage(d, 512), together)
    assert not same(model.memory(d, 512, 1000.0), whole)


def cut(memory: Memory, i: int) -> Memory:
    return Memory(*(getattr(memory, f.name)[i : i + 1] for f in fields(Memory)))


def test_engines_take_other_steps_on_devices_they_name():
    names = ("h100-sxm", "a100-sxm", "gb10", "b200-sxm", "l4")
    sizes = [default_tokens_per_step("vllm", device_bytes(devices.find(n)), n) for n in names]

    assert sizes == [8192, 2048, 2048, 16384, 2048]
    assert default_tokens_per_step("sglang", device_bytes(devices.find("a100-sxm")), "a100-sxm") == 8192


def test_an_unknown_engine_has_no_limits():
    with pytest.raises(InputError, match="unknown engine"):
        default_tokens_per_step("tgi", 80e9)


def test_one_design_s_memory_by_hand():
    """Llama-3.1-8B on one H100: 0.92 of 79.2 GiB less graphs of 15 sizes, weights, a step of 8192 tokens."""
    one = like(1, 1)
    memory = room(LLAMA, 80 * GIB, one, precisions(LLAMA), "vllm", 8192, 48)

    left = (
        0.92 * 79.2 - (0.2 + 0.4 * 15 / 51) - memory.weights_bytes[0] / GIB - memory.activation_bytes[0] / GIB
    )
    assert memory.kv_bytes[0] / GIB == pytest.approx(left)
