"""Acceptance from an engine's own counters."""

import json
from pathlib import Path

import pytest

from planner.calibration.counters import acceptance, counted
from planner.errors import InputError

BENCH = Path(__file__).resolve().parents[1] / "calibration" / "bench"


def result(tmp_path, **counts):
    """A run of `vllm bench serve` with these counters beside."""
    run = json.loads((BENCH / "vllm.json").read_text())
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run | {f"spec_decode_{name}": value for name, value in counts.items()}))
    return str(path)


def test_a_run_that_counted_gives_the_probability(tmp_path):
    """3 tokens were drafted 1000 times, 875 of them accepted: 1/2 + 1/4 + 1/8 each time."""
    counts = {"num_drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 875, "acceptance_length": 1.875}
    path = result(tmp_path, **counts)

    assert acceptance(path) == pytest.approx(0.5)
    assert counted({"acceptance": path, "seed": 1}) == {"acceptance": pytest.approx(0.5), "seed": 1}


def test_numbers_stay_as_they_are():
    for options in ({"acceptance": "0.7"}, {"acceptance": 0.7}, {"acceptance": None}, {}):
        assert counted(options) == options


def test_a_run_without_drafts_and_a_file_that_is_not_there_say_so(tmp_path):
    with pytest.raises(InputError, match="no run there says"):
        acceptance(result(tmp_path))
    with pytest.raises(InputError):
        acceptance(str(tmp_path / "nothing.json"))
