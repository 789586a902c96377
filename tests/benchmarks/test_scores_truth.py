"""Reading measured rows: those beside the repository, if any."""

import json

import pytest

from benchmarks import accuracy
from benchmarks.truth import RUNS, as_asked, clean_rows, config, group_of
from planner.rows import parse

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
def test_in_sample_predictions_keep_rows_and_their_order(rows):
    some = rows[::300]
    held = accuracy.in_sample(some)

    assert [row["row_id"] for row in held.rows] == [row["row_id"] for row in some]
    assert held.measured_tpot == pytest.approx([float(row["silicon_tpot_ms"]) for row in some])
    assert (held.sigma_ttft > 0).all()


def test_without_measurements_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(accuracy, "RUNS", tmp_path / "none.csv.gz")
    accuracy.main()

    out, err = capsys.readouterr()
    assert (out, err) == ("", "skipped: no measurements beside the repository\n")
