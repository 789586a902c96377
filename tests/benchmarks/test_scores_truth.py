"""Reading measured rows: those beside the repository, if any."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.held_out import as_held, bands, bench_of, sigmas
from benchmarks.truth import RUNS, as_asked, clean_rows, config, group_of
from planner.cost.calibration import Traits
from planner.predict.rows import parse

SERVER = Traits("vllm", "hopper", "h100-sxm", "fp8", "none", "x")

needs_runs = pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads")


@pytest.fixture(scope="module")
def rows():
    return clean_rows()


@needs_runs
def test_clean_rows_are_aggregated_unsuspected_and_can_be_asked(rows):
    assert len(rows) == 1889
    assert {row["mode"] for row in rows} == {"agg"}
    assert not any(row["suspect"] for row in rows)
    assert all(parse(as_asked(row)).osl == int(row["osl"]) for row in rows)


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
    found = sigmas(errors, [SERVER] * 10, [("a",)] * 5 + [("b",)] * 5)

    assert found[0] == pytest.approx(np.array([1.0, 0.5]) / 1.2816, rel=1e-3)
    assert found[9] == pytest.approx(np.array([0.1, 0.1]) / 1.2816, rel=1e-3)


def test_a_narrower_level_is_drawn_to_the_wider_one_by_how_few_groups_it_has():
    """By hand, in variances: one group of experts at 1.0 counts 1 beside 5 of the engine's."""
    errors = np.array([[0.1, 0.1]] * 9 + [[1.0, 1.0]])
    servers = [SERVER] * 9 + [replace(SERVER, experts="fp8")]
    found = bands(errors, servers, [(str(i),) for i in range(10)])["tpot"]

    engine = found["engine"]["vllm"]
    assert engine == pytest.approx(0.1 / 1.2816, rel=1e-3) == found["all"]["all"]
    expected = ((5 * engine**2 + (1.0 / 1.2816) ** 2) / 6) ** 0.5
    assert found["engine+experts"]["vllm fp8"] == pytest.approx(expected, rel=1e-3)
    assert found["engine+experts"]["vllm none"] == pytest.approx(engine)
