"""Experts, domain → numbers: GPUs with slots, nodes and speeds; what a copy of an expert weighs and takes.

Where GPUs differ, a GPU's speed is its memory bandwidth, over the fastest one's: decode reads experts'
weights, and its time is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.reading import from_gpus
from model_zoo.derive import precision_bytes
from model_zoo.matrices import expert_gemms
from model_zoo.schema import ModelCard, MoeFfn
from planner.errors import Infeasible, InputError
from planner.inputs.expert_loads import ExpertLoads
from solvers.experts.types import Place

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
USUAL_NODE = 8


@dataclass(frozen=True)
class Gpus:
    """`slots`, `node`, `speed` (gpus,); `intra`, `nic` (gpus,) bytes/s, None where no device is named."""

    what: str
    slots: Ints
    node: Ints
    speed: Floats
    intra: Floats | None = None
    nic: Floats | None = None

    @property
    def count(self) -> int:
        return len(self.slots)

    @property
    def nodes(self) -> int:
        return int(self.node.max()) + 1

    @property
    def alike(self) -> bool:
        return len(set(zip(self.slots.tolist(), self.speed.tolist(), strict=True))) == 1


@dataclass(frozen=True)
class _Part:
    """GPUs of one part of --gpus: sizes of its nodes, and of its device (None: not named) what each has."""

    nodes: list[int]
    memory: float | None = None
    intra: float | None = None
    nic: float | None = None

    @property
    def gpus(self) -> int:
        return sum(self.nodes)


def read_gpus(text: str, per_node: int | None, slots: str | None, experts: int) -> Gpus:
    """`text`: "32", or "8xH100,8xH20"; `slots`: "9", or one number a part. Raises InputError.

    >>> read_gpus("2xH100,2xH20", None, "5,3", 16).slots.tolist()
    [5, 5, 3, 3]
    """
    names = [part.strip() for part in text.split(",")]
    parts = [_part(name, per_node) for name in names]
    if len(parts) > 1 and any(part.memory is None for part in parts):
        raise InputError(f"--gpus `{text}` has a part without a GPU's name", "--gpus", "8xH100,8xH20, or 16")
    sizes = [size for part in parts for size in part.nodes]
    count = np.array([part.gpus for part in parts])
    each = _slots(slots, names, int(count.sum()), experts)
    memory = np.array([part.memory or 1.0 for part in parts])
    linked = all(part.intra is not None for part in parts)
    gpus = Gpus(
        what=text if linked else f"{count.sum()} GPUs",
        slots=np.repeat(each, count),
        node=np.repeat(np.arange(len(sizes)), sizes),
        speed=np.repeat(memory / memory.max(), count),
        intra=np.repeat([part.intra or 0.0 for part in parts], count) if linked else None,
        nic=np.repeat([part.nic or 0.0 for part in parts], count) if linked else None,
    )
    if (room := int(gpus.slots.sum())) < experts:
        least = -(-experts // gpus.count)
        message = f"{experts} experts want {experts} slots, and {gpus.count} GPUs have {room}"
        raise InputError(message, "--slots", f"give at least {least} slots a GPU")
    return gpus


def _part(name: str, per_node: int | None) -> _Part:
    if not name.isdecimal():
        classes = from_gpus(name).classes
        first = classes[0]
        sizes = [c.gpus_per_node for c in classes for _ in range(c.node_count)]
        if per_node is not None:
            sizes = _nodes(sum(sizes), per_node)
        memory = first.device.memory_gb_per_s
        return _Part(sizes, memory, first.intra_bytes_per_s, first.nic_bytes_per_s)
    count = int(name) if len(name) < 6 else 0
    if not 1 <= count <= 10_000:
        raise InputError(f"--gpus must be a number from 1 to 10,000, got {name[:20]}", "--gpus")
    return _Part(_nodes(count, min(count, USUAL_NODE) if per_node is None else per_node))


def _nodes(count: int, per_node: int) -> list[int]:
    if count % per_node:
        whole = ", ".join(str(n) for n in range(1, min(count, 64) + 1) if count % n == 0)
        message = f"{count} GPUs do not divide into nodes of {per_node}"
        raise InputError(message, "--gpus-per-node", f"one of {whole}")
    return [per_node] * (count // per_node)


def _slots(text: str | None, parts: Sequence[str], gpus: int, experts: int) -> Ints:
    """Slots of a GPU of each part."""
    if text is None:
        return np.full(len(parts), -(-experts // gpus))
    given = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= experts for part in given):
        hint = "experts of one layer that a GPU holds: 9, or 9,5 for two kinds of GPU"
        raise InputError(f"--slots must be from 1 to {experts} a GPU, got {text[:40]}", "--slots", hint)
    if len(given) not in (1, len(parts)):
        raise InputError(f"--slots has {len(given)} numbers, and --gpus {len(parts)} parts", "--slots")
    return np.array([int(part) for part in given] * (len(parts) // len(given)), dtype=np.int64)


def groups_of(groups: int, experts: int, gpus: Gpus, whole: bool) -> Ints:
    """The group of each expert: equal runs of them. Raises InputError where they don't divide; where they
    stay `whole` on nodes, too, and Infeasible where they don't fit."""
    if experts % groups:
        hint = "the model's `n_group`"
        raise InputError(f"{experts} experts do not divide into {groups} groups", "--groups", hint)
    each = experts // groups
    if not whole:
        return np.arange(experts) // each
    hint = "without --groups, experts of a group may be on any node"
    if groups < gpus.nodes:
        message = f"{groups} groups cannot be kept whole on {gpus.nodes} nodes, and none be empty"
        raise InputError(message, "--groups", hint)
    if (np.bincount(gpus.node, gpus.slots) // each).sum() < groups:
        room = int(np.bincount(gpus.node, gpus.slots).min())
        message = f"{groups} groups of {each} experts do not fit whole on {gpus.nodes} nodes of {room} slots"
        raise Infeasible(message, "--groups", f"more --slots; {hint}")
    return np.arange(experts) // each


def moe_layers(card: ModelCard) -> tuple[int, ...]:
    """Numbers of the layers that have experts."""
    return tuple(i for i, layer in enumerate(card.stack) if isinstance(layer.ffn, MoeFfn))


def of_model(loads: ExpertLoads, card: ModelCard, path: str) -> ExpertLoads:
    """Loads with the layer numbers of the model. Raises InputError where they are another model's."""
    layers = moe_layers(card)
    if not layers:
        raise InputError(f"{card.name} has no experts", "--model", "its plans need no loads")
    count, experts = loads.tokens.shape[1:]
    if loads.layers is None and count != len(layers):
        own = "/".join(
            str(n) for n in sorted({f.experts for f in card.ffns.values() if isinstance(f, MoeFfn)})
        )
        message = f"loads of {count} layers of {experts} experts, but {card.name} has {len(layers)} of {own}"
        raise InputError(message, path, "one row for each layer with experts")
    named = loads.layers or layers
    if strange := sorted(set(named) - set(layers)):
        raise InputError(f"layer {strange[0]} of {card.name} has no experts, and the loads have some", path)
    for layer in named:
        ffn = card.stack[layer].ffn
        assert isinstance(ffn, MoeFfn)
        if ffn.experts != experts:
            message = f"layer {layer}: {card.name} has {ffn.experts} experts, and the loads {experts}"
            raise InputError(message, path, "the loads are of another model")
    return replace(loads, layers=named)


def expert_bytes(card: ModelCard, layer: int) -> float:
    """Bytes of one expert of a layer, as the checkpoint stores it.

    >>> from model_zoo.catalog import load
    >>> round(expert_bytes(load("deepseek-v3"), 3) / 1e6, 2)
    44.05
    """
    ffn = card.stack[layer].ffn
    own = ffn.precision if ffn is not None else {}
    kinds = [(gemm, own.get(gemm.name, card.weights.experts)) for gemm in expert_gemms(ffn, card.hidden)]
    return float(sum(gemm.params * precision_bytes(kind, card.weights) for gemm, kind in kinds))


def linear(gpus: Gpus, experts: int) -> Place:
    """The engines' own start: experts in order over the slots, then the first ones again.

    Source: SGLang `init_trivial`, vLLM `build_initial_global_physical_to_logical_map`.
    """
    ends = np.cumsum(gpus.slots)
    return [
        [int(e) % experts for e in range(end - size, end)]
        for end, size in zip(ends, gpus.slots, strict=True)
    ]  # fmt: skip


def time_over_mean(load: Floats, place: Place, speed: Floats) -> Floats:
    """Time of each GPU (gpus,) over that of all of them as one, `load` (experts,)."""
    experts = np.array([e for gpu in place for e in gpu])
    owner = np.repeat(np.arange(len(place)), [len(gpu) for gpu in place])
    each = load / np.maximum(np.bincount(experts, minlength=len(load)), 1)
    carried = np.bincount(owner, each[experts], len(place))
    return np.asarray(carried / speed * speed.sum() / load.sum())


def nodes_per_token(tokens: Ints, place: Place, node: Ints, experts: int) -> float:
    """Nodes that a sampled token visits, its expert's replicas equally likely."""
    on = np.zeros((experts, int(node.max()) + 1))
    for gpu, held in enumerate(place):
        np.add.at(on, (held, node[gpu]), 1.0)
    stay = 1 - on / on.sum(1, keepdims=True)
    return float(on.shape[1] - np.prod(stay[tokens], axis=1).sum(1).mean())
