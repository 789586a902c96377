"""Placements over several nodes with host memory: as fast as the fastest of all, and sound as plans."""

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ClusterLink, Host, Node, NodeClass
from model_zoo import catalog
from planner.candidates.ask import Ask
from planner.candidates.mix import Promise
from planner.candidates.setup import Setup
from planner.cost.attention import Load
from planner.cost.host import HostStage
from planner.cost.rpc import RPC_S, RpcModel
from planner.designs.precision import precisions
from planner.designs.shape import designs_of
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import THROUGHPUT
from planner.replicas import several_hosts

HOST = Host(memory_gb=64, gb_per_s=80, tflops=2, pcie_gb_per_s=25)


def box(memory_gb: float = 6.0, count: int = 2, **more: object) -> NodeClass:
    form = Node(device="rtx-4090", gpus_per_node=1, count=count, host=HOST, nic_gb_per_s=1.25)
    at = resolve(Cluster(nodes=[form.model_copy(update=more)])).classes[0]
    return replace(at, device=at.device.model_copy(update={"memory_gb": memory_gb}))


def ask(model: str, precision: str | None = None) -> Ask:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=None)
    load = Workload(buckets=[Bucket(isl=1024, osl=256)], slo=slo)
    used = precisions(card, precision)
    return Ask(card, used, ["llama.cpp"], load, Promise.of(slo, "closed"), THROUGHPUT, offload=True)


def steps(s: Setup, sequences: int) -> np.ndarray:
    """Seconds of a decode step of all placements that hold so many, infinite for the others."""
    designs, context = s.designs, s.mix.context
    tokens = np.array([context])
    held = s.model.cache_bytes(designs, tokens, s.memory.stage)[:, 0]
    fits = s.memory.kv_bytes >= sequences * held * (1 - 1e-9)
    return np.where(fits, s.model.step_s(designs, Load.of(float(sequences), context)), np.inf)


def every_cut(at: NodeClass, a: Ask, experts: bool) -> Setup:
    """All ranges on: the server's CPU, the other node's GPU and CPU, the server's GPU; or with all counts of
    its layers whose experts are away."""
    layers, found = len(a.card.stack), []
    for cuts in combinations_with_replacement(range(layers + 1), 3):
        (_, x), (_, y), (_, z), (_, end) = pairwise((0, *cuts, layers))
        if x == y or z == end:
            continue
        for away in range(end - z + 1) if experts and x == 0 else [0]:
            far = HostStage(at.id, 1, (x, y), before=x, node=1, after=z - y)
            found.append((far, HostStage(at.id, 1, (z, end), away)))
    model = RpcModel(a.card, at, [at], [], found, a.precisions)
    return a.setup(model, designs_of(found), [at], several_hosts.TOKENS_PER_STEP)


@pytest.mark.parametrize(
    ("model", "memory_gb", "experts"), [("llama-3.1-8b", 6.0, False), ("gpt-oss-20b", 4.5, True)]
)
def test_no_placement_decodes_faster_than_those_offered(model, memory_gb, experts):
    at, a = box(memory_gb), ask(model)
    every = every_cut(at, a, experts)
    ((_, offered),) = several_hosts.setups([at], [], a)

    for sequences in (1, 4, 32):
        assert steps(offered, sequences).min() <= steps(every, sequences).min() * (1 + 1e-9) < np.inf


def made(
    stagings: list[tuple[HostStage, ...]], at: NodeClass, links: tuple[ClusterLink, ...] = ()
) -> RpcModel:
    a = ask("llama-3.1-8b")
    return RpcModel(a.card, at, [at], links, stagings, a.precisions)


def parts(model: RpcModel) -> dict[str, float]:
    return model.seconds_by(designs_of(model.stagings), Load.of(1.0, 1000.0))


def test_a_layer_takes_as_long_on_the_other_nodes_gpu_and_the_network_beside():
    """All of them on the server's GPU but one, against two: two hops of 4096 values of 4 bytes either way."""
    at = box(24.0)
    one, two = (
        made([(HostStage(at.id, 1, (0, n), node=1), HostStage(at.id, 1, (n, 32)))], at) for n in (1, 2)
    )
    hop = one.hop_to_s(at.id, [], 4 * 4096)

    assert parts(one)["GPU"] == pytest.approx(parts(two)["GPU"])
    assert parts(one)["network"] == pytest.approx(2 * hop + RPC_S) == parts(two)["network"]
    assert hop > 4 * 4096 / 1.25e9


def test_layers_on_the_other_nodes_cpu_read_its_memory_and_cross_twice_more():
    """By hand: 4 layers of 218 M weights of 2 bytes at 0.6 of 80 GB/s, and 1,000 tokens of cache."""
    at = box(24.0)
    away = made([(HostStage(at.id, 1, (0, 4), node=1, after=4), HostStage(at.id, 1, (8, 32)))], at)
    kept = made([(HostStage(at.id, 1, (0, 8), node=1), HostStage(at.id, 1, (8, 32)))], at)
    weights = 4 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336) * 2
    seconds = parts(away)["host memory bandwidth"]

    assert seconds == pytest.approx((weights + 4 * 1000 * 4096) / (0.6 * 80e9), rel=0.01)
    assert parts(away)["network"] == pytest.approx(2 * parts(kept)["network"])
    assert parts(away)["GPU"] == pytest.approx(parts(kept)["GPU"] * 28 / 32, rel=0.1)


def test_a_declared_link_slows_the_way_to_another_zone():
    a, b = box(zone="a"), replace(box(zone="b"), id="far")
    link = ClusterLink(("a", "b"), 1.25e8, 0.004)
    model = RpcModel(
        *(ask("llama-3.1-8b").card, a, [a, b], [link]),
        [(HostStage("far", 1, (0, 4), node=1), HostStage(a.id, 1, (4, 32)))],
        ask("llama-3.1-8b").precisions,
    )

    assert parts(model)["network"] > 2 * 0.004
    assert [name for name, _ in several_hosts.setups([a, b], [], ask("llama-3.1-8b"))] == [a.id, b.id]
    assert all(n == a for n in several_hosts.choices(a, [a])[0])
    assert {n.id for c in several_hosts.choices(a, [a, b]) for n in c} == {a.id, "far"}


def test_each_hosts_memory_holds_what_lies_there():
    at = box(6.0)
    model = made(
        [(HostStage(at.id, 1, (6, 10), before=6, node=1, after=16), HostStage(at.id, 1, (26, 32)))], at
    )
    memory = model.memory_by_stage(designs_of(model.stagings), 512)
    layer = float(model.held.layer[0])

    assert memory.weights_bytes[0, 2:] == pytest.approx([6 * layer, 16 * layer])
    assert memory.kv_bytes[0, 2:] == pytest.approx([0.9 * 64e9 - 6 * layer, 0.9 * 64e9 - 16 * layer])
    assert memory.weights_bytes[0, 0] >= 4 * layer


def test_choices_take_the_fewest_nodes_first():
    many = [len(c) for c in several_hosts.choices(box(count=5), [box(count=5)])]

    assert many == [1, 2, 3, 4]
    assert several_hosts.choices(box(count=1), [box(count=1)]) == []
