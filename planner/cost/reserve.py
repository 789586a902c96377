"""What engines keep of a device's memory beside weights and KV cache: activations, and a reserve by each
one's own rule.

Sources: vLLM 0.33 config/cache.py and v1/worker/utils.py (share of total memory, default 0.92),
engine/arg_utils.py (tokens a step, sequences), config/vllm.py (graphs); SGLang 0.5.23
arg_groups/memory_hook.py (share computed from memory, chunk, graphs, GPUs), model_runner (requests);
TensorRT-LLM commands/serve.py (0.9 of what is free after weights and buffers, batch of 2048); llama.cpp
server README (margin of 1024 MiB a device, micro-batch of 512) and server.cpp (slots). Measured figures carry
their thread beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

import numpy as np

from cluster_configs.schema import Device
from planner.cost.shape import Designs, Floats, Ints
from planner.errors import InputError

Engine = Literal["vllm", "sglang", "trtllm", "llama.cpp"]
ENGINES: Final = get_args(Engine)

GIB: Final = 2.0**30
MIB: Final = 2.0**20

VISIBLE_SHARE: Final = 0.99
"""Of the memory on the label, what a process can allocate: vLLM logs 79.2 of 80 GiB on A100 and H100 (pull
10511)."""

APPLE_SHARE: Final = 0.75
"""Of unified memory, what Metal lets the GPU wire down by default (`recommendedMaxWorkingSetSize`)."""

UNIFIED_SHARE: Final = 0.9
"""Of any other unified memory: the rest is the system's and the CPU's. Assumed."""

CONTEXT_BYTES: Final = 0.5 * GIB
"""CUDA or HIP context and loaded kernels of one process."""

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

VLLM_SHARE: Final = 0.92
"""`--gpu-memory-utilization`: weights, activations, graphs and KV as a share of total memory (0.90 until
0.11)."""

TRTLLM_FREE_SHARE: Final = 0.9
"""`free_gpu_memory_fraction`: KV cache as a share of what weights and buffers leave."""

LLAMA_CPP_MARGIN_BYTES: Final = 1.0 * GIB
"""`--fit-target`: left free on every device."""

BLOCK_TOKENS: Final[dict[str, int]] = {"vllm": 16, "sglang": 1, "trtllm": 32, "llama.cpp": 1}
"""Tokens of a block of the paged cache (`--block-size`, `--page-size`, `tokens_per_block`, cells). The last
block of a sequence is half empty on average."""

LOGIT_BYTES: Final[dict[str, float]] = {"vllm": 41.0, "sglang": 12.0, "trtllm": 12.0, "llama.cpp": 4.0}
"""Bytes a (sequence, vocabulary entry) of sampling, whole on every rank of the last stage. vLLM profiles
top-k and top-p at once, which sorts in fp32 with 64-bit indices: 1.26 GiB at 256 sequences x 128,256, the
same at tp 1 and 2 (pull 10511), and the 6 GiB at 1024 x 151,936 that issue 21348 misses. Others: fp32 logits,
probabilities and a copy; fp32."""

Sequences = int | Floats
"""In flight on one server: of all designs, or of each, shape (n,)."""

DEFAULT_SEQUENCES: Final = 256
"""Sequences in flight a server, where no plan says: vLLM's default below 70 GiB; it has to be set on larger
cards (`default_max_sequences`)."""

SMALL_STEPS: Final = ("a100", "gb10")
"""Devices with 70 GiB and more to which vLLM gives the defaults of smaller ones, by a part of their names."""


def taken(sequences: Sequences | None, index: Ints) -> Sequences | None:
    """Of the designs at `index`."""
    return sequences[index] if isinstance(sequences, np.ndarray) else sequences


def known_engine(engine: str) -> str:
    """`engine`, or an InputError that lists those known."""
    if engine not in ENGINES:
        raise InputError(f"unknown engine `{engine}`", hint=f"one of: {', '.join(ENGINES)}")
    return engine


def device_bytes(device: Device) -> float:
    """Bytes of one device that a serving engine may use at all: all of it, or a part of unified memory."""
    unified = UNIFIED_SHARE if device.unified_memory else 1.0
    return device.memory_gb * 1e9 * (APPLE_SHARE if device.generation == "apple" else unified)


def default_tokens_per_step(engine: str, device_memory_bytes: float, device: str = "") -> int:
    """Tokens an engine puts into one step unless told: `max_num_batched_tokens`, `chunked_prefill_size`,
    `max_num_tokens`, `n_ubatch`. `device`: its name, where that is known (SMALL_STEPS).

    >>> default_tokens_per_step("vllm", 80e9), default_tokens_per_step("vllm", 24e9)
    (8192, 2048)
    >>> default_tokens_per_step("vllm", 80e9, "a100-sxm")
    2048
    """
    gib = device_memory_bytes / GIB
    if engine == "vllm":
        return 2048 if _small(gib, device) else 16384 if gib >= 160 else 8192
    if engine == "sglang":
        return 2048 if gib < 20 else 4096 if gib < 60 else 8192 if gib < 160 else 16384
    return {"trtllm": 8192, "llama.cpp": 512}[known_engine(engine)]


def counted_tokens_per_step(engine: str, devices: Iterable[Device]) -> int:
    """Tokens of a step that are counted with unless one says otherwise: the default of the smallest of the
    devices, by memory alone. Where an engine's own for a device by name is less, plans tell it."""
    return min(default_tokens_per_step(engine, device_bytes(device)) for device in devices)


