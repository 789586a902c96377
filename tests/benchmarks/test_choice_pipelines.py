"""Gains of pipelines, predicted over measured: by hand."""

from __future__ import annotations

import pytest

from benchmarks.choice.pipelines import ASKED, FAST, SLOW, asked, cells, factors, hops_table, takes_turns
from planner.predict.predictions import Prediction

ROW = dict.fromkeys(ASKED, "") | {
    "source": "a run",
    "group": "g",
    "model": "llama-3.1-8b",
    "device": "h100-sxm",
    "stages": "",
    "gpus_per_node": "8",
    "nodes": "1",
    "link": "nvlink",
    "engine": "vllm",
    "engine_version": "0.22",
    "role": "mixed",
    "tp": "1",
    "pp": "1",
    "isl": "1000",
    "osl": "100",
    "concurrency": "8",
    "measured_out_tok_s": "",
    "measured_prompt_tok_s": "",
    "measured_ttft_ms": "",
    "measured_e2e_ms": "",
    "doubt": "",
}


def row(**cells: str) -> dict[str, str]:
    return ROW | cells


def answer(out: float, ttft_ms: float = 10.0) -> Prediction:
    return Prediction(ttft_ms, None, None, 1.0, None, None, out, None, 0.0, True, None, "")


def test_a_factor_is_the_predicted_gain_over_the_measured_one():
    """Told 300 where one stage is told 100, measured 400 where that made 200: 3 / 2."""
    rows = [row(measured_out_tok_s="200"), row(pp="2", measured_out_tok_s="400")]

    (found,) = factors(rows, [answer(100), answer(300)])

    assert found.factor == pytest.approx(1.5)
    assert (found.kind, found.engine) == ("overlapped", "vllm 0.22")


def test_rows_of_other_loads_and_of_collectives_over_ethernet_are_no_reference():
    pipeline = row(pp="2", measured_out_tok_s="400")
    others = row(concurrency="16", measured_out_tok_s="9"), row(tp="16", link=SLOW, measured_out_tok_s="9")

    assert factors([pipeline, *others], [answer(300)] * 3) == []


def test_releases_whose_stages_take_turns():
    turns = {
        version: takes_turns(row(engine_version=version)) for version in ("0.6", "0.6.3.post1", "0.7", "")
    }

    assert turns == {"0.6": True, "0.6.3.post1": True, "0.7": False, "": False}
    assert takes_turns(row(engine="sglang", engine_version="0.5.4.post2"))
    assert not takes_turns(row(engine="sglang", engine_version="0.5.5"))


def test_a_slower_network_lengthens_first_tokens_as_told_over_as_measured():
    rows = [row(pp="2", link=FAST, measured_ttft_ms="100"), row(pp="2", link=SLOW, measured_ttft_ms="110")]

    assert hops_table(rows, [answer(1, 100.0), answer(1, 132.0)]).splitlines()[-1].split()[-1] == "1.20"


def test_each_row_is_asked_on_its_own_network():
    both = [row(pp="2", tp="4", nodes="2", gpus_per_node="4", link=link) for link in (FAST, SLOW)]

    fast, slow = asked(both)

    assert isinstance(fast, Prediction)
    assert isinstance(slow, Prediction)
    assert (slow.ttft_ms or 0) > 1.01 * (fast.ttft_ms or 0)


def test_fastertransformer_keeps_a_batch_whole_that_its_stages_do_not_divide():
    source = {"source": "NVIDIA/FasterTransformer@df4a7534 docs/gpt_guide.md", "pp": "3"}

    assert [cells(row(**source, concurrency=c))["pp"] for c in ("8", "9")] == ["1", "3"]
    assert cells(row(pp="3", concurrency="8"))["pp"] == "3"
