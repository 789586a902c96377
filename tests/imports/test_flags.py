"""Words of a command line as the engine's own table has them, and what a version refuses."""

from __future__ import annotations

import pytest

from planner.imports.flags import drift, parsed, refused, versions
from planner.imports.read import read
from planner.imports.rules import refusals


def test_switches_lists_and_values_take_what_follows_them():
    line = parsed(["m", "--enforce-eager", "--api-key", "a", "b", "--port=1", "-ep"], "vllm")

    assert line.words == ["m"]
    assert line.values["--api-key"] == "a b"
    assert (line.values["--port"], line.on("--enable-expert-parallel"), line.unknown) == ("1", True, [])


def test_sglang_takes_short_forms_and_llama_cpp_a_bare_flash_attn():
    short = parsed(["--tp", "8", "--speculative-algo", "EAGLE"], "sglang")
    bare = parsed(["-fa", "-ngl", "99"], "llama.cpp")

    assert short.values == {"--tp-size": "8", "--speculative-algorithm": "EAGLE"}
    assert len(short.notes) == 2
    assert bare.values == {"--flash-attn": "true", "--n-gpu-layers": "99"}


def test_a_version_refuses_what_it_has_not_and_the_newest_says_what_is_gone():
    line = parsed(["m", "--disable-log-requests"], "vllm")

    assert refused(line, "vllm", None) == refused(line, "vllm", "0.11.2") == []
    assert refused(line, "vllm", "0.33.0") == ["vllm 0.33.0 has no flag `--disable-log-requests`"]
    assert drift(line, "vllm") == ["`--disable-log-requests` is gone in vllm 0.33.0"]
    assert drift(parsed(["--enable-dp-attention"], "sglang"), "sglang") == [
        "`--enable-dp-attention` is deprecated in sglang 0.5.23: use `--attn-dp-size <dp-size>`"
    ]


def test_a_misspelt_flag_is_named_with_the_nearest():
    (said,) = refused(parsed(["--tensor-paralel-size", "4"], "vllm"), "vllm", None)

    assert "`--tensor-paralel-size`" in said
    assert "`--tensor-parallel-size`" in said


def test_versions_are_newest_first():
    assert versions("vllm") == ["0.33.0", "0.23.0", "0.11.2"]
    assert versions("sglang") == ["0.5.23", "0.5.13", "0.5.5"]


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("sglang serve --model-path m --tp-size 14 --nnodes 4", "--tp-size 14"),
        ("sglang serve --model-path m --tp-size 8 --attn-dp-size 3", "--attn-dp-size 3"),
        ("sglang serve --model-path m --tp-size 8 --attn-dp-size 8 --dp-size 8", "--dp-size"),
        ("sglang serve --model-path m --dp-size 2 --nnodes 2 --tp-size 8", "--dp-size"),
        ("sglang serve --model-path m --tp-size 8 --ep-size 3", "--ep-size 3"),
        (
            "sglang serve --model-path m --chunked-prefill-size 1000 --page-size 64",
            "--chunked-prefill-size 1000",
        ),
        ("vllm serve m -tp 8 -dcp 3", "--decode-context-parallel-size 3"),
        ("vllm serve m --enable-eplb", "--enable-eplb"),
        ("vllm serve m -dp 9 --data-parallel-size-local 2", "--data-parallel-size-local 2"),
        ("vllm serve m -tp 16 --nnodes 2 --distributed-executor-backend ray", "--nnodes"),
        ("VLLM_PP_LAYER_PARTITION=10,20,30 vllm serve m -pp 2", "the layer partition"),
        ("trtllm-serve m --tp_size 8 --ep_size 3", "--ep_size 3"),
    ],
)
def test_what_an_engine_refuses_is_said_with_the_flag_first(text, flag):
    (said,) = refusals(read(text).groups[0].server)

    assert said.startswith(flag)


def test_what_an_engine_starts_breaks_no_rule():
    for text in (
        "vllm serve m -tp 8 -dcp 8 --enable-expert-parallel --enable-eplb",
        "sglang serve --model-path m --tp-size 16 --nnodes 2 --attn-dp-size 8 --ep-size 16",
        "sglang serve --model-path m --chunked-prefill-size 4096 --page-size 64",
        "trtllm-serve m --tp_size 8 --ep_size 4",
    ):
        assert refusals(read(text).groups[0].server) == []
