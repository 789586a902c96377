"""The run that settles the bold choice, on loads whose times are known."""

from dataclasses import replace
from math import log
from types import SimpleNamespace

import numpy as np
import pytest

from planner.calibration.bold import bold_choice
from planner.calibration.trials import Trial
from planner.inputs.workload import Slo
from planner.question.asked import read
from tests.calibration.test_probe import probe

SLO = Slo(ttft_ms=None, tpot_ms=40.0)
SIGMA = log(2) / 1.2816
"""Times are at most twice as long in nine of ten runs."""


def server(gpus=1):
    return SimpleNamespace(design=SimpleNamespace(gpus=gpus, attn_dp=1))


def chosen(risk, tpots=(10.0, 20.0, 40.0, 80.0), servers=None, slo=SLO):
    """Of servers whose TPOT doubles from load to load: 1, 4, 16 and 64 requests."""
    servers = servers or [server()]
    trials = [Trial(i, 1000, 101, 0.0, 1.0, n) for i in range(len(servers)) for n in (1, 4, 16, 64)]
    here = np.log(np.array([[0.001, tpot] for tpot in tpots]))
    here = np.concatenate([here] * len(servers))
    return bold_choice(servers, trials, here, np.full((len(trials), 2), SIGMA), slo, risk)


def test_the_bold_load_is_the_most_at_the_median_and_kept_half_of_the_time():
    """By hand: 16 at 40 ms; with care 4 at 20 ms. 0.4 and 0.2 tokens/ms."""
    found = chosen(0.1)

    assert found.trial == Trial(0, 1000, 101, 0.0, 0.0, 16)
    assert found.gain == pytest.approx(1.0, rel=1e-3)
    assert found.kept == pytest.approx(0.5)


def test_between_loads_as_many_at_once_as_keep_the_limit():
    assert chosen(0.1, slo=replace_limit(28.2843)).trial.requests == 8


def replace_limit(ms):
    return SLO.model_copy(update={"tpot_ms": ms})


def test_where_care_leaves_nothing_no_gain_is_told():
    found = chosen(0.1, slo=replace_limit(12.0))

    assert found.gain is None
    assert found.kept == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("risk", "slo"), [(0.5, SLO), (0.1, replace_limit(1000.0)), (0.1, replace_limit(5.0))]
)
def test_nothing_is_to_settle_at_the_median_far_from_limits_or_where_nothing_keeps_them(risk, slo):
    assert chosen(risk, slo=slo) is None


def test_the_server_of_the_most_tokens_a_gpu_is_measured():
    assert chosen(0.1, servers=[server(2), server(1)]).trial.server == 1


def test_the_probe_makes_that_run_first():
    asked = read(None, "llama-3.1-70b", "8xH100", "chat", {}, {"engine": "vllm"})
    first, *rest = [run for session in probe(asked).sessions for run in session.runs]

    assert first.bold is not None
    assert first.bold.trial == replace(first.trial, server=first.bold.trial.server)
    assert (first.trial.isl, first.trial.osl) == (1024, 256)
    assert all(run.bold is None for run in rest)
