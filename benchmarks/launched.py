"""What the launch line of a run says of its layout and of its experts' kernels.

Rows of 2025 and of early 2026 do not record how experts were divided, and have attention-dp ranks as tensor
parallelism. Launch lines do say it: MiniMax-M2.5 was run on eight H200 with `--enable-expert-parallel`, as
its FP8 blocks cannot be cut into eight, where the row has eight slices of each expert.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Row = Mapping[str, str]

OFF = ("VLLM_USE_FLASHINFER_MOE_FP8=0", "VLLM_MOE_USE_DEEP_GEMM=0")
"""With both of them vLLM takes Triton's kernels for experts in FP8."""


def layout(engine: str, flags: Row) -> dict[str, str]:
    """Columns of a row that hold tp, attention-dp ranks and how experts are divided, as rows write them;
    none without a line.

    >>> line = "vllm serve M --tensor-parallel-size 8 --enable-expert-parallel"
    >>> layout("vllm", {"launch": line, "config": ""})
    {'attn_tp': '8.0', 'attn_dp': '1.0', 'moe_tp': '1.0', 'ep': '8.0'}
    >>> line, told = "trtllm-serve M --tp_size=8 --ep_size=8", "enable_attention_dp: true"
    >>> layout("trtllm", {"launch": line, "config": told})
    {'attn_tp': '1.0', 'attn_dp': '8.0', 'moe_tp': '1.0', 'ep': '8.0'}
    >>> layout("sglang", {"launch": "launch_server --tp=8 --dp 4 --enable-dp-attention", "config": ""})
    {'attn_tp': '2.0', 'attn_dp': '4.0', 'moe_tp': '8.0', 'ep': '1.0'}
    """
    line = flags.get("launch", "")
    if not line:
        return {}
    tp, dp, ep = (_number(line, *names) for names in (TP, DP, EP))
    match engine:
        case "vllm":
            ranks, gpus = dp, tp * dp
            ep = gpus if "--enable-expert-parallel" in line else 1
        case "trtllm":
            ranks, gpus = (tp if "enable_attention_dp: true" in flags["config"] else 1), tp
        case _:
            ranks, gpus = (dp if "--enable-dp-attention" in line else 1), tp
    sizes = {"attn_tp": gpus // ranks, "attn_dp": ranks, "moe_tp": gpus // ep, "ep": ep}
    return {name: str(float(size)) for name, size in sizes.items()}


TP = ("tensor-parallel-size", "tp_size", "tp-size", "tp")
DP = ("data-parallel-size", "dp-size", "dp")
EP = ("expert-parallel-size", "ep_size", "ep-size", "ep")
"""Spellings of an option by engines."""


def _number(line: str, *names: str) -> int:
    """The whole number of an option by any of its names; 1 where it is not there."""
    found = re.search(rf"--(?:{'|'.join(names)})[= ](\d+)", line)
    return int(found[1]) if found else 1


def kernels(flags: Row) -> str:
    """The experts' kernels that a launch line names, as `predict` calls them; blank where it does not.

    >>> kernels({"moe": "TRTLLM"}), kernels({"moe": "flashinfer_trtllm"}), kernels({"env": " ".join(OFF)})
    ('trtllm', 'trtllm', 'triton')
    """
    if all(word in flags.get("launch", "") + flags.get("env", "") for word in OFF):
        return "triton"
    return flags.get("moe", "").lower().removeprefix("flashinfer_")
