"""`fit`: what fits, what is missing, the smallest change; in a terminal, as JSON, by exit code."""

from __future__ import annotations

import json
import re

import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.cli.app import run
from planner.cli.fit_tables import shown
from planner.errors import InputError
from planner.fit.fits import Ask, Fit, Row, fit, infeasible, layout
from planner.fit.grid import grid


def fitted(gpus: str, model: str, **asked: object) -> Fit:
    return fit(Ask(catalog.find(model)[0], **asked), from_gpus(gpus))  # type: ignore[arg-type]


def the(found: Fit, word: str) -> Row:
    """The row with this parallelism, of the only class."""
    (only,) = found.classes
    return next(row for row in only.rows if layout(row) == word)


def test_llama_70b_in_16_bit_is_refused_on_one_80_gb_card():
    found = fitted("1xH100", "llama-3.1-70b")

    assert not found.fits
    assert the(found, "tp1").missing_bytes == pytest.approx(68.0e9, rel=0.02)  # for one sequence of 2.7 GB
    assert found.changes[0] == "2 x h100-sxm (--gpus 2xh100-sxm)"


def test_llama_70b_in_16_bit_fits_two_80_gb_cards():
    row = the(fitted("2xH100", "llama-3.1-70b"), "tp2")

    assert row.fits
    assert row.weights_bytes == pytest.approx(70.55e9, rel=1e-3)
    assert row.kv_bytes == pytest.approx(4.1e9, rel=0.05)
    assert row.max_context == pytest.approx(row.kv_bytes / (80 * 8 * 256 * 2 / 2), abs=1)
    assert row.concurrency == row.max_context // 8192 == 3


def test_the_change_that_is_named_makes_it_fit():
    """Whatever is proposed for a model that does not fit does fit."""
    for gpus, model, asked in [
        ("1xH100", "llama-3.1-70b", {}),
        ("8xH100", "deepseek-v3", {}),
        ("1xL4", "llama-3.1-8b", {"context": 60_000}),
        ("1xRTX4090", "qwen3-32b", {"engine": "sglang"}),
        ("4xT4", "gemma-3-27b", {"engine": "trtllm"}),
    ]:
        found = fitted(gpus, model, **asked)
        assert not found.fits
        assert found.changes

        for change in found.changes:
            again = {**asked, **_options(change)}
            there = str(again.pop("gpus", gpus))
            assert fitted(there, model, **again).fits, (model, change)


def _options(change: str) -> dict[str, object]:
    """The options that a proposed change names: "--gpus 2xh100-sxm" and so on."""
    names = {"isl": "context", "precision": "weights", "kv-precision": "kv"}
    given = dict(re.findall(r"--([a-z-]+) ([^\s)]+)", change))
    return {names.get(k, k): int(v) if k == "isl" else v for k, v in given.items()}


def test_an_fp8_cache_or_less_context_is_proposed_where_the_weights_fit():
    found = fitted("1xL4", "llama-3.1-8b", context=60_000)

    assert [change.split(" (")[0].split(" of at")[0] for change in found.changes[:2]] == [
        "an fp8 KV cache",
        "a context",
    ]


def test_each_class_is_looked_at_alone_with_an_engine_that_serves_it():
    found = fitted("2xH100,1xm3-ultra,1xP100", "llama-3.1-70b")

    assert [(c.device, c.engine) for c in found.classes] == [
        ("h100-sxm", "vllm"),
        ("m3-ultra", "llama.cpp"),
        ("p100-sxm2", "llama.cpp"),
    ]
    assert [any(row.fits for row in c.rows) for c in found.classes] == [True, True, False]


def test_a_class_that_no_engine_serves_says_why():
    (only,) = fitted("1xT4", "llama-3.1-8b", engine="trtllm").classes

    assert only.rows == ()
    assert only.reason == "trtllm does not run on t4 (turing)"


def test_replicas_stay_inside_the_class_and_tp_inside_the_scale_up_domain():
    (only,) = fitted("16xH100", "llama-3.1-70b").classes

    assert max(row.gpus for row in only.rows) == 16
    assert max(row.tp for row in only.rows) == 8


def test_more_context_never_means_more_users():
    users = [
        the(fitted("4xH100", "llama-3.1-70b", context=c), "tp4").concurrency for c in (1024, 8192, 65536)
    ]

    assert users == sorted(users, reverse=True)
    assert users[0] > users[-1] > 0


def test_a_context_beyond_the_models_is_bad_input():
    with pytest.raises(InputError, match=r"1,000,000 tokens: llama-3\.1-8b takes 1 to 131,072"):
        fitted("1xH100", "llama-3.1-8b", context=1_000_000)


def test_the_error_says_how_much_is_missing_and_what_would_help():
    error = infeasible(fitted("1xH100", "llama-3.1-70b"), "1xH100")

    assert error.exit_code == 3
    assert re.search(r"6\d\.\d GiB short on each GPU even with tp1", error.message)
    assert error.hint.startswith("smallest change: 2 x h100-sxm")


def test_a_model_too_large_for_anything_says_so():
    error = infeasible(fitted("1xT4", "kimi-k2", weights="bf16"), "1xT4")

    assert "GiB short" in error.message
    assert error.hint


# What is shown


