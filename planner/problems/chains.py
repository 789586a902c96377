"""Nodes that each hold some of the layers, and requests that pass several of them: the numbers for
`solvers.placement.served`.

A unit is `tp` GPUs of one node, the widest tp of the class that the model and a node allow; it holds k
layers in a row and serves requests that enter at any of them. Of a unit with k layers: `room` requests
whose cache fits beside k layers (embedding or LM head counted where that leaves less), kept KEPT full as
engines admit on demand; a layer's seconds are those of the mean layer in a step of B sequences at the mean
context, a prompt's those of the mean prompt in one step. Between units an activation takes the scale-up
links of a node, the NICs of a zone, or the declared link of two zones, as if each pair had it for itself;
`Posed.eased` then lets as many requests in as all flows together leave room for. The engine's own seconds a
step are added to every hop.

Runtimes of this kind: Petals (arXiv:2209.01188), Helix (arXiv:2406.01566), Parallax. Rates and latencies
are those of engines' kernels: how much slower such a runtime's are is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import ClusterLink, NodeClass, ResolvedCluster, declared_link
from planner.candidates.ask import Ask
from planner.candidates.mix import Mix
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.designs.shape import Floats, like
from planner.problems.chain_units import KEPT, Posed, Unit
from planner.replicas.stage_points import Bytes, memory_lines
from planner.replicas.unlike_stages import degrees
from solvers.placement.service import Service, seconds_at
from solvers.placement.types import Network

ENGINE = "vllm"
"""Whose kernels and memory a unit is taken to have."""


MOST_UNITS = 64
"""Larger clusters are left out: a sweep takes minutes."""

BATCHES = tuple(float(2**i) for i in range(11))


SAMPLED = 16.0
"""Sequences in a step of the last unit: the LM head's seconds hardly depend on them."""

TOKEN_BYTES = 4.0
"""Bytes of a token's id, which is all that source and sink send."""


