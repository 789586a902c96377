"""Rows of designs that the planner does not offer are answered, and say why it does not."""

from __future__ import annotations

import pytest

from planner.predict.predictions import Prediction, predict_rows

ROW = {"isl": "1024", "osl": "256", "concurrency": "16", "precision": ""}


def note(**cells: str) -> str:
    (answer,) = predict_rows([{**ROW, **cells}])
    assert isinstance(answer, Prediction)
    assert answer.memory_bytes_per_gpu > 0
    return answer.note


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (
            {
                "model": "qwen3-235b-a22b-fp8",
                "device": "h200-sxm",
                "engine": "trtllm",
                "tp": "2",
                "attn_dp": "4",
            },
            "TensorRT-LLM's attention dp takes all ranks: tp must be 1",
        ),
        (
            {"model": "qwen3-235b-a22b-fp8", "device": "h200-sxm", "engine": "vllm", "tp": "8", "ep": "2"},
            "vLLM's expert parallelism is a switch: ep is 1 or 8",
        ),
        (
            {"model": "qwen3-8b", "device": "rtx-4090", "engine": "llama.cpp", "role": "decode"},
            "llama.cpp has no prefill and decode servers (server README)",
        ),
        (
            {
                "model": "llama-3.1-70b",
                "device": "h100-sxm",
                "engine": "vllm",
                "tp": "4",
                "pp": "2",
                "role": "decode",
            },
            "vLLM's NIXL connectors take no decode server with pp=2 (issue 52913, pull 45880)",
        ),
        (
            {"model": "gpt-oss-20b", "device": "a100-sxm", "engine": "sglang", "engine_version": "0.5.6"},
            "sglang has no mxfp4 weights on a100-sxm (ampere)",
        ),
    ],
)
def test_a_design_that_the_planner_does_not_offer_is_marked_with_the_reason(cells, why):
    assert f"the planner offers no such design: {why}" in note(**cells)


@pytest.mark.parametrize(
    "cells",
    [
        {
            "model": "qwen3-235b-a22b-fp8",
            "device": "h200-sxm",
            "engine": "trtllm",
            "tp": "1",
            "attn_dp": "8",
            "ep": "8",
        },
        {
            "model": "llama-3.1-70b",
            "device": "h100-sxm",
            "engine": "vllm",
            "tp": "4",
            "role": "prefill",
            "pp": "2",
        },
        {"model": "llama-3.1-8b", "device": "l4", "engine": "sglang"},
    ],
)
def test_others_are_not(cells):
    assert "offers no" not in note(**cells)
