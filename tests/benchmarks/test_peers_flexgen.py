"""FlexGen's cases: by hand, by the case folder's own optimum, and what has no room."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.formulations.tiers_prices import margins, prices
from benchmarks.peers import flexgen
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.rounding import rounded

CASES = sorted((Path(__file__).resolve().parents[3] / "shared" / "cases" / "flexgen").glob("*.json"))
TINY = {
    "model": {"layers": 2, "hidden_size": 8, "ffn_size": 16, "attention_heads": 2},
    "workload": {"prompt_tokens": 4, "output_tokens": 2},
    "hardware": {
        "cpu_to_gpu_bytes_per_s": 1e3,
        "gpu_to_cpu_cache_bytes_per_s": 1e3,
        "gpu_to_cpu_hidden_bytes_per_s": 1e3,
        "disk_to_cpu_bytes_per_s": 1e2,
        "cpu_to_disk_cache_prefill_bytes_per_s": 1e2,
        "cpu_to_disk_decode_bytes_per_s": 1e2,
        "matmul_prefill_flops_per_s": 1e5,
        "matmul_decode_flops_per_s": 1e5,
        "attention_prefill_flops_per_s": 1e5,
        "attention_decode_flops_per_s": 1e5,
        "cpu_attention_flops_per_s": 1e4,
        "cpu_curve": [0.0, 0.0, 0.0],
        "gpu_memory_bytes": 1e6,
        "cpu_memory_bytes": 1e6,
        "disk_bytes": 1e6,
    },
    "usable_fraction": {"gpu": 1.0, "cpu": 1.0, "disk": 1.0},
    "gpu_batch_candidates": [1],
}


def changed(**hardware):
    return {"problem": {**TINY, "hardware": {**TINY["hardware"], **hardware}}}


def test_where_all_fits_the_gpu_only_computing_counts():
    """By hand: 1024 FLOPs a token and layer. Prompt: 4 of them and 4*16*8 of attention, 46.08 ms; a token:
    1024 and 4*5*8 over the cache, 11.84 ms; two layers, one decode step: 2 tokens in 115.84 ms."""
    answer = flexgen.solve({"problem": TINY}, "throughput", 10.0)

    assert answer.objective == pytest.approx(2 / (2 * (0.04608 + 0.01184))) == answer.bound
    assert answer.status == "optimal"
    assert answer.solution["shares"]["wg"] == answer.solution["shares"]["cg"] == pytest.approx(1.0)


def test_cache_that_does_not_fit_the_gpu_is_attended_to_on_the_cpu():
    """By hand: of 3,200 bytes 2,048 are two layers' weights, 64 activations and 768 for the prompt; 320 are
    left for a cache of 384. A sixth of it on the CPU, ten times slower: 10.24 + 1.6 * 5/6 + 16/6 ms."""
    answer = flexgen.solve(changed(gpu_memory_bytes=3200.0), "throughput", 10.0)

    assert answer.solution["shares"]["cg"] == pytest.approx(5 / 6)
    assert answer.objective == pytest.approx(2 / (2 * (0.04608 + 0.01024 + 0.004)))


def test_what_fits_nowhere_is_infeasible():
    answer = flexgen.solve(changed(gpu_memory_bytes=10.0), "throughput", 10.0)

    assert (answer.status, answer.objective, answer.solution) == ("infeasible", None, None)


@pytest.mark.skipif(not CASES, reason="no cases beside the repository")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_cases_optimum_is_reproduced_and_rounds_with_little_loss(path):
    case = json.loads(path.read_text())
    answer, best = flexgen.solve(case, "throughput", 30.0), case["known"]["best_known"]
    p = flexgen.stated(case["problem"])
    r = rounded(p, Limits(seconds=10.0))

    assert answer.objective == pytest.approx(best, rel=1e-4)
    assert answer.bound == pytest.approx(best, rel=1e-4)
    assert 1 - r.tokens_per_s / answer.objective <= 0.02
    assert r.bound <= answer.bound * (1 + 1e-6)


@pytest.mark.skipif(not CASES, reason="no cases beside the repository")
def test_prices_of_memory_are_what_a_little_more_brings():
    p = flexgen.stated(json.loads(CASES[0].read_text())["problem"])
    s = tiers.solve(p, Limits())
    at_point = replace(p, lines=[replace(s.point.line, most=s.point.batches)])

    for price in prices(at_point, s, {"gpu": 1e6, "cpu": 1e6, "disk": 1e6}, Limits()):
        assert price.worth == pytest.approx(1e6 * margins(p, s)[price.of], rel=1e-2, abs=1e-9)
