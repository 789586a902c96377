"""HiGHS as a guest in our process: Ctrl-C ends it with its best plan, and stdout is ours."""

import os
import signal
import subprocess
import sys
import time

from solvers.linear import highs

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


def test_programs_of_few_rows_and_many_columns_skip_presolve():
    """There it takes a minute and looks at no clock; of all other programs it stays."""
    assert highs.shaped(rows=7, columns=34_040) == {"presolve": "off"}
    assert highs.shaped(rows=3, columns=9_000) == {}
    assert highs.shaped(rows=400, columns=34_040) == {}
