"""Pools on this machine: every question answered once, also where the processes that answer are killed."""

import os
import signal
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import pytest

from planner.errors import MeshwrightError
from planner.studies.pools.local import MOST_LOST, Here, Local


def killed_once(folder, question):
    """Twice the question; its process is killed where it is 3 and nobody was killed before."""
    mark = Path(folder, "killed")
    if question == 3 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * question


def killed_always(question):
    os.kill(os.getpid(), signal.SIGKILL)


def raising(question):
    raise MeshwrightError("no")


def all_of(pool, questions):
    found = []
    for question in questions:
        pool.submit(str(question), question)
        while pool.full:
            found.append(pool.next())
    while len(found) < len(questions):
        found.append(pool.next())
    return found


@pytest.mark.parametrize("start", [Here, partial(Local, jobs=2)])
def test_every_question_has_its_answer(start):
    with start(abs) as pool:
        assert sorted(all_of(pool, [-1, -2, -3, -4, -5, -6])) == [(str(-x), x) for x in range(1, 7)]


def test_what_a_killed_process_was_asked_is_asked_again(tmp_path):
    with Local(partial(killed_once, str(tmp_path)), jobs=2) as pool:
        found = all_of(pool, [1, 2, 3, 4, 5, 6])

    assert (tmp_path / "killed").exists()
    assert sorted(found) == [(str(x), 2 * x) for x in range(1, 7)]


def test_a_process_may_be_killed_between_two_questions(tmp_path):
    with Local(partial(killed_once, str(tmp_path)), jobs=1) as pool:
        pool.submit("3", 3)
        wait(list(pool.asked))
        pool.submit("4", 4)
        found = [pool.next(), pool.next()]

    assert sorted(found) == [("3", 6), ("4", 8)]


def test_where_processes_are_killed_again_and_again_the_sweep_says_so_and_ends():
    with Local(killed_always, jobs=1) as pool, pytest.raises(MeshwrightError, match="were killed") as ended:
        all_of(pool, [1])

    assert str(MOST_LOST + 1) in ended.value.message
    assert "the same command goes on" in ended.value.hint


@pytest.mark.parametrize("start", [Here, partial(Local, jobs=1)])
def test_what_the_work_raises_is_raised(start):
    with start(raising) as pool, pytest.raises(MeshwrightError, match="no"):
        all_of(pool, [1])
