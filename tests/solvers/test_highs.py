"""HiGHS as a guest in our process: Ctrl-C ends it with its best plan, and stdout is ours."""

import os
import signal
import subprocess
import sys
import threading
import time

import highspy
import numpy as np
import pytest

from solvers.linear import Limits, highs
from tests.solvers.test_linear import SMALL

SOLVE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from tests.solvers.test_linear import hard
from solvers.linear import Limits
print("started", flush=True)
outcome = hard().solve(Limits(seconds=600.0))
print(outcome.status, outcome.has_values, outcome.bound is not None and outcome.bound <= outcome.value)
"""


def test_ctrl_c_returns_the_best_plan_so_far():
    """Long before the limit of ten minutes."""
    command = [sys.executable, "-c", SOLVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate(timeout=240)
        finally:
            child.kill()

    assert (out.split(), err) == (["interrupted", "True", "True"], "")


def test_what_c_prints_while_muted_is_lost_and_what_it_prints_after_is_not(capfd):
    with highs._mute():
        os.system("echo lost")
        with highs._mute():
            os.system("echo lost too")
    os.system("echo kept")

    assert capfd.readouterr().out == "kept\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files here")
def test_a_solve_leaves_no_file_open():
    SMALL.solve(Limits())
    before = os.listdir("/proc/self/fd")
    SMALL.solve(Limits())

    assert os.listdir("/proc/self/fd") == before


def test_programs_of_few_rows_and_many_columns_skip_presolve():
    """There it takes a minute and looks at no clock; of all other programs it stays."""
    assert highs.shaped(rows=7, columns=34_040) == {"presolve": "off"}
    assert highs.shaped(rows=3, columns=9_000) == {}
    assert highs.shaped(rows=400, columns=34_040) == {}


@pytest.fixture
def heard():
    """Ctrl-C is heard, as it is not by what a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_ends_a_short_relaxation_and_what_asked_for_it(monkeypatch, capfd):
    """It has no thread of its own, which would take longer than it does. A search has one."""
    threads = list[int]()

    def pressed(solver: highspy.Highs) -> None:
        threads.append(threading.get_ident())
        if threads[-1] == threading.main_thread().ident:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(highspy.Highs, "run", pressed)
    short = highs.Relaxation(SMALL, [0])

    with pytest.raises(KeyboardInterrupt):
        SMALL.relax(Limits())
    with pytest.raises(KeyboardInterrupt):
        short.within(np.zeros(1), np.ones(1))
    assert threads == 2 * [threading.main_thread().ident]
    monkeypatch.setattr(highs, "SHORT", 0)
    SMALL.relax(Limits())
    SMALL.solve(Limits())
    assert threading.main_thread().ident not in threads[2:]
    os.system("echo not muted")
    assert capfd.readouterr().out == "not muted\n"


def test_a_short_relaxation_keeps_its_time_limit():
    assert SMALL.relax(Limits(seconds=0.0)).status == "time_limit"
    assert SMALL.relax(Limits()).status == "optimal"
