"""`meshwright schedule`: how options become the question, exit codes, what is printed and written."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from planner.cli import schedule as command
from planner.cli.app import run
from planner.errors import InputError
from planner.schedule.answer import Ask, Schedule
from tests.schedule.samples import DAY

LINE = ["schedule", "c.yaml", "-m", "qwen3-8b", "-w", "day.yaml"]
ASKED = SimpleNamespace(
    warnings=[SimpleNamespace(message="the day has a gap")],
    card=SimpleNamespace(name="qwen3-8b"),
    cluster=SimpleNamespace(name="cloud"),
)


class Fake:
    """Stands for what reads the question and what answers it: remembers both."""

    read: tuple[Any, ...]
    ask: Ask
    answer: Schedule = DAY


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()

    def read(*args: Any) -> SimpleNamespace:
        made.read = args
        return ASKED

    def scheduled(asked: Any, ask: Ask) -> Schedule:
        assert asked is ASKED
        made.ask = ask
        return made.answer

    monkeypatch.setattr("planner.question.asked.read", read)
    monkeypatch.setattr("planner.schedule.answer.schedule", scheduled)
    return made


def test_what_is_not_said_is_the_questions_own_default(fake: Fake) -> None:
    assert run(LINE) == 0

    assert fake.ask == Ask()
    engine = {"engine": "any", "precision": None, "kv_precision": None}
    assert fake.read == ("c.yaml", "qwen3-8b", None, "day.yaml", {}, engine)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--cold-start 90", {"cold_s": 90.0}),
        ("--min-up 240", {"min_up_s": 14_400.0}),
        ("--reserved 0.6", {"reserved": 0.6}),
        ("--spot-share 0 --spot-losses 9", {"spot_share": 0.0, "spot_losses": 9.0}),
        ("--margin 25", {"margin": 0.25}),
        ("--margin 1000", {"margin": 10.0}),
        ("--short 100%", {"short": 1.0}),
        ("--scale 2.5", {"scale": 2.5}),
    ],
)
def test_options_in_their_units_become_the_question(fake: Fake, words: str, expected: dict[str, Any]) -> None:
    assert run([*LINE, *words.split()]) == 0

    assert fake.ask == replace(Ask(), **expected)


def test_the_search_and_the_engine_are_as_told(fake: Fake) -> None:
    words = "--gap 0.01 --time-limit 5 --seed 3 --engine sglang --precision fp8 --kv-precision fp8"
    assert run([*LINE, *words.split()]) == 0

    limits = fake.ask.limits
    assert (limits.gap, limits.seconds, limits.seed) == (0.01, 5.0, 3)
    assert fake.read[-1] == {"engine": "sglang", "precision": "fp8", "kv_precision": "fp8"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--cold-start=-1", "-1 is not from 0 to 1e+06"),
        ("--min-up=-1", "--min-up"),
        ("--reserved 0", "0 is not from 0.01 to 1"),
        ("--spot-share 1.01", "1.01 is not from 0 to 1"),
        ("--spot-losses 61", "61 is not from 0 to 60"),
        ("--scale 0", "0 is not from 1e-06 to 1e+06"),
        ("--gap 1.5", "--gap"),
        ("--time-limit 0.4", "0.4 is not from 0.5 to 100000"),
        ("--margin 1001", "`1001` is no percentage"),
        ("--short x", "`x` is no percentage"),
        ("--short 101", "`101` is no percentage"),
        ("-o day.xlsx", "let it end in .csv, .json, .yaml"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_read(
    fake: Fake, words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*LINE, *words.split()]) == 2

    told = capsys.readouterr()
    assert says in told.err
    assert told.out == ""
    assert not hasattr(fake, "ask")


@pytest.mark.parametrize(
    ("text", "share"), [("10", 0.1), ("10 %", 0.1), (" 2.5% ", 0.025), ("0", 0.0), ("100", 1.0)]
)
def test_a_percentage_is_a_share_with_its_sign_or_without(text: str, share: float) -> None:
    assert command._percent(text, "--short", 100) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "-1", "100.1", "ten", "nan", "inf", "5%%%5"])
def test_what_is_no_percentage_names_its_option_and_what_would_be_one(text: str) -> None:
    with pytest.raises(InputError, match="is no percentage") as error:
        command._percent(text, "--short", 100)

    assert (error.value.where, error.value.hint) == ("--short", "0 to 100, as in --short 10")


@pytest.mark.parametrize(
    ("status", "code"), [("optimal", 0), ("within_gap", 0), ("time_limit", 4), ("interrupted", 4)]
)
def test_a_schedule_that_is_not_proven_exits_4_and_is_printed_all_the_same(
    fake: Fake, status: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.answer = replace(DAY, status=status)
    assert run(LINE) == code

    told = capsys.readouterr()
    assert told.out.startswith("qwen3-8b on cloud over 24 h in 4 slots")
    assert told.err == "warning: the day has a gap\n"


def test_json_is_the_schedule_and_nothing_else(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LINE, "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(DAY.as_json()))
    assert [u["name"] for u in found["units"]] == ["h", "s"]
    assert found["hours"] == 24.0


def test_a_file_has_the_units_of_every_slot(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "day.csv"
    assert run([*LINE, "-o", str(path)]) == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))

    assert list(rows[0]) == ["start_s", "rate_rps", "sized_rps", "h", "s"]
    assert [(r["start_s"], r["h"], r["s"]) for r in rows] == [
        ("0.0", "1", "0"), ("21600.0", "2", "1"), ("43200.0", "2", "1"), ("64800.0", "0", "0"),
    ]  # fmt: skip
    assert f"written to {path}" in capsys.readouterr().err


def test_json_in_a_file_is_what_is_printed(fake: Fake, tmp_path: Path, capsys) -> None:
    path = tmp_path / "day.json"
    assert run([*LINE, "--json", "-o", str(path)]) == 0

    assert path.read_text() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("keda", ["ScaledObject", "ScaledObject"]),
        (
            "hpa",
            [
                *("ServiceAccount", "Role", "RoleBinding"),
                *("HorizontalPodAutoscaler", "CronJob", "CronJob", "CronJob"),
                *("HorizontalPodAutoscaler", "CronJob", "CronJob", "CronJob"),
            ],
        ),
    ],
)
def test_a_manifest_is_of_the_autoscaler_that_is_named(form: str, kinds: list[str]) -> None:
    objects = list(YAML(typ="safe").load_all(command._written(DAY, "day.yaml", form)))

    assert [o["kind"] for o in objects] == kinds


def test_a_manifest_that_cron_cannot_say_leaves_no_file(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.answer = replace(DAY, slot_s=90.0)
    path = tmp_path / "day.yaml"
    assert run([*LINE, "-o", str(path)]) == 2

    assert "whole minutes" in capsys.readouterr().err
    assert not path.exists()
