"""Reading measured rows: those beside the repository, if any."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.held_out import added, as_held, bands, bench_of, sigmas
from benchmarks.truth import (
    AMD,
    RUNS,
    as_asked,
    clean_rows,
    config,
    group_of,
    kept,
    mended,
    per_replica,
    router,
)
from planner.cost.bands import BORROWED, WIDE, Z80
from planner.cost.calibration import Traits
from planner.predict.rows import parse

SERVER = Traits("vllm", "hopper", "h100-sxm", "fp8", "none", "x")

needs_runs = pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads")


@pytest.fixture(scope="module")
def rows():
    return clean_rows()


@needs_runs
def test_clean_rows_are_aggregated_and_can_be_asked_at_the_lengths_that_were_drawn(rows):
    assert len(rows) == 1927
    for row in rows:
        asked = parse(as_asked(row))

        assert asked.osl == round(float(row["drawn"]) * float(row["osl"]))
        assert asked.lengths == ("varied" if row["drawn"] == "0.9" else "alike")
        assert asked.start == (row.get("start") or "at_once")
    assert {float(row["drawn"]) for row in rows} == {0.9, 1.0}


def labelled(**told):
    """A row of the first table, and its label."""
    row = {"mode": "agg", "suspect": "", "model_path": "x/Y", "concurrency": "8.0", "moe_quant_mode": ""}
    return row | told.pop("row", {}), {"advice": "", "measured": "2026-01-01"} | told


@pytest.mark.parametrize(
    ("told", "stays"),
    [
        ({}, True),
        ({"advice": "TTFT before warm-ups"}, True),
        ({"advice": "drop: MTP run"}, False),
        ({"advice": "drop or verify: DeepSeek-R1 sources mix MTP in"}, False),
        ({"advice": "drop: same measurement as another row"}, False),
        ({"advice": "verify: Dynamo job, replicas uncertain (up to 3 x off)"}, False),
        ({"row": {"suspect": "repeats an earlier row"}}, False),
        ({"row": {"suspect": "speculative decoding"}, "advice": "keep: not speculative"}, True),
        ({"row": {"mode": "disagg"}}, False),
        ({"row": {"model_path": "openai/gpt-oss-120b", "concurrency": "512.0"}}, False),
        ({"row": {"model_path": "nvidia/Llama-3.1-8B-Instruct-FP8"}}, False),
    ],
)
def test_what_labels_doubt_is_left_out(told, stays):
    assert kept(*labelled(**told)) == stays


def test_a_speculative_pair_of_days_is_left_out_and_its_neighbours_stay():
    own = {
        "model_path": "Qwen/Qwen3.5-397B",
        "moe_quant_mode": "fp8_block",
        "attn_tp": "4.0",
        "system": "b200_sxm",
    }

    assert not kept(*labelled(row=own, measured="2026-03-20"))
    assert kept(*labelled(row=own, measured="2026-03-24"))
    assert kept(*labelled(row=own | {"attn_tp": "8.0"}, measured="2026-03-20"))


def test_runs_before_an_engines_fault_was_mended_are_left_out():
    row = {"model_path": "deepseek-ai/DeepSeek-R1", "system": "b300_sxm", "backend": "sglang"}
    row |= {"gemm_quant_mode": "nvfp4"}

    assert mended(row | {"measured": "2026-04-17"})
    assert not mended(row | {"measured": "2026-05-17"})
    assert not mended(row | {"measured": "2026-04-17", "model_path": "Qwen/Qwen3.5"})


def test_a_router_is_computed_as_the_launch_line_says_or_as_a_nightly_of_its_day_did():
    row = {"backend_version": "0.19.0", "model_path": "MiniMaxAI/MiniMax-M2.5"}
    nightly, day = row | {"backend_version": "nightly-5b8c"}, {"measured": "2026-04-03"}

    assert router({"env": "A=1 VLLM_FLOAT32_MATMUL_PRECISION=high"}, row, day) == "tf32"
    assert router({"launch": "serve --enable-tf32-matmul --tp 8"}, nightly, day) == "tf32"
    assert router({}, nightly, day) == "fp32"
    assert router({}, nightly, {"measured": "2026-09-03"}) == ""
    assert router({}, nightly | {"model_path": "Qwen/Qwen3.5"}, day) == ""
    assert router({}, row, day) == ""  # the version says it


def test_requests_at_once_are_those_of_all_attention_dp_ranks():
    """SGLang's limit is that of its ranks together; vLLM's and TensorRT-LLM's of each."""
    assert per_replica("64", {"backend": "sglang", "attn_dp": "8.0"}) == "64"
    assert per_replica("64", {"backend": "vllm", "attn_dp": "8.0"}) == "512"
    assert per_replica("", {"backend": "vllm", "attn_dp": "8.0"}) == ""


