"""Ordinary questions: what is drawn, and what is said of one with a split and of one without."""

import pytest

from benchmarks.choice import ordinary
from benchmarks.choice.ordinary import LENGTHS, MODELS, NODES, Answer, Question, answered, drawn, report

Q = Question("8xH100", "llama-3.1-8b", 1024, 256)


def test_questions_are_drawn_from_the_grid_without_doubles():
    few, every = list(drawn(10, 1)), list(drawn(10_000, 0))

    assert len({*few}) == 10
    assert {*few} < {*every}
    assert len(every) == len(NODES) * len(MODELS) * len(LENGTHS)
    assert few != list(drawn(10, 2))


def test_gpus_without_peer_to_peer_do_not_split():
    answer = answered(Question("4xL40S", "llama-3.1-8b", 8000, 200))

    assert answer is not None
    assert (answer.peers, answer.gain, answer.shows) == (False, None, False)


def test_what_keeps_no_limit_has_no_answer():
    assert answered(Question("4xRTX-4090", "llama-3.1-70b", 8000, 200)) is None


def test_the_table_counts_splits_of_the_best_fleet_and_of_the_plan(monkeypatch):
    """Of four two gain 1.2 and 1.04, of which the plan shows the first."""
    answers = [Answer(Q, True, 1.2, True), Answer(Q, True, 1.04, False), Answer(Q, True, None, False)]
    found = iter([*answers, Answer(Q, False, None, False), None])
    monkeypatch.setattr(ordinary, "answered", lambda question: next(found))
    lines = report(5).splitlines()

    (peers,) = [line for line in lines if line.startswith("with peer")]
    (every,) = [line for line in lines if line.startswith("all")]
    assert peers.split()[-8:] == ["3", "2", "(66.7%)", "1.12", "1.20", "1", "(33.3%)", "1.20"]
    assert every.split()[1:4] == ["4", "2", "(50.0%)"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_of_none_prints_the_head_alone(seed):
    assert len(report(0, seed).splitlines()) == 1