def default_max_sequences(engine: str, device_memory_bytes: float, device: str = "") -> int:
    """Sequences that one server has in flight at most unless told: vLLM's `--max-num-seqs` by memory,
    SGLang's `--max-running-requests` (2048 at least, 4096 at most, by its cache), TensorRT-LLM's
    `--max_batch_size`, llama.cpp's `--parallel` (auto). More has to be asked for; so has less, where memory
    was counted for less. `device`: its name, where that is known (SMALL_STEPS).

    >>> default_max_sequences("vllm", 80e9), default_max_sequences("vllm", 80e9, "a100-sxm")
    (1024, 256)
    """
    if engine == "vllm":
        return 256 if _small(device_memory_bytes / GIB, device) else 1024
    return {"sglang": 2048, "trtllm": 2048, "llama.cpp": 4}[known_engine(engine)]


def _small(gib: float, device: str) -> bool:
    """Whether vLLM takes its defaults for small devices."""
    return gib < 70 or any(name in device for name in SMALL_STEPS)


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
) -> Floats:
    """Bytes per GPU that are neither weights, activations nor KV cache, by the engine's own rule; shape (n,
    stages).

    `weights_bytes` and `activation_bytes`: shape (n, stages). `sequences`: that graphs are captured for;
    SGLang's share counts those of its own default, whatever it is told.

    >>> from planner.cost.shape import like
    >>> flat = np.zeros((1, 1))
    >>> kept = reserve_bytes("vllm", 80 * GIB, like(1, 1), 8192, flat, flat)
    >>> round(float(kept[0, 0]) / GIB, 2)
    7.74
    """
    buffers, graphs = _buffers_bytes(designs)[:, None], graph_bytes(engine, sequences)[:, None]
    visible = VISIBLE_SHARE * device_memory_bytes
    used = weights_bytes + activation_bytes
    if (
        known_engine(engine) == "vllm"
    ):  # the context lies outside vLLM's share: its measurement starts after it
        return np.broadcast_to(device_memory_bytes - VLLM_SHARE * visible + buffers + graphs, used.shape)
    if engine == "llama.cpp":
        kept = device_memory_bytes - visible + CONTEXT_BYTES + LLAMA_CPP_MARGIN_BYTES
        return np.full(used.shape, kept)
    free = visible - CONTEXT_BYTES - buffers
    if engine == "trtllm":
        left = free - graphs - used
        return device_memory_bytes - used - np.minimum(left, TRTLLM_FREE_SHARE * left)
    pool = free * _sglang_share(device_memory_bytes, designs, tokens_per_step)[:, None]
    pool = np.minimum(pool, free - graphs - activation_bytes)  # activations live outside SGLang's pool
    return device_memory_bytes - pool - activation_bytes


def _buffers_bytes(designs: Designs) -> Floats:
    """Communication buffers per GPU, shape (n,)."""
    wide = (designs.groups > 1) & (designs.ep > 1)
    return COLLECTIVES_BYTES * (designs.gpus > 1) + ALL_TO_ALL_BYTES * wide


def _sglang_share(device_memory_bytes: float, designs: Designs, tokens_per_step: int) -> Floats:
    """SGLang's `--mem-fraction-static` when it is unset, shape (n,): total less 512 MiB, 1.5 MiB a chunk
    token, 2 MiB a sequence of the largest decode graph and 1024 MiB x GPUs / 8; at least 10 GiB kept on
    devices above 60 GiB."""
    gib = device_memory_bytes / GIB
    gpus = designs.gpus
    small, large = (8, 8) if gib < 20 else (48, 160) if gib < 60 else (256, 512)
    graph = np.where(gpus < 4, small, large)
    kept = MIB * (512 + 1.5 * max(tokens_per_step, 2048) + 2 * graph + 1024 * gpus / 8)
    kept = np.maximum(kept, 10 * GIB) if gib > 60 else kept
    return 1 - np.minimum(kept / device_memory_bytes, 0.9)