@needs_runs
def test_two_families_never_have_the_same_shape(rows):
    """What is held out must not have a twin among what is seen."""
    shapes = {}
    for row in rows:
        raw = json.loads(config(row["model_path"]).read_text())
        text = raw.get("text_config", raw)
        shapes.setdefault(tuple(text[key] for key in SHAPE), set()).add(row["family"])
    assert all(len(families) == 1 for families in shapes.values())
    assert len(shapes) == len({group_of(row)[0] for row in rows})


@needs_runs
def test_the_bench_keeps_rows_and_their_order(rows):
    some = rows[::300]
    bench = bench_of(some)
    held = as_held(some, bench.measured, bench.measured, np.full((len(some), 2), 0.1))

    assert held.measured_tpot == pytest.approx([float(row["silicon_tpot_ms"]) for row in some])
    assert held.measured_ttft == pytest.approx([float(row["silicon_ttft_ms"]) for row in some])


def test_without_measurements_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(accuracy, "RUNS", tmp_path / "none.csv.gz")
    accuracy.main()

    out, err = capsys.readouterr()
    assert (out, err) == ("", "skipped: no measurements beside the repository\n")


def test_a_row_has_no_say_in_its_own_band():
    """Two groups of one engine: each gets the other's spread."""
    errors = np.array([[0.1, 0.1]] * 5 + [[1.0, 0.5]] * 5)
    found = sigmas(errors, np.zeros_like(errors), [SERVER] * 10, [("a",)] * 5 + [("b",)] * 5)

    assert found[0] == pytest.approx(np.array([1.0, 0.5]) / 1.2816, rel=1e-3)
    assert found[9] == pytest.approx(np.array([0.1, 0.1]) / 1.2816, rel=1e-3)


def test_errors_that_bands_are_wider_for_already_do_not_widen_the_others():
    """Half of the groups are ten times as far off and have the deviation for it: bands of the rest stay 0.1,
    theirs reach just as far as they are off."""
    errors = np.array([[0.1, 0.1]] * 5 + [[1.0, 1.0]] * 5)
    more = np.array([[0.0, 0.0]] * 5 + [[0.99**0.5, 0.99**0.5]] * 5) / Z80
    groups = [(str(i),) for i in range(10)]

    assert bands(errors, more, [SERVER] * 10, groups)["tpot"]["all"]["all"] == pytest.approx(0.1 / Z80)
    assert bands(errors, 0 * more, [SERVER] * 10, groups)["tpot"]["all"]["all"] == pytest.approx(1 / Z80)
    assert sigmas(errors, more, [SERVER] * 10, groups)[:, 0] == pytest.approx(np.abs(errors[:, 0]) / Z80)


def test_a_narrower_level_is_drawn_to_the_wider_one_by_how_few_groups_it_has():
    """By hand, in variances: one group of experts at 1.0 counts 1 beside 16 of what is known without it, as
    does one of SGLang at 0.2; SGLang's experts, of which there are none, are as far off as both say."""
    errors = np.array([[0.1, 0.1]] * 19 + [[0.2, 0.2], [1.0, 1.0]])
    servers = [SERVER] * 19 + [replace(SERVER, engine="sglang"), replace(SERVER, experts="fp8")]
    found = bands(errors, np.zeros_like(errors), servers, [(str(i),) for i in range(21)])["ttft"]

    def drawn(without: float, own: float, groups: int) -> float:
        return ((16 * without**2 + groups * own**2) / (16 + groups)) ** 0.5

    once = 1.2816
    usual = found["all"]["all"] * once
    moe, vllm, sglang = drawn(0.1, 1.0, 1), 0.1, drawn(0.1, 0.2, 1)
    assert usual == pytest.approx(0.1, rel=1e-3)
    assert found["ffn"]["moe"] * once == pytest.approx(moe, rel=1e-3)
    assert found["ffn"]["dense"] * once == pytest.approx(0.1, rel=1e-3)
    both = {key: once * sigma for key, sigma in found["engine+ffn"].items()}
    assert both == pytest.approx(
        {
            "vllm dense": vllm,
            "vllm moe": drawn(moe, 1.0, 1),
            "sglang dense": drawn(sglang, 0.2, 1),
            "sglang moe": sglang * moe / 0.1,
        },
        rel=1e-3,
    )


@needs_runs
def test_what_no_run_shows_is_added_as_plans_add_it(rows):
    """Nothing on NVIDIA's GPUs, whose kernels were timed, but for attention-dp; AMD's were not."""
    amd = [row for row in rows if row["system"] in AMD][:2]
    timed = [row for row in rows if row["system"] not in AMD and row["attn_dp"] in ("", "1", "1.0")][::40]
    wide = [row for row in rows if row["attn_dp"] not in ("", "1", "1.0")][:2]

    assert not added(bench_of(timed)).any()
    assert added(bench_of(amd)) == pytest.approx(BORROWED["runs"])
    assert added(bench_of(wide)) == pytest.approx(np.tile(WIDE.T, (2, 1)))
