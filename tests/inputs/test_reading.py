"""Workloads by name and by file, options over them, budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.options import Budget
from planner.inputs.presets import PRESETS
from planner.inputs.reading import parse_budget, read_workload
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question.asked import read

GOLDEN = Path(__file__).parents[1] / "golden" / "workload.yaml"


def refused(*args: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_workload(*args, **options)
    return caught.value


def test_the_frozen_example_reads_as_written():
    workload, defaulted = read_workload(GOLDEN)

    assert workload == Workload(
        name="chat",
        buckets=[Bucket(isl=512, osl=128, share=0.6), Bucket(isl=4096, osl=512, share=0.4)],
        rate_rps=40,
        slo=Slo(ttft_ms=2000, tpot_ms=50, percentile="mean"),
        prefix_hit=0.3,
        max_osl=2048,
    )
    assert defaulted == []


def test_chat_is_the_contracts_and_all_of_it_is_a_default():
    workload, defaulted = read_workload()

    assert workload.buckets == [Bucket(isl=1024, osl=256)]
    assert (workload.slo.ttft_ms, workload.slo.tpot_ms, workload.slo.percentile) == (2000, 50, "mean")
    assert workload.rate_rps is None
    assert defaulted == ["isl", "osl", "slo.ttft_ms", "slo.tpot_ms", "slo.percentile"]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_found_however_it_is_written(name: str):
    assert read_workload(name.upper().replace("-", "_"))[0] == PRESETS[name]


def test_an_offline_batch_promises_nothing():
    slo = read_workload("batch")[0].slo

    assert (slo.ttft_ms, slo.tpot_ms) == (None, None)


def test_options_override_and_are_no_defaults():
    workload, defaulted = read_workload(
        "chat", isl=4096, rate=2.5, ttft_ms="none", tpot_ms="30", percentile="p95"
    )

    assert workload.buckets == [Bucket(isl=4096, osl=256)]
    assert workload.rate_rps == 2.5
    assert workload.slo == Slo(ttft_ms=None, tpot_ms=30, percentile="p95")
    assert defaulted == ["osl"]


def test_a_length_given_for_all_buckets_merges_those_it_makes_equal():
    workload, _ = read_workload(GOLDEN, osl=100)
    both, _ = read_workload(GOLDEN, isl=10, osl=100)

    assert [(b.isl, b.osl, b.share) for b in workload.buckets] == [(512, 100, 0.6), (4096, 100, 0.4)]
    assert both.buckets == [Bucket(isl=10, osl=100)]


def test_requests_of_one_length_are_one_bucket_however_often_they_are_told():
    twice = [
        Bucket(isl=8, osl=4, share=0.2),
        Bucket(isl=9, osl=4, share=0.5),
        Bucket(isl=8, osl=4, share=0.3),
    ]
    asked = read(None, "qwen3-0.6b", "1xL4", Workload(buckets=twice), {}, {})

    assert asked.workload.buckets == [Bucket(isl=8, osl=4, share=0.5), Bucket(isl=9, osl=4, share=0.5)]


def test_what_a_file_leaves_out_is_a_default(tmp_path: Path):
    file = tmp_path / "w.yaml"
    file.write_text("isl: 2000\nslo: {tpot_ms: none}\n")

    workload, defaulted = read_workload(file)

    assert workload.buckets == [Bucket(isl=2000, osl=256)]
    assert (workload.slo.ttft_ms, workload.slo.tpot_ms) == (2000, None)
    assert defaulted == ["osl", "slo.ttft_ms", "slo.percentile"]


def test_shares_add_up_to_one():
    workload = Workload.model_validate({"buckets": [{"isl": 1, "osl": 1, "share": 3}, {"isl": 2, "osl": 1}]})

    assert workload.shares == [0.75, 0.25]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "`--rate` must be greater than 0, got 0"),
        ({"rate": -1.0}, "`--rate` must be greater than 0"),
        ({"rate": float("nan")}, "`--rate` must be a finite number"),
        ({"rate": float("inf")}, "`--rate` must be a finite number"),
        ({"rate": True}, "`--rate` must be a number, got true"),
        ({"isl": 0}, "`--isl` must be at least 1"),
        ({"isl": 1.5}, "`--isl` must be a whole number"),
        ({"osl": -5}, "`--osl` must be at least 1"),
        ({"osl": 10**30}, "`--osl` must be at most"),
        ({"ttft_ms": "2 GB"}, '`--ttft-ms` must be a number, got text "2 GB"'),
        ({"ttft_ms": 0}, "`--ttft-ms` must be greater than 0"),
        ({"tpot_ms": "nan"}, "`--tpot-ms` must be a finite number"),
        ({"percentile": "p96"}, "unknown percentile `p96`"),
        ({"loop": "ajar"}, "`ajar` is no loop"),
        ({"loop": "closed", "rate": 3}, "a closed loop serves as much as it can"),
    ],
)
def test_an_impossible_option_is_refused_by_name(options: dict[str, Any], message: str):
    error = refused("chat", **options)

    assert message in error.message
    assert (error.where or "").startswith("--")


def test_an_unknown_name_shows_presets_and_an_absent_file_is_told():
    assert "`chat`" in (refused("chta").hint or "")
    assert "no such file" in refused("absent.yaml").message
    assert "unknown workload" in refused("").message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("buckets: []", "at least 1 entry"),
        ("buckets: [{isl: 1, osl: 1}]\nisl: 5", "either `buckets` or `isl`"),
        ("isl: 5\nosl: 9\nmax_osl: 8", "`max_osl` (8) is below"),
        ("isl: 5\nslo: {ttft: 5}", "unknown field `ttft`"),
        ("rate_rps: 0", "greater than 0"),
        ("prefix_hit: 1.0", "less than 1"),
        ("slo: {percentile: p42}", "`percentile` must be"),
        ("buckets: [{isl: 1, osl: 1, share: 0}]", "greater than 0"),
        ("isl: 1x", 'got text "1x"'),
    ],
)
def test_a_workload_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str):
    file = tmp_path / "w.yaml"
    file.write_text(text)
    error = refused(file)

    assert message in error.message
    assert (error.where or "").startswith(f"{file}:")


def test_an_output_length_above_the_files_limit_is_refused():
    assert "above the workload's `max_osl` (2048)" in refused(GOLDEN, osl=4096).message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "reuse: [{name: a, tokens: 500}]",
            "shorter than a beginning of the workload's `reuse` (500 tokens)",
        ),
        (
            "idle: {ages_s: [1], kinds: [{bucket: 0, depth: 0, tokens: 9, back: [1]}], hits: [[9]]}",
            "own lengths",
        ),
    ],
)
def test_lengths_that_what_returns_does_not_go_with_are_refused(tmp_path: Path, text: str, message: str):
    path = tmp_path / "w.yaml"
    path.write_text(text)
    error = refused(path, isl=400)

    assert message in error.message
    assert error.where == "--isl"


def test_a_budget_is_read_in_any_order():
    assert parse_budget("gpus=64, usd_per_hour=50,watts=2e4") == Budget(usd_per_hour=50, gpus=64, watts=20000)
    assert parse_budget(None) == Budget()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("usd=50", "unknown limit `usd`", "`usd_per_hour`"),
        ("gpus", "`gpus` in --budget is not NAME=NUMBER", "usd_per_hour=50"),
        ("", "is not NAME=NUMBER", "usd_per_hour=50"),
        ("gpus=64,", "is not NAME=NUMBER", "usd_per_hour=50"),
        ("gpus=6.5", "`gpus` must be a whole number", ""),
        ("gpus=0", "`gpus` must be at least 1", ""),
        ("gpus=8,gpus=9", "given twice", ""),
        ("watts=20km", 'got text "20km"', "watts"),
        ("usd_per_hour=-1", "must be greater than 0", ""),
        ("usd_per_hour=nan", "must be a finite number", ""),
    ],
)
def test_a_budget_that_is_none_is_refused(text: str, message: str, hint: str):
    with pytest.raises(InputError) as caught:
        parse_budget(text)

    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.where == "--budget"


@pytest.mark.parametrize(
    ("options", "loop"),
    [({}, "closed"), ({"loop": "open"}, "open"), ({"loop": "closed"}, "closed"), ({"rate": 2}, "open")],
)
def test_arrivals_are_at_random_at_a_rate_or_where_that_is_asked_for(options: dict[str, Any], loop: str):
    assert read_workload("chat", **options)[0].loop == loop
