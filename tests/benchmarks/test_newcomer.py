"""What newcomers ask is answered: a dozen quick cases of all, and that a bad answer is found."""

import pytest

from benchmarks import newcomer
from benchmarks.newcomer import Case, faults, read

CASES = {case.ask: case for case in read()}
SAMPLE = (
    "A typo in a GPU",
    "A typo in a model",
    "No model at all",
    "A typo in an engine",
    "A rate below zero",
    "More tokens than the model reads",
    "A field of another unit",
    "A GPU of one's own without memory",
    "Export to a target that there is not",
    "A sweep with a typo",
    "CSV over a table of another kind",
    "Which cells of my sweep failed, and why?",
    "What changed since yesterday?",
)


def test_there_are_a_hundred_mistakes_and_forty_questions_each_asked_once() -> None:
    mistakes = [case for case in read() if case.exit == 2]

    assert len(mistakes) >= 100
    assert len(read()) - len(mistakes) >= 40
    assert len(CASES) == len(read())


@pytest.mark.parametrize("ask", SAMPLE)
def test_a_newcomer_is_answered(ask: str) -> None:
    assert list(faults(CASES[ask])) == []


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        (Case(ask="", command="version", exit=2, says=[]), "exit 0, not 2"),
        (Case(ask="", command="version", says=["no such words"]), "does not say `no such words`"),
        (Case(ask="", command="version", says=[], writes=["plan.json"]), "no file was written: plan.json"),
        (Case(ask="", command="version", says=[], first=["devices h101"]), "which comes first, failed"),
    ],
)
def test_a_bad_answer_is_found(case: Case, fault: str) -> None:
    assert fault in "\n".join(faults(case))


def test_an_error_that_nobody_foresaw_is_a_fault_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: unexpected KeyError: 'h100'"
    monkeypatch.setattr(newcomer, "run", lambda *_: (2, said))

    assert "says `unexpected`" in "\n".join(faults(Case(ask="", command="plan", exit=2, says=["h100"])))


def test_an_open_case_fails_no_run_and_says_when_it_is_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = Case(ask="a", command="version", says=["no such words"], open="the words")
    answered = Case(ask="b", command="version", says=[], open="nothing")
    monkeypatch.setattr(newcomer, "read", lambda: [lacking, answered])

    assert newcomer.main([]) == 0
    printed = capsys.readouterr().out
    assert "1. open: a: the words" in printed
    assert "2. answered now, take its `open` out: b" in printed
    assert "1 of 2 answered" in printed

    monkeypatch.setattr(newcomer, "read", lambda: [lacking.model_copy(update={"open": ""})])
    assert newcomer.main([]) == 1
