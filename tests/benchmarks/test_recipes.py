"""Versions that rows do not state, by their recipes."""

import numpy as np
import pytest

from benchmarks.recipes import version_of
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
