"""Versions that rows do not state, by their recipes."""

import numpy as np
import pytest

from benchmarks.recipes import graph_tokens, version_of
from benchmarks.truth import RUNS, clean_rows


def run(model, device, *, version="", engine="trtllm"):
    return {"model_path": model, "system": device, "backend": engine, "backend_version": version}


@pytest.mark.parametrize(
    ("row", "day", "version"),
    [
        (run("deepseek-ai/DeepSeek-R1", "h200_sxm"), "2025-11-02", "1.1.0rc2.post2"),
        (run("openai/gpt-oss-120b", "h200_sxm"), "2025-11-02", "gpt-oss-dev"),
        (run("openai/gpt-oss-120b", "b200_sxm"), "2025-11-02", ""),
        (run("deepseek-ai/DeepSeek-R1", "h200_sxm", version="1.3.0"), "2025-11-02", "1.3.0"),
        (run("deepseek-ai/DeepSeek-R1", "h200_sxm", engine="sglang"), "2025-11-02", ""),
        (run("deepseek-ai/DeepSeek-R1", "h200_sxm"), "2026-05-18", ""),
        (run("deepseek-ai/DeepSeek-R1", "h200_sxm"), "", ""),
    ],
)
def test_a_run_has_the_version_of_its_row_else_of_its_recipe(row, day, version):
    assert version_of(row, day) == version


@pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
def test_runs_read_as_of_an_image_take_as_long_a_token_as_those_that_state_it():
    tpots = {}
    for row in clean_rows():
        if row["backend_version"] == "gpt-oss-dev":
            asked = tuple(row[c] for c in ("isl", "osl", "attn_tp", "concurrency"))
            tpots.setdefault(asked, {})[row["measured"]] = float(row["silicon_tpot_ms"])
    ratios = [t["2025-11-02"] / t["2025-12-15"] for t in tpots.values() if len(t) > 1 and "2025-11-02" in t]

    assert len(ratios) > 30
    assert np.abs(np.array(ratios) - 1).max() < 0.04


def deepseek(precision, lengths, concurrency, *, date="2026-02-05", device="b200_sxm", ranks=1, ep=1):
    isl, osl = lengths
    run = {"engine": "trtllm", "device": device, "date": date, "precision": precision, "isl": isl, "osl": osl}
    return run | {"tp": f"{8 / ranks}", "attn_dp": f"{ranks}.0", "ep": f"{ep}.0", "concurrency": concurrency}


SHORT, LONG_OUT, LONG_IN = ("1024", "1024"), ("1024", "8192"), ("8192", "1024")


@pytest.mark.parametrize(
    ("run", "tokens"),
    [
        (deepseek("fp8", SHORT, "32"), ""),
        (deepseek("fp8", SHORT, "64"), "8192"),
        (deepseek("fp8", LONG_IN, "64"), "8192"),
        (deepseek("fp8", LONG_OUT, "64"), ""),
        (deepseek("fp8", LONG_OUT, "128"), "8192"),
        (deepseek("fp8", LONG_OUT, "256"), ""),
        (deepseek("fp8", SHORT, "64", date="2026-01-28"), ""),
        (deepseek("fp8", SHORT, "64", device="h200_sxm"), ""),
        (deepseek("fp4", SHORT, "64", ep=8), "8192"),
        (deepseek("fp4", SHORT, "64", ranks=8, ep=8), "8192"),
        (deepseek("fp4", SHORT, "64"), ""),
        (deepseek("fp4", LONG_IN, "64", ep=8), ""),
    ],
)
def test_recipes_of_deepseek_capture_prompts_from_so_many_in_flight_on(run, tokens):
    assert graph_tokens(run) == tokens
