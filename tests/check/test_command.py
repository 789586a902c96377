"""`meshwright check` and `meshwright diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.check import RULES
from planner.cli.app import run

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plan.json"


@pytest.fixture
def overweight(tmp_path: Path) -> Path:
    """The golden plan with more cache on a GPU than the GPU has."""
    data: dict[str, Any] = json.loads(GOLDEN.read_text())
    data["replicas"][0]["memory"][0]["kv_bytes"] *= 2
    path = tmp_path / "overweight.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def test_a_sound_plan_exits_0_and_says_what_was_verified(capsys: Any) -> None:
    assert run(["check", str(GOLDEN)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("sound")
    assert all(rule.what in out for rule in RULES)
    assert err == ""


def test_an_unsound_plan_exits_2_and_names_the_limit(overweight: Path, capsys: Any) -> None:
    assert run(["check", str(overweight)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "memory_over" in err
    assert "replicas[0].memory[0]" in err


def test_json_has_the_verdict_and_the_common_error(overweight: Path, capsys: Any) -> None:
    assert run(["check", str(overweight), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["sound"] is False
    assert answer["violations"][0]["code"] == "memory_over"
    assert answer["error"]["code"] == "memory_over"
    assert set(answer["error"]) == {"code", "message", "where", "hint"}


def test_json_of_a_sound_plan_lists_what_was_verified(capsys: Any) -> None:
    assert run(["check", str(GOLDEN), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sound"] is True
    assert answer["violations"] == []
    assert set(answer["verified"]) == {rule.name for rule in RULES}


def test_how_far_speed_is_above_what_would_be_refused_is_said_and_true(tmp_path: Path, capsys: Any) -> None:
    """Steps told faster by less than that still pass, by more they do not."""
    assert run(["check", str(GOLDEN), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["speed_above_least"]
    data: dict[str, Any] = json.loads(GOLDEN.read_text())
    at = next(i for i, line in enumerate(lines) if "decode steps" in line)
    above = float(lines[at].split("decode steps ")[1].split()[0])
    assert above > 1.0
    assert run(["check", str(GOLDEN)]) == 0
    assert lines[at] in capsys.readouterr().out

    refused = []
    for factor in (0.9 * above, 1.1 * above):
        step = json.loads(json.dumps(data))
        own = step["replicas"][at]["step"]
        own["decode_s"] /= factor
        own["engine_s"] = min(own["engine_s"], own["decode_s"])
        path = tmp_path / "faster.json"
        path.write_text(json.dumps(step))
        run(["check", str(path), "--json"])
        codes = {v["code"] for v in json.loads(capsys.readouterr().out)["violations"]}
        refused.append("decode_below_roofline" in codes)
    assert refused == [False, True]


def test_a_file_that_is_no_plan_exits_2_with_its_place(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "bad.json"
    path.write_text(GOLDEN.read_text().replace('"tp": 4', '"tp": "four"', 1))

    assert run(["check", str(path)]) == 2
    assert f"{path}:" in capsys.readouterr().err


def test_diff_of_equal_plans_says_so(capsys: Any) -> None:
    assert run(["diff", str(GOLDEN), str(GOLDEN)]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_diff_shows_before_and_after(tmp_path: Path, capsys: Any) -> None:
    data: dict[str, Any] = json.loads(GOLDEN.read_text())
    data["replicas"][0]["count"] = 3
    path = tmp_path / "other.json"
    path.write_text(json.dumps(data))

    assert run(["diff", str(GOLDEN), str(path)]) == 0
    assert ".count: 4 -> 3 (-25.0 %)" in capsys.readouterr().out
    assert run(["diff", str(GOLDEN), str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["after"] == 3
