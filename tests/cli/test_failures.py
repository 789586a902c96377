"""What goes wrong, as the user sees it."""

from __future__ import annotations

import json

import pytest
import typer

from planner.cli import app
from planner.cli.failures import as_told, render, report
from planner.errors import Infeasible, InputError, MeshwrightError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("bad", "c.yaml:1", "good"), 2, "bad"),
        (Infeasible("none"), 3, "none"),
        (FileNotFoundError(2, "No such file", "x.yaml"), 2, "the system refused: no such file"),
        (MemoryError(), 2, "not enough memory"),
        (KeyError("x"), 1, "unexpected KeyError: 'x'"),
        (ValueError(), 1, "unexpected ValueError: no message"),
        (typer.BadParameter("--rate must be a number."), 2, "invalid value: --rate must be a number"),
    ],
)
def test_every_error_has_our_form_and_its_exit_code(error: BaseException, code: int, said: str):
    told = as_told(error)

    assert (told.exit_code, told.message) == (code, said)


def test_what_the_system_refused_is_named_and_a_bug_says_that_it_is_one():
    assert as_told(PermissionError(13, "Permission denied", "/x")).where == "/x"
    assert "this is a bug" in (as_told(RuntimeError("y")).hint or "")


def test_an_error_says_what_where_and_what_next_and_nothing_that_is_absent():
    assert render(InputError("bad", "c.yaml:1", "good")) == "error: bad\n  at c.yaml:1\nhint: good"
    assert render(MeshwrightError("bad")) == "error: bad"


def test_scripts_get_json_of_what_they_can_act_on(capsys: pytest.CaptureFixture[str]):
    assert report(Infeasible("none"), as_json=True) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["error"]["message"] == "none"
    assert told.err.startswith("error: none")

    assert report(RuntimeError("y"), as_json=True) == 1
    assert report(Infeasible("none"), as_json=False) == 3
    assert capsys.readouterr().out == ""


def test_what_ended_by_itself_keeps_its_code():
    assert [report(SystemExit(code), as_json=True) for code in (4, None, "text")] == [4, 0, 1]


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in render(InputError("bad \x1b[31m", "a\x07b"))


def test_a_mistake_on_the_command_line_is_told_in_one_line(capsys: pytest.CaptureFixture[str]):
    """The parser lists choices on lines of their own."""
    assert app.run(["schema"]) == 2
    assert "Choose from: cluster, workload," in capsys.readouterr().err.splitlines()[0]


def test_a_value_out_of_range_is_told_with_its_option(capsys: pytest.CaptureFixture[str]):
    assert app.run(["pareto", "--gpus", "1xL4", "--model", "x", "--points", "2"]) == 2
    assert "error: `--points` must be at least 3\n" in capsys.readouterr().err
