"""What the launch line of a run says of its layout and of its experts' kernels.

Rows of 2025 and of early 2026 do not record how experts were divided, and have attention-dp ranks as tensor
parallelism. Launch lines do say it: MiniMax-M2.5 was run on eight H200 with `--enable-expert-parallel`, as
its FP8 blocks cannot be cut into eight, where the row has eight slices of each expert.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.imports.commands import servers

Row = Mapping[str, str]

OFF = ("VLLM_USE_FLASHINFER_MOE_FP8=0", "VLLM_MOE_USE_DEEP_GEMM=0")
"""With both of them vLLM takes Triton's kernels for experts in FP8."""

MARLIN = "VLLM_MXFP4_USE_MARLIN=1"
"""With it vLLM takes Marlin's kernels for experts in MXFP4, where it would take Triton's on Hopper."""

RANKS = "enable_attention_dp: true"
"""In the options of TensorRT-LLM, which rows have as flat text: attention-dp over all its GPUs."""


def layout(flags: Row) -> dict[str, str]:
    """Columns of a row that hold tp, attention-dp ranks and how experts are divided, as rows write them;
    none without a line.

    >>> line = "vllm serve M --tensor-parallel-size 8 --enable-expert-parallel"
    >>> layout({"launch": line, "config": ""})
    {'attn_tp': '8.0', 'attn_dp': '1.0', 'moe_tp': '1.0', 'ep': '8.0'}
    >>> layout({"launch": "trtllm-serve M --tp_size=8 --ep_size=8", "config": RANKS})
    {'attn_tp': '1.0', 'attn_dp': '8.0', 'moe_tp': '1.0', 'ep': '8.0'}
    >>> layout({"launch": "python -m sglang.launch_server --tp=8 --dp 4 --enable-dp-attention", "config": ""})
    {'attn_tp': '2.0', 'attn_dp': '4.0', 'moe_tp': '8.0', 'ep': '1.0'}
    """
    line = flags.get("launch", "")
    if not line:
        return {}
    [server] = servers(line + " --enable_attention_dp" * (RANKS in flags["config"]))
    told, gpus = server.facts, server.gpus
    ranks = told.get("attn_dp") or (told["dp"] if server.engine == "vllm" else 1)
    ep = told["ep"] or 1
    sizes = {"attn_tp": gpus // ranks, "attn_dp": ranks, "moe_tp": gpus // ep, "ep": ep}
    return {name: str(float(size)) for name, size in sizes.items()}


def kernels(flags: Row) -> str:
    """The experts' kernels that a launch line names, as `predict` calls them; blank where it does not.

    >>> kernels({"moe": "TRTLLM"}), kernels({"moe": "flashinfer_trtllm"}), kernels({"env": " ".join(OFF)})
    ('trtllm', 'trtllm', 'triton')
    >>> kernels({"env": MARLIN})
    'marlin'
    """
    told = flags.get("launch", "") + flags.get("env", "")
    if all(word in told for word in OFF):
        return "triton"
    if MARLIN in told:
        return "marlin"
    return flags.get("moe", "").lower().removeprefix("flashinfer_")


CAPTURED = re.compile(r"(?:max-cudagraph-capture-size|cuda-graph-sizes)[=: ]+(\d+)")
"""An option of vLLM, until 0.11 by another name, on its line or in its options."""

PIECES = re.compile(r"capture_num_tokens: \[([\d, ]+)")
"""Of TensorRT-LLM, among options that rows may have cut short."""


def graph_tokens(flags: Row) -> str:
    """Tokens up to which steps with prompts are replayed from graphs, as `predict` has it: blank where a
    launch line leaves it to the engine.

    >>> graph_tokens({"launch": "vllm serve M --max-cudagraph-capture-size 2048"})
    '2048'
    """
    told = f"{flags.get('launch', '')} {flags.get('config', '')}"
    if found := CAPTURED.search(told):
        return found[1]
    pieces = PIECES.search(told)
    return str(max(map(int, re.findall(r"\d+", pieces[1])))) if pieces else ""
