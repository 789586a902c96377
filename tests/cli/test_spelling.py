"""Words of a command line as people write them."""

from __future__ import annotations

import io
import sys

import pytest

from planner.cli import app
from planner.cli.output import LIKE, plain
from planner.designs.precision import precision_named
from planner.errors import InputError
from planner.reading.documents import Document
from planner.reading.units import amount
from planner.reading.validation import in_units
from planner.reports.curve import EIGHTHS
from planner.reports.simulated import BLOCKS


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["--engine", "vLLM"], ["--engine", "vllm"]),
        (["--engine=VLLM"], ["--engine", "vllm"]),
        (["--percentile", "P95"], ["--percentile", "p95"]),
        (["--percentile", "95"], ["--percentile", "p95"]),
        (["--isl", "4k"], ["--isl", "4000"]),
        (["--isl", "4K"], ["--isl", "4096"]),
        (["--rate", "10/s"], ["--rate", "10"]),
        (["--time-limit", "2min"], ["--time-limit", "120"]),
        (["--json", "-m", "x"], ["--json", "-m", "x"]),
        (["-m", "a", "-m", "b"], ["-m", "a", "-m", "b"]),
    ],
)
def test_values_are_read_as_they_are_meant(written, read):
    assert app.told(["plan", *written]) == ["plan", *read]


@pytest.mark.parametrize(
    "twice", [["--isl", "1", "--isl", "2"], ["-w", "a", "--workload", "b"], ["--json", "--json"]]
)
def test_an_option_that_is_given_twice_is_an_error(twice):
    with pytest.raises(InputError, match="given twice"):
        app.told(["plan", *twice])


def test_an_option_without_its_value_says_what_it_takes():
    with pytest.raises(InputError, match="`--rate` is given no value") as error:
        app.told(["plan", "--rate"])

    assert (error.value.where, error.value.hint) == ("--rate", "give requests a second, such as 12.5")


def test_a_choice_that_is_none_has_the_list_and_the_nearest():
    with pytest.raises(InputError) as error:
        app.told(["plan", "--engine", "vlm"])

    assert "vllm, sglang, trtllm" in error.value.message
    assert error.value.hint == "did you mean `vllm`?"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("10Gbit/s", "gb_per_s", 1.25),
        ("10 Gbps", "nic_gb_per_s", 1.25),
        ("10Gb/s", "gb_per_s", 1.25),
        ("10GB/s", "gb_per_s", 10.0),
        ("10GBps", "gb_per_s", 10.0),
        ("900 GB/s", "intra_gb_per_s", 900.0),
        ("80GB", "memory_gb", 80.0),
        ("2TB", "gb", 2000.0),
        ("2s", "ttft_ms", 2000.0),
        ("150ms", "ttft_ms", 150.0),
        ("20kW", "watts", 20000.0),
        ("60/min", "rate_rps", 1.0),
        ("80", "memory_gb", None),
        ("2s", "memory_gb", None),
        ("fast", "gb_per_s", None),
    ],
)
def test_quantities_come_in_the_unit_of_their_field(text, field, value):
    assert amount(text, field) == pytest.approx(value) if value is not None else amount(text, field) is None


def test_quantities_of_a_file_are_numbers_and_all_else_stays():
    read = in_units({"links": [{"gb_per_s": "10Gbit/s", "between": ["a", "b"]}], "name": "4k", "isl": "4k"})

    assert read == {"links": [{"gb_per_s": 1.25, "between": ["a", "b"]}], "name": "4k", "isl": 4000}
    assert isinstance(read["isl"], int)


def test_a_field_in_another_unit_is_converted_in_the_hint():
    from cluster_configs.reading import from_document

    link = {"between": ["a", "b"], "gbit_per_s": 10}
    with pytest.raises(InputError) as error:
        from_document(Document({"name": "x", "nodes": [{"device": "l4"}], "links": [link]}, "x.yaml"))

    assert error.value.hint.startswith("write `gb_per_s: 1.25`")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("q4_k_m", "int4_wo"),
        ("Q8_0", "int8"),
        ("AWQ", "int4_wo"),
        ("fp4", "nvfp4"),
        ("FP8", "fp8"),
    ],
)
def test_precisions_are_understood_by_their_other_names(said, meant):
    assert precision_named(said) == meant


def test_bars_and_levels_have_likes_of_their_own():
    """A queue over time would be a line of question marks; of levels no two are alike."""
    signs = {*BLOCKS, *EIGHTHS, "±"} - {" "}

    assert signs <= set(LIKE)
    assert len({LIKE[level] for level in BLOCKS[1:]}) == len(BLOCKS) - 1


def test_ascii_streams_write_likes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    plain(stream)
    stream.write("4 × 80 GB · █▓ ≤ ☃")
    stream.flush()

    assert stream.buffer.getvalue() == b"4 x 80 GB - #= <= ?"
    plain(sys.stdout)
