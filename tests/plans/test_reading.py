"""Plans from files, whole or edited by hand: every slip is one error with a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.plans.reading import read_plan
from planner.plans.schema import Plan

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plan.json"


def test_a_written_plan_is_read_back_equal(tmp_path: Path) -> None:
    plan = Plan.model_validate_json(GOLDEN.read_text())
    copy = tmp_path / "copy.json"
    copy.write_text(plan.model_dump_json(by_alias=True))

    assert read_plan(copy) == plan


def test_precisions_that_are_tried_are_read_back(tmp_path: Path) -> None:
    """JSON knows lists alone."""
    path = edited(tmp_path, '"options": {', '"options": {"precisions": ["fp8", "nvfp4"],')

    assert read_plan(path).problem.options["precisions"] == ["fp8", "nvfp4"]


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """The golden file with one piece of text replaced once."""
    text = GOLDEN.read_text()
    assert old in text
    path = tmp_path / "edited.json"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"tp": 4', '"tp": "4"', "tp"),
        ('"tp": 4', '"tp": true', "tp"),
        ('"tp": 4', '"tp": 4.5', "tp"),
        ('"tp": 4', '"tpp": 4', "tpp"),
        ('"tp": 4', '"tp": 0', "tp"),
        ('"tp": 4', '"tp": null', "tp"),
        ('"count": 4', '"count": 1e99', "count"),
        ('"gap": 0.0', '"gap": NaN, "x": 0.0', "NaN"),
        ('"isl": 1024', '"isl": -5', "isl"),
        ('"device": "l40s"', '"device": ["l40s"]', "device"),
        ('"hidden": 8192', '"hiden": 8192', "hiden"),
        ('"memory_gb_per_s"', '"memory_gbps"', "memory_gbps"),
        ('"gap": 0.01', '"gap": 7', "gap"),
    ],
)
def test_a_slip_is_told_with_line_and_name(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = edited(tmp_path, old, new)
    line = 1 + path.read_text()[: path.read_text().index(new)].count("\n")

    with pytest.raises(InputError) as error:
        read_plan(path)
    assert error.value.exit_code == 2
    assert f"{path}:{line}:" in str(error.value)
    assert field in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"replicas": []}', "\x00\x01", "a: &a [*a]"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)

    with pytest.raises(InputError):
        read_plan(path)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError):
            read_plan(path)


@pytest.mark.parametrize(
    ("part", "missing", "said"), [("cluster", "nodes", "nodes"), ("workload", "buckets", "which requests")]
)
def test_a_missing_part_of_the_problem_is_told(tmp_path: Path, part: str, missing: str, said: str) -> None:
    """A workload may leave out its requests where it is written by hand, not in a plan."""
    data: dict[str, Any] = json.loads(GOLDEN.read_text())
    del data["problem"][part][missing]
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(data))

    with pytest.raises(InputError, match=said):
        read_plan(path)
