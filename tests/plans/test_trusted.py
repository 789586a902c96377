"""What a sound plan asks to be believed is said, and what it embeds is compared with the catalogs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli.app import run
from planner.plans.schema import Plan
from planner.plans.trusted import SAID_ONLY, differences
from tests.check.plans import SOUND

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plan.json"


def changed(change: Any) -> list[str]:
    """What differs in a sound plan of catalog devices after a change."""
    found = json.loads(GOLDEN.read_text())
    before = set(differences(Plan.model_validate(found)))
    change(found["problem"])
    return [line for line in differences(Plan.model_validate(found)) if line not in before]


def faster(problem: dict[str, Any]) -> None:
    device = problem["devices"]["h100-sxm"]
    device["tflops"] = {name: 10 * rate for name, rate in device["tflops"].items()}


def renamed(problem: dict[str, Any]) -> None:
    problem["devices"]["h100-sxm"]["name"] = "h900"


def test_a_device_ten_times_as_fast_is_named_by_each_rate() -> None:
    lines = changed(faster)
    assert lines
    assert all(line.startswith("device h100-sxm: tflops.") and "in the catalog" in line for line in lines)


def test_a_device_of_no_catalog_is_named() -> None:
    assert changed(renamed) == ["device h900: not in the catalog"]


@pytest.mark.parametrize(
    ("model_id", "lines"),
    [
        ("meta-llama/Llama-3.1-8B", ["model_id meta-llama/Llama-3.1-8B: is llama-3.1-8b in the catalog"]),
        ("meta-llama/Meta-Llama-3.1-70B", []),
        ("someone/own-model", []),
        ("/models/llama-3.1-8b", []),
    ],
)
def test_an_id_of_another_model_is_named(model_id: str, lines: list[str]) -> None:
    found = changed(lambda problem: problem.update(model_id=model_id))
    assert [line.partition(",")[0] for line in found] == lines


def test_a_card_with_other_sizes_is_named() -> None:
    found = changed(lambda problem: problem["model"].update(hidden=1024, hf_id="other/model"))
    assert [line.partition(" ")[2].partition(",")[0] for line in found] == [
        "llama-3.1-70b: hf_id other/model",
        "llama-3.1-70b: hidden 1024",
    ]


@pytest.mark.parametrize("name", SOUND)
def test_plans_of_the_catalog_differ_in_nothing(name: str) -> None:
    assert differences(SOUND[name]()) == []


def test_a_sound_plan_is_printed_with_what_is_believed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(GOLDEN)]) == 0
    out = capsys.readouterr().out
    assert "said, not checked:" in out
    assert all(what in out for what in SAID_ONLY.values())
    assert run(["check", str(GOLDEN), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["said_only"] == SAID_ONLY
