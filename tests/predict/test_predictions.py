"""`predict_rows`: every row answered on its own terms."""

import re

import pytest

from planner.errors import InputError
from planner.predict.predictions import ANSWERS, Prediction, cells, predict_rows, usual_node
from planner.predict.rows import expert_split, parse

LLAMA = {"model": "llama-3.1-8b", "device": "h100-sxm", "isl": "1024", "osl": "256", "concurrency": "16"}
ROWS = [
    LLAMA,
    {**LLAMA, "engine": "sglang", "tp": "2", "prefix_hit": "0.5"},
    {**LLAMA, "device": "nope"},
    {**LLAMA, "model": "deepseek-v3", "device": "b200-sxm", "attn_dp": "8", "ep": "8"},
    {**LLAMA, "concurrency": "0"},
]


def test_rows_are_answered_in_order_whatever_their_neighbours():
    together = predict_rows(ROWS)

    assert [isinstance(answer, InputError) for answer in together] == [False, False, True, False, True]
    for row, answer in zip(ROWS, together, strict=True):
        (alone,) = predict_rows([row])
        assert cells(alone) == cells(answer)


def test_a_prediction_lies_inside_its_band():
    for answer in predict_rows([ROWS[0], ROWS[1], ROWS[3]]):
        assert isinstance(answer, Prediction)
        assert 0 < answer.ttft_ms_low < answer.ttft_ms < answer.ttft_ms_high
        assert 0 < answer.tpot_ms_low < answer.tpot_ms < answer.tpot_ms_high
        assert answer.fits


def test_littles_law_holds():
    """requests in flight = rate * (TTFT + (osl - 1) * TPOT), the engine's handling of requests apart."""
    (answer,) = predict_rows([{**LLAMA, "concurrency": "64"}])
    rate = answer.out_tok_per_s / 256

    assert rate * 1e-3 * (answer.ttft_ms + 255 * answer.tpot_ms) == pytest.approx(64, rel=0.15)


def test_more_requests_in_flight_take_longer_each_and_deliver_more():
    few, many = predict_rows([{**LLAMA, "concurrency": c} for c in ("4", "128")])

    assert few.tpot_ms < many.tpot_ms
    assert few.ttft_ms < many.ttft_ms
    assert few.out_tok_per_s < many.out_tok_per_s
    assert few.memory_bytes_per_gpu < many.memory_bytes_per_gpu


def test_a_prefix_found_in_the_cache_shortens_the_first_token():
    none, most = predict_rows([{**LLAMA, "isl": "16000", "prefix_hit": hit} for hit in ("0", "0.9")])

    assert most.ttft_ms < none.ttft_ms


def test_what_does_not_fit_says_what_is_missing():
    """70.6e9 weights of 2 bytes against 85.9 GB; 8e9 of them leave no room for a million tokens."""
    answer, long = predict_rows([{**LLAMA, "model": "llama-3.1-70b"}, {**LLAMA, "isl": "1000000"}])

    assert not answer.fits
    assert re.match(r"does not fit: 6\d\.\d GB a GPU missing; times", answer.note)
    assert answer.memory_bytes_per_gpu > 141e9
    assert not long.fits
    assert long.note.startswith("does not fit: room for one sequence missing; times")


def test_requests_longer_than_the_model_takes_are_noted():
    """131,072 tokens; a server that only prefills holds no answers."""
    lengths = ({"isl": "130816"}, {"isl": "130817"}, {"isl": "131072", "role": "prefill"})
    notes = [answer.note for answer in predict_rows([{**LLAMA, "concurrency": "1", **x} for x in lengths])]

    assert notes == ["", "requests are longer than the model takes (131,072 tokens)", ""]


def test_requests_beyond_the_cache_queue():
    (answer,) = predict_rows([{**LLAMA, "isl": "32000", "concurrency": "500"}])

    assert answer.fits
    assert "queue" in answer.note


@pytest.mark.parametrize(("role", "blank"), [("prefill", "tpot_ms"), ("decode", "ttft_ms"), ("mixed", None)])
def test_a_role_answers_for_its_own_phase(role, blank):
    (answer,) = predict_rows([{**LLAMA, "role": role}])
    empty = {name for name, text in cells(answer).items() if not text} - {"note"}

    assert empty == ({blank, f"{blank}_low", f"{blank}_high"} if blank else set())
    assert answer.out_tok_per_s > 0


def test_fp8_of_a_block_fp8_checkpoint_is_the_checkpoint():
    row = {**LLAMA, "model": "deepseek-v3", "device": "h200-sxm", "tp": "8"}
    stored, asked = predict_rows([row, {**row, "precision": "fp8"}])

    assert stored == asked


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": ""}, "`model` is blank"),
        ({"model": "llama-9"}, "unknown model"),
        ({"engine": "vlm"}, "unknown engine"),
        ({"precision": "fp7"}, "unknown precision"),
        ({"kv_precision": "int8"}, "unknown kv_precision"),
        ({"role": "both"}, "unknown role"),
        ({"tp": "0"}, "at least 1"),
        ({"tp": "2.5"}, "whole number"),
        ({"tp": "3"}, "does not divide"),
        ({"pp": "33"}, "layers"),
        ({"isl": "many"}, "must be a number"),
        ({"osl": "nan"}, "finite"),
        ({"concurrency": "inf"}, "finite"),
        ({"prefix_hit": "1"}, "at most"),
        ({"model": "deepseek-v3", "tp": "8", "moe_tp": "2", "ep": "2"}, "must equal"),
    ],
)
def test_a_bad_row_says_why(change, reason):
    (answer,) = predict_rows([{**LLAMA, **change}])

    assert isinstance(answer, InputError)
    assert reason in answer.message
    assert cells(answer) == dict.fromkeys(ANSWERS, "") | {"note": cells(answer)["note"]}
    assert reason in cells(answer)["note"]


