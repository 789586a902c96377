"""Layouts and kernels as launch lines of public runs say them."""

from __future__ import annotations

import pytest

from benchmarks.launched import OFF, graph_tokens, kernels, layout
from benchmarks.truth import clean_rows


@pytest.mark.parametrize(
    ("line", "config", "sizes"),
    [
        ("vllm serve M --tensor-parallel-size 8 --enable-expert-parallel", "", (8, 1, 1, 8)),
        ("vllm serve M --tensor-parallel-size=4", "", (4, 1, 4, 1)),
        ("vllm serve M --data-parallel-size 8 --enable-expert-parallel", "", (1, 8, 1, 8)),
        ("trtllm-serve M --tp_size=8 --ep_size=8", "enable_attention_dp: true", (1, 8, 1, 8)),
        ("trtllm-serve M --tp_size=8 --ep_size=2", "enable_attention_dp: false", (8, 1, 4, 2)),
        ("python3 -m sglang.launch_server --tp=8 --dp 4 --enable-dp-attention", "", (2, 4, 8, 1)),
        ("python3 -m sglang.launch_server --tp 8 --ep-size 8", "", (8, 1, 1, 8)),
    ],
)
def test_a_launch_line_says_how_ranks_and_experts_are_divided(line, config, sizes):
    found = layout({"launch": line, "config": config})

    assert found == dict(
        zip(("attn_tp", "attn_dp", "moe_tp", "ep"), map(str, map(float, sizes)), strict=True)
    )


def test_without_a_line_a_row_keeps_its_layout():
    assert layout({}) == layout({"launch": "", "config": ""}) == {}


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({"moe": "TRTLLM"}, "trtllm"),
        ({"moe": "flashinfer_trtllm"}, "trtllm"),
        ({"env": " ".join(OFF), "launch": "vllm serve M"}, "triton"),
        ({"env": OFF[0]}, ""),
        ({}, ""),
    ],
)
def test_kernels_are_called_as_predict_calls_them(flags, name):
    assert kernels(flags) == name


def test_minimax_on_eight_h200_was_run_with_whole_experts_on_each():
    """Eight slices of an expert would cut its FP8 blocks."""
    try:
        rows = clean_rows()
    except FileNotFoundError:
        pytest.skip("no measurements beside the repository")
    wide = [
        r
        for r in rows
        if r["family"] == "MiniMax-M2.5" and float(r["attn_tp"]) == 8 and r["moe_quant_mode"] == "fp8"
    ]

    assert {r["ep"] for r in wide} == {"8.0"}


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({"launch": "vllm serve M --max-cudagraph-capture-size 2048"}, "2048"),
        (
            {"launch": "vllm serve M", "config": "max-cudagraph-capture-size: 1024 max-model-len: 10240"},
            "1024",
        ),
        ({"launch": "vllm serve M", "config": "cuda-graph-sizes: 2048"}, "2048"),
        ({"config": "torch_compile_config: capture_num_tokens: [1, 256, 8192, 8320] enable_piecew"}, "8320"),
        ({"launch": "vllm serve M"}, ""),
        ({}, ""),
    ],
)
def test_a_launch_line_says_which_prompts_are_replayed(flags, tokens):
    assert graph_tokens(flags) == tokens
