"""llama.cpp's command line for a replica. Flags and their meaning: the server's README at 0c1e5709; issues
15263 and 15136 (`--n-cpu-moe` takes the first layers, which lie on the first GPU, so experts are named here
layer by layer and `--tensor-split` gives every GPU its layers)."""

from __future__ import annotations

import math
from typing import Final

from planner.launch.server import Server
from planner.plans.schema import Launch

PORT: Final = 8080
CACHE: Final = {"bf16": "f16", "fp8": "q8_0"}


def line(s: Server) -> Launch:
    """One slot a sequence; the context is that of all slots together. Nothing is shrunk to fit."""
    r = s.replica
    before, end = r.stages[0].layers[0], r.stages[-1].layers[1]
    words = ["llama-server", "--model", "$MODEL_GGUF", "--alias", s.model, "--port", str(PORT)]
    words += ["--n-gpu-layers", str(end - before + 1), "--split-mode", "layer"]
    if r.pp > 1:
        words += ["--tensor-split", ",".join(map(str, [*s.layers[:-1], s.layers[-1] + 1]))]
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
        words += ["--no-mmap"]
    if s.kept_bytes:
        words += ["--cache-ram", str(math.ceil(s.kept_bytes / 2**20))]
    if r.draft:
        words += r.draft.option.split()
    notes = ["MODEL_GGUF is the model's file in GGUF, in the plan's precision"]
    if s.nodes > 1:
        return Launch(argv=[], notes=["over several nodes: see `Beside the GPUs` of the plan's report"])
    return Launch(argv=words, engine_versions="0c1e5709 (2026) and later", notes=notes)
