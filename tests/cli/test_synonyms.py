"""Words of other tools lead to ours."""

from __future__ import annotations

import pytest

from planner.cli import app, synonyms
from planner.cli.spelling import options_of

GUESSES = [(ours, other) for ours, others in synonyms.OPTIONS.items() for other in others]


def own_options(command: str) -> set[str]:
    function = app.function_of(command)
    return {name for option in options_of(function, app.load(command)) for name in option.names}


def test_every_word_that_is_named_as_ours_is_an_option_of_plan() -> None:
    own = own_options("plan")

    assert {word for ours in synonyms.OPTIONS for word in ours.split() if word.startswith("--")} <= own


def test_no_word_of_others_is_an_option_of_plan_and_none_means_two_things() -> None:
    words = [other for _, other in GUESSES]
    words += [*synonyms.CHOSEN, *synonyms.BATCH, *synonyms.ELSEWHERE]

    assert not set(words) & own_options("plan")
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("ours", "other"), GUESSES)
def test_an_option_by_its_other_name_is_told_ours(
    ours: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["plan", "--gpus", "8xH100", "-m", "llama-3.1-8b", f"{other}=1"]) == 2
    assert f"here it is {ours}" in capsys.readouterr().err


@pytest.mark.parametrize("word", [*synonyms.CHOSEN, *synonyms.BATCH])
def test_what_the_planner_chooses_is_said_to_be_chosen(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", "--gpus", "8xH100", "-m", "llama-3.1-8b", word, "8"]) == 2
    assert "the planner chooses it" in capsys.readouterr().err


def test_every_command_that_is_named_as_ours_is_one_and_no_other_word_is() -> None:
    others = [word for words in synonyms.COMMANDS.values() for word in words]

    assert set(synonyms.COMMANDS) <= set(app.COMMANDS)
    assert not set(others) & set(app.COMMANDS)
    assert len(others) == len(set(others))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["optimize", "--gpus", "8xH100"], "meshwright plan: "),
        (["deploy", "plan.json"], "meshwright export: "),
        (["gpus"], "meshwright devices: "),
        (["plan", "-m", "m", "--engine", "tensorrt-llm"], "did you mean `trtllm`?"),
        (["plan", "-m", "m", "--objective", "price"], "did you mean `cost`?"),
        (["plan", "-m", "m", "--percentile", "median"], "did you mean `p50`?"),
    ],
)
def test_commands_and_values_by_other_names(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(args) == 2
    assert says in capsys.readouterr().err


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["help", "plan"]) == 0
    assert "meshwright plan [OPTIONS]" in capsys.readouterr().out


def test_an_option_that_a_command_has_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """`fit --users` is an option, `plan --users` a word for something else."""
    assert "--users" in own_options("fit")
    app.run(["plan", "--gpus", "8xH100", "-m", "llama-3.1-8b", "--users", "4"])
    assert "--loop closed" in capsys.readouterr().err