def test_few_rows_are_shown_those_that_matter_first():
    (only,) = fitted("16xH200", "deepseek-v3").classes

    rows = shown(only.rows)

    assert len(rows) <= 14 < len(only.rows)
    assert [row.fits for row in rows] == [False] + [True] * (len(rows) - 1)
    assert {layout(row) for row in rows} >= {"tp8", "dp8 ep8", "pp8", "pp16", "dp16 ep16"}
    assert [row.gpus for row in rows] == sorted(row.gpus for row in rows)


def test_where_nothing_fits_the_nearest_misses_are_shown():
    (only,) = fitted("8xH100", "deepseek-v3").classes

    rows = shown(only.rows)

    assert 1 <= len(rows) <= 6
    assert min(only.rows, key=lambda row: row.missing_bytes) in rows


# The command


def test_the_command_prints_a_table_and_exits_0(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "2xH100", "--model", "llama-3.1-70b"]) == 0

    out = capsys.readouterr().out
    assert "2 x h100-sxm" in out
    assert re.search(r"2\s+tp2\s+65\.7\s", out)


def test_the_command_exits_3_with_the_reason_and_still_shows_the_table(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xH100", "--model", "llama-3.1-70b"]) == 3

    shown_text = capsys.readouterr()
    assert "GiB short" in shown_text.out
    assert "error: llama-3.1-70b does not fit on 1xH100" in shown_text.err


def test_json_has_every_row(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "4xH100", "--model", "llama-3.1-70b", "--isl", "4096", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    row = next(r for r in answer["classes"][0]["rows"] if r["tp"] == 4)
    parts = ("weights_bytes", "activation_bytes", "reserve_bytes", "kv_bytes")
    assert answer["fits"] is True
    assert answer["context"] == 4096
    assert sum(row[part] for part in parts) == pytest.approx(row["capacity_bytes"])


def test_json_of_what_does_not_fit_is_the_error(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xH100", "--model", "llama-3.1-70b", "--json"]) == 3

    assert json.loads(capsys.readouterr().out)["error"]["code"] == "infeasible"


@pytest.mark.parametrize(
    "args",
    [
        ["--model", "llama-3.1-8b"],
        ["--gpus", "1xH100", "--model", "no-such-model"],
        ["--gpus", "1xH100", "--model", "llama-3.1-8b", "--precision", "fp7"],
        ["--gpus", "1xH100", "--model", "llama-3.1-8b", "--isl", "0"],
        ["--gpus", "1xH100", "--model", "llama-3.1-8b", "--isl", "-5"],
        ["--gpus", "0xH100", "--model", "llama-3.1-8b"],
    ],
)
def test_bad_input_exits_2(args: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(["fit", *args]) == 2
    assert capsys.readouterr().err.startswith("error: ")


# Contexts x users


def test_a_cell_fits_exactly_where_the_row_has_the_users():
    """Cells of Llama 70B on 4 H100 against the table's own count of users."""
    where = from_gpus("4xH100")
    card = catalog.find("llama-3.1-70b")[0]
    for context in (2048, 8192, 32768):
        ask = Ask(card, context)
        found = fit(ask, where)
        cells = grid(ask, where.classes[0], found.classes[0])
        row = next(r for r in cells.cells if r[0].context == context)
        replica = next(r for r in found.classes[0].rows if layout(r) == layout(cells.replica))
        for cell in row:
            assert (cell.tpot_s is not None) == (cell.users <= replica.concurrency)
            assert (cell.missing_bytes > 0) == (cell.limit == "memory") == (cell.tpot_s is None)


def test_time_never_falls_with_context_or_users():
    where = from_gpus("8xH100")
    ask = Ask(catalog.find("qwen3-32b")[0])
    cells = grid(ask, where.classes[0], fit(ask, where).classes[0]).cells
    for lines in (cells, tuple(zip(*cells, strict=True))):
        for line in lines:
            times = [c.tpot_s for c in line if c.tpot_s is not None]
            assert times == sorted(times)
            fits = [c.tpot_s is not None for c in line]
            assert fits == sorted(fits, reverse=True)


def test_one_user_waits_for_weights_and_many_long_ones_for_their_cache():
    where = from_gpus("2xH200")
    ask = Ask(catalog.find("llama-3.1-70b")[0])
    cells = grid(ask, where.classes[0], fit(ask, where).classes[0]).cells
    by_size = {(c.context, c.users): c.limit for row in cells for c in row}

    assert by_size[2048, 1] == "weights"
    assert by_size[32768, 4] == "weights"
    assert by_size[2048, 256] == "memory"


def test_most_users_fill_all_nodes_and_most_context_is_one_users(capsys: pytest.CaptureFixture[str]):
    asked = ["fit", "--gpus", "8xH100", "--model", "llama-3.1-8b", "--max-users", "--max-context", "--json"]
    assert run(asked) == 0
    answer = json.loads(capsys.readouterr().out)

    assert answer["max_context"]["value"] == 131072
    assert answer["max_context"]["limit"] == "the model"
    most = answer["max_users"]
    found = fit(Ask(catalog.find("llama-3.1-8b")[0]), from_gpus("8xH100"))
    for row in found.classes[0].rows:
        assert most["value"] >= (8 // row.gpus) * row.concurrency
    assert most["value"] == max((8 // row.gpus) * row.concurrency for row in found.classes[0].rows)
