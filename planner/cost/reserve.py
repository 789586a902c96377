"""What engines keep of a device's memory beside weights and KV cache: activations, and a reserve by each
one's own rule.

Sources: of each engine in its file (`planner/engines/`). Measured figures carry their thread beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from cluster_configs.schema import Device
from planner.designs.shape import Designs, Floats, Ints
from planner.engines import named
from planner.engines.engine import GIB, Reserving

APPLE_SHARE: Final = 0.75
"""Share of unified memory that Metal lets the GPU wire down by default (`recommendedMaxWorkingSetSize`)."""

UNIFIED_SHARE: Final = 0.9
"""Share of any other unified memory that engines may take, the rest being the system's: assumed."""

COLLECTIVES_BYTES: Final = 1.5 * GIB
"""NCCL channels and the buffers of custom all-reduce, once a replica has more than one GPU: vLLM's non-torch
memory grows by 1.8 GiB from tp 1 to tp 2 (pull 10511), is 2.1 GiB in all at tp 8 on A100, about 1.3 GiB at tp
4 on H100."""

ALL_TO_ALL_BYTES: Final = 1.0 * GIB
"""Token dispatch between attention-dp ranks and experts: DeepEP's buffer as vLLM sizes it (1024 MiB)."""

GRAPH_BYTES: Final = 0.6 * GIB
"""Captured graphs at DEFAULT_SEQUENCES: vLLM logs 0.36 to 0.66 GiB for 51 to 67 sizes; since 0.21 they are
taken out of its share."""

GRAPH_BASE_BYTES: Final = 0.2 * GIB
"""What of it is there with the fewest sizes: vLLM logs 0.13 GiB for 4, 0.31 for 11, 0.22 to 0.55 for 35."""

LARGEST_GRAPH: Final = 512
"""Tokens of the largest graph that vLLM captures by itself; twice its sequences where those are fewer."""

Sequences = int | Floats
"""In flight on one server: of all designs, or of each, shape (n,)."""

DEFAULT_SEQUENCES: Final = 256
"""Sequences in flight a server, where no plan says: vLLM's default below 70 GiB; it has to be set on larger
cards (`default_max_sequences`)."""


def taken(sequences: Sequences | None, index: Ints) -> Sequences | None:
    """Sequences of the designs at `index`, where each has a number of its own; else the one for all."""
    return sequences[index] if isinstance(sequences, np.ndarray) else sequences


def device_bytes(device: Device) -> float:
    """Bytes of one device that a serving engine may use at all: all of it, or a part of unified memory."""
    unified = UNIFIED_SHARE if device.unified_memory else 1.0
    return device.memory_gb * 1e9 * (APPLE_SHARE if device.generation == "apple" else unified)


def default_tokens_per_step(engine: str, device_memory_bytes: float, device: str = "") -> int:
    """Tokens an engine puts into one step unless told: `max_num_batched_tokens`, `chunked_prefill_size`,
    `max_num_tokens`, `n_ubatch`. `device`: its name, where that is known.

    >>> default_tokens_per_step("vllm", 80e9), default_tokens_per_step("vllm", 24e9)
    (8192, 2048)
    >>> default_tokens_per_step("vllm", 80e9, "a100-sxm")
    2048
    """
    return named(engine).tokens_per_step(device_memory_bytes / GIB, device)


def counted_tokens_per_step(engine: str, devices: Iterable[Device]) -> int:
    """Tokens of a step that are counted with unless one says otherwise: the default of the smallest of the
    devices, by memory alone. Where an engine's own for a device by name is less, plans tell it."""
    return min(default_tokens_per_step(engine, device_bytes(device)) for device in devices)


def graph_bytes(engine: str, sequences: Sequences) -> Floats:
    """Bytes of the graphs captured for steps of up to `sequences`, by vLLM's list of sizes; of the others
    nothing is logged. Shape (1,) or (n,).

    >>> (graph_bytes("vllm", np.array([1, 16, 128, 256, 1024])) / GIB).round(2).tolist()
    [0.22, 0.25, 0.47, 0.6, 0.6]
    """
    wanted = np.minimum(2.0 * np.atleast_1d(np.asarray(sequences, dtype=np.float64)), LARGEST_GRAPH)
    if engine != "vllm":
        return np.full(wanted.shape, GRAPH_BYTES)
    by_size = (GRAPH_BYTES - GRAPH_BASE_BYTES) / _sizes(np.array([float(LARGEST_GRAPH)]))
    return np.asarray(GRAPH_BASE_BYTES + by_size * _sizes(wanted))


def _sizes(largest: Floats) -> Floats:
    """How many sizes vLLM captures up to `largest`: 1, 2, 4, every 8 below 256, every 16 from there on."""
    few = (largest[:, None] >= (1, 2, 4)).sum(axis=1)
    return np.asarray(few + np.minimum(largest, 255) // 8 + np.maximum(largest - 240, 0) // 16)


def reserve_bytes(
    engine: str,
    device_memory_bytes: float,
    designs: Designs,
    tokens_per_step: int,
    weights_bytes: Floats,
    activation_bytes: Floats,
    sequences: Sequences = DEFAULT_SEQUENCES,
    share: float = 0.0,
) -> Floats:
    """Bytes per GPU that are neither weights, activations nor KV cache, by the engine's own rule; shape (n,
    stages).

    `weights_bytes` and `activation_bytes`: shape (n, stages). `sequences`: that graphs are captured for;
    SGLang's share counts those of its own default, whatever it is told. `share`: of memory that the
    engine is told, 0 for its own.

    >>> from planner.designs.shape import like
    >>> flat = np.zeros((1, 1))
    >>> kept = reserve_bytes("vllm", 80 * GIB, like(1, 1), 8192, flat, flat)
    >>> round(float(kept[0, 0]) / GIB, 2)
    7.74
    """
    buffers, graphs = _buffers_bytes(designs)[:, None], graph_bytes(engine, sequences)[:, None]
    beside = (weights_bytes, activation_bytes, graphs, buffers)
    own = Reserving(device_memory_bytes, designs, tokens_per_step, *beside, share)
    return named(engine).reserve_bytes(own)


def _buffers_bytes(designs: Designs) -> Floats:
    """Communication buffers per GPU, shape (n,)."""
    wide = (designs.groups > 1) & (designs.ep > 1)
    return COLLECTIVES_BYTES * (designs.gpus > 1) + ALL_TO_ALL_BYTES * wide
