"""llama.cpp's command line for a replica. Flags and their meaning: the READMEs of tools/server and tools/rpc
at 0c1e5709; issues 15263 and 15136 (`--n-cpu-moe` takes the first layers, which lie on the first GPU, so
experts are named here layer by layer and `--tensor-split` gives every device its layers).

Of several nodes the last runs the server, the others an `rpc-server` each; layers go to devices in the order
of `--device`: those of the other nodes, their CPUs where layers lie in host memory there, then its own GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planner.launch.server import Server, node_sizes, vendor_of
from planner.plans.schema import Launch

PORT: Final = 8080
RPC_PORT: Final = 50052
RPC_HOSTS: Final = "$RPC_HOSTS"
"""Addresses of the other nodes' servers, in their order, by commas."""

CACHE: Final = {"bf16": "f16", "fp8": "q8_0"}
NAMES: Final = {"nvidia": "CUDA{}", "amd": "ROCm{}", "apple": "MTL{}", "intel": "SYCL{}"}
"""As its backends call their devices (`--list-devices`)."""


def line(s: Server) -> Launch:
    """One slot a sequence; the context is that of all slots together. Nothing is shrunk to fit."""
    r = s.replica
    before, end = r.stages[0].layers[0], r.stages[-1].layers[1]
    words = ["llama-server", "--model", "$MODEL_GGUF", "--alias", s.model, "--port", str(PORT)]
    if s.nodes > 1:
        words += _over_nodes(s)
    else:
        words += ["--n-gpu-layers", str(end - before + 1), "--split-mode", "layer"]
        words += ["--tensor-split", _split(s.layers)] if r.pp > 1 else []
    words += ["--ctx-size", str(s.max_len * r.max_batch), "--parallel", str(r.max_batch)]
    words += ["--ubatch-size", str(r.max_batched_tokens or 512)]
    words += ["--batch-size", str(max(r.max_batched_tokens or 512, 2048)), "--flash-attn", "on"]
    words += ["--cache-type-k", CACHE.get(s.kv, "f16"), "--cache-type-v", CACHE.get(s.kv, "f16")]
    words += ["--fit", "off"]
    experts = {i for part in s.beside if part.what == "experts" for a in part.layers for i in range(*a)}
    away = sorted(i for i in experts if i >= before)
    if away:
        words += ["--override-tensor", rf"blk\.({'|'.join(map(str, away))})\.ffn_.*_exps\.=CPU"]
    if s.beside and not any(part.tier == "nvme" for part in s.beside):
        words += ["--load-mode", "none"]
    if s.kept_bytes:
        words += ["--cache-ram", str(math.ceil(s.kept_bytes / 2**20))]
    words += s.draft_option.split()
    notes = ["MODEL_GGUF is the model's file in GGUF, in the plan's precision"]
    others = [_rpc_server(s, own) for own in _sites(s)[:-1]]
    if others:
        notes.append("RPC_HOSTS are the addresses of the other nodes' rpc-servers, which start before it")
    return Launch(argv=words, engine_versions="0c1e5709 (2026) and later", notes=notes, ranks=others)


def _sites(s: Server) -> list[list[int]]:
    """Stages by the nodes that they stand on, a GPU a stage; the server's are the last."""
    found: dict[tuple[str, ...], list[int]] = {}
    for i, stage in enumerate(s.replica.stages):
        found.setdefault((stage.node_class, *stage.nodes), []).append(i)
    sizes = node_sizes(s.plan)
    whole = [
        own[at : at + size]
        for (name, *_), own in found.items()
        for size in [sizes[name]]
        for at in range(0, len(own), size)
    ]
    return sorted(whole, key=max)


def _over_nodes(s: Server) -> list[str]:
    """Layers go to the server's CPU, to remote devices and to its GPUs in this order."""
    home, sizes = _sites(s)[-1], list[int]()
    for i, layers in enumerate(s.layers):
        behind = [p for p in s.beside if p.stage == i and p.what == "layers" and p.tier == "host"]
        sizes += [layers, *(b - a for p in behind for a, b in p.layers)]
    devices = [*(f"RPC{i}" for i in range(len(sizes) - len(home))), *_gpus(s, home)]
    words = ["--rpc", RPC_HOSTS, "--device", ",".join(devices)]
    return [*words, "--n-gpu-layers", str(sum(sizes) + 1), "--tensor-split", _split(sizes)]


def _rpc_server(s: Server, own: Sequence[int]) -> list[str]:
    """What another node starts: its GPUs and, where layers lie in its memory, its CPU."""
    devices = [*_gpus(s, own), *["CPU"] * any(part.stage in own for part in s.beside)]
    return ["rpc-server", "--host", "0.0.0.0", "--port", str(RPC_PORT), "--device", ",".join(devices)]


def _gpus(s: Server, stages: Sequence[int]) -> list[str]:
    """As llama.cpp calls the GPUs of a node."""
    vendor = vendor_of(s.plan, s.replica.stages[stages[0]])
    return [NAMES[vendor].format(i) for i in range(len(stages))]


def _split(sizes: Sequence[int]) -> str:
    """Layers by device; the output counts as one more, on the last."""
    return ",".join(map(str, [*sizes[:-1], sizes[-1] + 1]))