def test_a_dense_model_ignores_how_experts_are_split():
    row = parse({**LLAMA, "tp": "4", "moe_tp": "1", "ep": "1"})

    assert expert_split(row, has_experts=False).moe_tp == 4


MINIMAX = {"model": "minimax-m2.5", "device": "b200-sxm", "tp": "4", "osl": "1024", "concurrency": "64"}


def test_a_router_in_32_bits_takes_its_time_on_old_engines_unless_tensor_cores_may_be_used():
    """Runs of vLLM 0.19 take 8 % less time a token with VLLM_FLOAT32_MATMUL_PRECISION=high."""
    rows = [
        {"engine_version": "0.19.0"},
        {"engine_version": "0.19.0", "router_precision": "tf32"},
        {"engine_version": "0.19.0", "router_precision": "bf16"},
        {},
    ]
    without, with_cores, short, today = (p.tpot_ms for p in predict_rows([MINIMAX | row for row in rows]))

    assert 0.85 < with_cores / without < 0.95
    assert short < with_cores
    assert today == with_cores


def test_a_router_precision_that_does_not_exist_names_those_that_do():
    (answer,) = predict_rows([MINIMAX | {"router_precision": "fp8"}])

    assert cells(answer)["note"] == "unknown router_precision `fp8`; one of: bf16, tf32, fp32"


DEEPSEEK = {"model": "deepseek-r1", "device": "b200-sxm", "engine": "trtllm", "tp": "8", "concurrency": "4"}


def test_experts_take_the_time_of_the_kernels_that_a_launch_line_names():
    """DeepSeek-R1 in FP8 on eight B200 takes 14.6 ms a token with DEEPGEMM and 10.3 with TRTLLM."""
    names = ("", "DEEPGEMM", "TRTLLM", "flashinfer_trtllm")
    usual, deep, *short = (
        p.tpot_ms for p in predict_rows([DEEPSEEK | {"expert_kernels": name} for name in names])
    )

    assert 0.6 < usual / deep < 0.85
    assert short == [usual, usual]


def test_marlins_kernels_take_longer_for_prompts_in_four_bits_than_tritons_on_hopper():
    """gpt-oss-120b on two H100 takes 8,192 tokens 1.6 times as long with them, by vLLM 0.18."""
    row = {"model": "gpt-oss-120b", "device": "h100-sxm", "tp": "2", "isl": "8192", "concurrency": "4"}
    told = ({}, {"engine_version": "0.24.0"}, {"expert_kernels": "marlin"}, {"engine_version": "0.18.0"})
    usual, later, marlin, recipe = (p.ttft_ms for p in predict_rows([row | cells for cells in told]))

    assert 1.3 < marlin / usual < 2
    assert (later, recipe) == (usual, marlin)


def test_experts_kernels_are_by_default_those_of_public_recipes_for_the_version_and_the_layout():
    old = DEEPSEEK | {"engine_version": "1.1.0rc2"}
    ranks = DEEPSEEK | {"tp": "1", "attn_dp": "8", "ep": "8"}
    pairs = [(row, row | {"expert_kernels": "deepgemm"}) for row in (DEEPSEEK, old, ranks)]
    same = [usual.tpot_ms == deep.tpot_ms for usual, deep in (predict_rows(pair) for pair in pairs)]

    assert same == [False, True, True]


def test_kernels_that_no_engine_has_are_told_with_those_that_there_are():
    (answer,) = predict_rows([DEEPSEEK | {"expert_kernels": "cublas"}])

    known = "one of: cutlass, deepgemm, marlin, triton, trtllm"
    assert cells(answer)["note"] == f"unknown expert_kernels `cublas`; {known}"


def test_kernels_that_were_not_measured_on_a_device_take_the_usual_ones_time():
    rows = [DEEPSEEK | {"device": "h200-sxm", "expert_kernels": name} for name in ("", "trtllm")]
    usual, unknown = (p.tpot_ms for p in predict_rows(rows))

    assert unknown == usual


def test_whole_numbers_may_be_written_as_tables_of_other_tools_write_them():
    assert parse({**LLAMA, "tp": "4.0"}).tp == 4


def test_a_token_passes_all_stages_however_few_requests_there_are():
    """16 stages read 32 GB of weights on 2 GPUs each, at 1.008 TB/s: 15.9 ms at least for every token."""
    row = {
        "model": "qwen3-32b-fp8",
        "device": "rtx-4090",
        "engine": "trtllm",
        "tp": "2",
        "pp": "16",
        "isl": "5012",
    }
    (found,) = predict_rows([row | {"osl": "28", "concurrency": "13"}])

    assert found.tpot_ms >= 15.9
    assert pytest.approx(found.out_tok_per_s / 28 * (found.ttft_ms + 27 * found.tpot_ms) / 1e3, rel=0.1) == 13


def test_desktop_cards_are_in_one_box_as_gpus_puts_them():
    node = usual_node("rtx-4090")

    assert (node.gpus_per_node, node.scale_up_gpus, node.device.intra_link) == (8, 8, "pcie")
