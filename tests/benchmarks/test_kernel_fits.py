"""Fits of kernel times: they find figures that are known, and see no shape they are judged on."""

from dataclasses import asdict

import numpy as np
import pytest

from benchmarks import attention_fits
from benchmarks.efficiency_files import medians, row
from benchmarks.expert_fits import MOST_TOKENS, as_case, commonest, divided
from benchmarks.kernel_fits import OPS, Case, fitted, held_out
from benchmarks.recurrent_fits import in_layers, recurrent_fits
from planner.cost.attention import Load, decode_work, prefill_work
from planner.cost.compute import Work, kernel_s
from planner.cost.efficiency.reading import Chip, Fit, as_fit
from tests.cost.samples import GQA, MLA

CHIP = Chip(1e12, {"bf16": 1e14})
BOUNDS = {"memory": (0.1, 0.5, 1.0), "t0_s": (1e-6, 2e-5, 1e-4)}
START = Fit(compute=1.0, memory=0.5, t0_s=2e-5)
TRUE = Fit(compute=1.0, memory=0.8, t0_s=5e-6)


def case(bytes_moved, shapes, stray=1.0):
    """Times of TRUE; those of shape 0 are off by a factor."""
    work = Work(np.zeros(len(bytes_moved)), bytes_moved, np.zeros(len(bytes_moved)))
    busy = np.ones(len(bytes_moved), bool)
    seconds = kernel_s(TRUE, CHIP, work, busy) * np.where(shapes == 0, stray, 1.0)
    return Case(lambda fit: kernel_s(fit, CHIP, work, busy), seconds, shapes, np.ones(len(seconds)))


def test_a_fit_finds_the_figures_the_times_were_made_with():
    fit = fitted(case(np.geomspace(1e4, 1e9, 60), np.arange(60)), START, BOUNDS)

    assert fit.memory == pytest.approx(0.8, rel=1e-3)
    assert fit.t0_s == pytest.approx(5e-6, rel=1e-3)
    assert fit.error < 1e-3


def test_a_shape_is_predicted_from_the_others():
    """The rows of shape 0 take twice as long: from the others they seem to take half of it."""
    shapes = np.arange(60) % 5
    errors = held_out(case(np.geomspace(1e4, 1e9, 60), shapes, stray=2.0), START, BOUNDS)

    assert errors[shapes == 0] == pytest.approx(-0.5, abs=0.01)


def test_a_fit_comes_back_from_its_row():
    fit = Fit(0.5, 0.8, 2e-5, 1.5, 1e-7, 2e-7, 5e-6, rows=0.3, tokens=1.2, peak="fp8", error=0.1)

    assert asdict(as_fit(row(fit), "datasheet")) == pytest.approx(asdict(fit))


def test_medians_count_what_is_left_out():
    parts = [{"memory": 0.5, "tau_ns": 30.0}, {"memory": 0.7}, {"memory": 0.9}]

    assert medians(parts) == {"memory": 0.7, "tau_ns": 0.0}


def test_kernels_that_only_other_models_run_in_are_left_out():
    """`a` is commonest; `b` takes over a layout of its model 1, `c` has model 3 for itself."""
    kernels = np.array(["a", "a", "a", "b", "c", "c"], object)

    assert commonest(kernels, np.array([1, 1, 2, 1, 3, 3])).tolist() == [True] * 4 + [False] * 2


def test_ranks_that_were_given_all_pairs_are_left_out():
    """Of two models in two kernels, one rank of two takes as long as one alone once: for model 256 in "a"."""
    names = ("kernel", "num_experts", "moe_ep_size", "latency_ms")
    rows = [
        *(("a", 256, ep, ms) for ep, ms in ((1, 12.0), (2, 11.9), (8, 8.0))),
        *(("b", 256, ep, ms) for ep, ms in ((1, 12.0), (2, 6.1), (8, 1.6))),
        *(("a", 384, ep, ms) for ep, ms in ((1, 12.0), (2, 6.5), (8, 2.0))),
    ]
    table = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    alike = {"hidden_size": 64, "inter_size": 32, "topk": 8, "moe_tp_size": 1, "num_tokens": MOST_TOKENS}
    table |= {name: np.full(len(rows), value) for name, value in alike.items()}
    table["dtype"] = np.full(len(rows), "fp8_block")

    assert divided(table).tolist() == [True, False, False] + [True] * 6


def test_balanced_rows_touch_as_many_experts_as_they_have_pairs():
    """By hand: 2 tokens of 4 experts each touch 8 of 16; on one of 2 ranks 4 of its 8."""
    names = ("hidden_size", "inter_size", "topk", "num_experts", "num_tokens", "moe_tp_size", "moe_ep_size")
    table = {
        name: np.array(column)
        for name, column in zip(
            names, ([64, 64], [32, 32], [4, 4], [16, 16], [2, 2], [1, 1], [1, 2]), strict=True
        )
    }
    times = as_case(table | {"latency_ms": np.ones(2)}, CHIP, 2.0)
    only_touched = Fit(1.0, 1.0, 0.0, 1.0, tau_s=1.0)

    assert times.predict(only_touched) == pytest.approx([8.0, 4.0], rel=1e-6)
    assert times.measured_s.tolist() == [1e-3, 1e-3]


def test_a_layer_is_its_convolution_and_its_faster_scan():
    names = ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "batch_size", "seq_len")
    table = {name: np.array([4, 4, 4, 8]) for name in names}
    kernels = np.array(["causal_conv1d_fn", "scan_slow", "scan_fast", "scan_fast"], object)
    layers = in_layers(table | {"kernel": kernels, "latency_ms": np.array([1.0, 5.0, 3.0, 9.0])})

    assert layers == {(4,) * 6: pytest.approx(4e-3)}


@pytest.mark.parametrize(("mixer", "kind"), [(GQA, ""), (MLA, "mla_")])
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_a_row_of_the_table_is_the_work_the_planner_counts(mixer, kind, phase):
    """4 sequences at 3000 tokens, or 4 prompts of 1000 after 2000 cached ones."""
    table = {
        "num_heads": np.array([mixer.heads]),
        "num_kv_heads": np.array([getattr(mixer, "kv_heads", mixer.heads)]),
        "head_dim": np.array([128]),
        "batch_size": np.array([4]),
        "context_len": np.array([3000]),
        "window_size": np.array([0]),
        "new_tokens": np.array([1000]),
        "prefix_len": np.array([2000]),
    }
    counted = getattr(attention_fits, kind + phase)(table, "fp8")
    four, none, one = np.array([4.0]), np.zeros(1), np.ones(1, int)
    if phase == "decode":
        ours = decode_work(mixer, Load(four, np.array([3000.0]), none, none), one, "fp8")
    else:
        ours = prefill_work(mixer, Load(none, none, 1000 * four, np.array([2500.5])), one)

    assert [counted.flops[0], counted.bytes[0], counted.items[0]] == pytest.approx(
        [ours.flops[0], ours.bytes[0], ours.items[0]]
    )


@pytest.mark.skipif(not OPS.is_dir(), reason="no measurements beside the repository")
def test_measured_recurrent_layers_are_fitted_within_a_few_percent():
    pytest.importorskip("pyarrow")
    fits = recurrent_fits("h200_sxm", "vllm")

    assert fits["recurrent_decode"]["gdn"].error < 0.05
    assert fits["recurrent_prefill"]["gdn"].error < 0.08
    assert "kda" not in fits["recurrent_prefill"]  # timed waiting for the host
