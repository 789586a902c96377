"""Unlike GPUs in one tensor-parallel group: equal shares are the cost model's tp, every GPU has its part."""

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from model_zoo import catalog
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.cost.uneven_tp import UnevenModel, designs_of, group
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.replicas.uneven_heads import groups

CARD = catalog.find("qwen3-32b-fp8")[0]


def load(b=16.0, ctx=1000.0, new=0.0, keys=0.0):
    return Load(*(np.array([x]) for x in (b, ctx, new, keys)))


def model(cluster, staging):
    return UnevenModel(CARD, cluster.classes, cluster.links, [staging], "vllm", precisions(CARD))


def test_equal_shares_take_as_long_as_tp_without_its_messages():
    cluster = from_gpus("2xrtx-4090,2xl40s")
    a, b = cluster.classes
    staging = group(a, 2, 2, b, 2, 2, len(CARD.stack))
    m, d = model(cluster, staging), designs_of([staging])
    slower = CostModel(CARD, b, "vllm", precisions(CARD))
    message = m._message(load())
    kernels = slower._stages_s(like(1, 4), load())[0] - 2 * 64 * slower.links.all_reduce_s(
        message, np.array([4])
    )

    assert m._stages_s(d, load())[0] == pytest.approx(kernels + 2 * 64 * m._meet_s(d, message), rel=0.02)
    assert [int(gpus[0]) for _, gpus in m.by_class(d)] == [2, 2]


def test_weights_and_cache_are_divided_by_the_shares():
    cluster = from_gpus("1xrtx-4090,1xrtx-5090")
    staging = group(*cluster.classes[:1], 1, 3, cluster.classes[1], 1, 5, len(CARD.stack))
    m, d = model(cluster, staging), designs_of([staging])
    every = m.memory_by_stage(d, 2048)
    held = [m.cache_bytes(d, np.array([1000.0]), np.array([i]))[0, 0] for i in (0, 1)]

    assert held[1] / held[0] == pytest.approx(5 / 3, rel=1e-6)
    assert every.weights_bytes[0, 1] > every.weights_bytes[0, 0]
    assert every.weights_bytes[0].sum() == pytest.approx(33e9, rel=0.1)


def test_the_faster_gpu_with_more_heads_makes_the_group_faster():
    cluster = from_gpus("1xl4,1xrtx-5090")
    a, b = cluster.classes
    times = []
    for heads in range(1, 8):
        staging = group(a, 1, heads, b, 1, 8 - heads, len(CARD.stack))
        times.append(float(model(cluster, staging)._slowest(designs_of([staging]), load(), _kernels)[0]))

    assert int(np.argmin(times)) + 1 < 4  # the L4 has a sixth of the bandwidth
    assert times[-1] > 2 * min(times)


def _kernels(m, load, tp):
    from planner.cost.uneven_tp import _layers_s

    return _layers_s(m, load, tp)


def test_every_division_uses_all_heads_and_nothing_is_divided_that_has_none():
    found = list(groups(from_gpus("2xrtx-4090,1xrtx-5090").classes, CARD))

    assert found
    assert all(sum(s.heads for s in g) == 8 for g in found)
    assert len({tuple(sorted((s.node_class, s.heads) for s in g)) for g in found}) == len(found)
    assert not list(groups(from_gpus("2xh200,2xh100").classes, catalog.find("deepseek-v3")[0]))


def test_zones_do_not_share_a_group():
    nodes = [Node(device="l4", zone="a"), Node(device="a10g", zone="b")]

    assert not list(groups(resolve(Cluster(nodes=nodes)).classes, CARD))