def pose(cluster: ResolvedCluster, ask: Ask) -> Posed | None:
    """The numbers of all classes that serve the model; None where those have no units, or more than
    MOST_UNITS."""
    mix = Mix.of(ask.workload)
    tp = {c.id: max(found) for c in cluster.classes if (found := degrees(c, ask, ENGINE))}
    classes = [c for c in cluster.classes if c.id in tp]
    models = {c.id: CostModel(ask.card, c, ENGINE, ask.precisions, ask.calibration) for c in classes}
    budget = {c.id: counted_tokens_per_step(ENGINE, [c.device]) for c in classes}
    layers = len(ask.card.stack)
    memory = {
        c.id: memory_lines(models[c.id], np.array([tp[c.id]]), ENGINE, budget[c.id], mix) for c in classes
    }
    room = {g: holds for g, m in memory.items() if (holds := _room(m, layers))}
    classes = [c for c in classes if c.id in room]  # others are too small for any layer
    models = {c.id: models[c.id] for c in classes}
    counts = {c.id: c.gpus_per_node // tp[c.id] for c in classes}
    if mix.steps == 0 or not 0 < sum(c.node_count * counts[c.id] for c in classes) <= MOST_UNITS:
        return None
    units = tuple(
        Unit(c.id, n, tp[c.id]) for c in classes for n in range(c.node_count) for _ in range(counts[c.id])
    )
    decode = {g: _decode(m, tp[g], mix) for g, m in models.items()}
    prompt_s = {g: _prompt_s(m, tp[g], mix) for g, m in models.items()}
    joined = _Joined(units, {c.id: c for c in classes}, cluster.links, models)
    message = ACTIVATION_BYTES * ask.card.hidden
    none = np.zeros(len(units))
    network = Network(
        layers=layers,
        capacity={g: _capacity(room[g], decode[g], prompt_s[g], mix) for g in models},
        kinds=[u.node_class for u in units],
        link=joined.bytes_per_s / message,
        source=none + min(c.nic_bytes_per_s for c in classes) / TOKEN_BYTES,
        sink=none + min(c.nic_bytes_per_s for c in classes) / TOKEN_BYTES,
    )
    service = Service(
        network=network,
        room=room,
        decode=decode,
        prompt_s=prompt_s,
        prompt=float(mix.new @ mix.share),
        output=mix.steps,
        latency=joined.latency_s,
        from_source=_from_home(units, classes, cluster, room),
        to_sink=_from_home(units, classes, cluster, room)
        + np.array([_sampling_s(models[u.node_class], u.tp) for u in units]),
    )
    return Posed(service, units, models, budget, tp, tuple(_shared(units, classes, cluster, message)))


def _from_home(
    units: Sequence[Unit],
    classes: Sequence[NodeClass],
    cluster: ResolvedCluster,
    room: dict[str, tuple[float, ...]],
) -> Floats:
    """Seconds between each unit and where requests come from and every token returns to: the zone that holds
    most of them."""
    of = {c.id: c for c in classes}
    held: dict[str, float] = {}
    for u in units:
        most = max((k * r for k, r in enumerate(room[u.node_class], start=1)), default=0.0)
        held[of[u.node_class].zone] = held.get(of[u.node_class].zone, 0.0) + most
    home = max(held, key=lambda zone: held[zone])
    gates = [c for c in classes if c.zone == home]

    def away_s(node: NodeClass) -> float:
        links = (x.latency_s for gate in gates for x in cluster.links if x.joins(gate, node))
        return 0.0 if node.zone == home else min(links, default=0.0)

    return np.array([away_s(of[u.node_class]) for u in units])


def _shared(
    units: Sequence[Unit], classes: Sequence[NodeClass], cluster: ResolvedCluster, message: float
) -> Iterator[tuple[float, NDArray[np.bool_]]]:
    """Every declared link, both ways."""
    of = {c.id: c for c in classes}
    home = [of[u.node_class] for u in units]
    for link in cluster.links:
        joins = np.array([[link.joins(a, b) for b in home] for a in home])
        up = np.array([[(a.zone, a.id) < (b.zone, b.id) for b in home] for a in home])
        for over in (joins & up, joins & ~up):
            if over.any():
                yield link.bytes_per_s / message, over


def _room(memory: Bytes, layers: int) -> tuple[float, ...]:
    """Requests that fit beside 1, 2, … layers, as far as any does."""
    free, found = float(memory.free.min()), list[float]()
    for k in range(1, layers + 1):
        left = free - k * float(memory.layer[0])
        if left <= 0:
            break
        found.append(KEPT * left / (k * float(memory.cache[0])))
    return tuple(found)


def _decode(model: CostModel, tp: int, mix: Mix) -> list[tuple[float, float]]:
    """(batch, seconds) of the mean layer where so many sequences get a token."""
    batch = np.array(BATCHES)
    load = Load.of(batch, mix.context)
    return list(zip(BATCHES, model.mean_layer_s(load, like(len(batch), tp)).tolist(), strict=True))


def _prompt_s(model: CostModel, tp: int, mix: Mix) -> float:
    """Seconds of the mean prompt in the mean layer."""
    new = mix.new
    load = Load.of(0.0, 0.0, new, mix.isl - new + new / 2)
    return float(model.mean_layer_s(load, like(len(new), tp)) @ mix.share)


def _sampling_s(model: CostModel, tp: int) -> float:
    """Beside its layers, seconds of a step of the last unit: the engine's own, and the LM head's."""
    return model.tuning.step_s + float(model.layers.head_s(np.array([SAMPLED]), like(1, tp))[0])


def _capacity(
    room: Sequence[float], decode: Sequence[tuple[float, float]], prompt_s: float, mix: Mix
) -> tuple[float, ...]:
    """Decode tokens/s of a unit with 1, 2, … layers where its cache is full, its prompts' time taken off."""
    batch, seconds = np.array(decode).T
    each = [seconds_at(b, batch, seconds) / max(b, 1.0) + prompt_s / mix.steps for b in room]
    return tuple(1 / (k * s) for k, s in enumerate(each, start=1))


class _Joined:
    """Bytes/s and seconds between units, (units, units); no bytes/s where nothing joins them."""

    def __init__(
        self,
        units: Sequence[Unit],
        classes: dict[str, NodeClass],
        links: Sequence[ClusterLink],
        models: dict[str, CostModel],
    ) -> None:
        size = len(units)
        self.bytes_per_s, self.latency_s = np.zeros((size, size)), np.zeros((size, size))
        for i, a in enumerate(units):
            for j, b in enumerate(units):
                if i != j:
                    one, two = classes[a.node_class], classes[b.node_class]
                    host = models[a.node_class].tuning.step_s
                    speed, wait = _way(one, two, a.node == b.node and one is two, links, models)
                    self.bytes_per_s[i, j], self.latency_s[i, j] = speed, wait + host


def _way(
    a: NodeClass, b: NodeClass, same_node: bool, links: Sequence[ClusterLink], models: dict[str, CostModel]
) -> tuple[float, float]:
    """Bytes/s and latency from one unit to another."""
    near = np.array([1])
    if same_node and a.scale_up_gpus >= a.gpus_per_node:
        hop = models[a.id].links
        start = float(hop.hop_s(np.zeros(1), near)[0])
        return 1e9 / max(float(hop.hop_s(np.array([1e9]), near)[0]) - start, 1e-12), start
    far = [float(m.links.hop_s(np.zeros(1), near + m.links.domain)[0]) for m in (models[a.id], models[b.id])]
    nic = min(a.nic_bytes_per_s, b.nic_bytes_per_s)
    link = declared_link(links, a, b)
    if link is not None:
        return min(nic, link.bytes_per_s), link.latency_s + max(far)
    return (nic if a.zone == b.zone else 0.0), max(far)
