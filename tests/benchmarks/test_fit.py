"""What a fit ships: the levels that servers share, not what each has of its own."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.fit import MODEL, SERVER, shared, written
from planner.calibration.fitting import Effect
from planner.cost.calibration import Calibration

FIT = SimpleNamespace(
    around=Calibration(),
    effects=(
        Effect("request_s", "engine", "vllm", 0.5),
        Effect("request_s", SERVER, "vllm h100-sxm x", 0.3),
        Effect("request_s", MODEL, "vllm x", 0.4),
        Effect("step_s", "engine", "vllm", 1.0),
    ),
    x=np.array([np.log(2.0), np.log(3.0), np.log(5.0), 0.001]),
)


def test_a_servers_own_factors_do_not_ship():
    assert shared(FIT).factors["request_s"] == {
        "engine": {"vllm": pytest.approx(2.0)},
        MODEL: {"vllm x": pytest.approx(5.0)},
    }


def test_the_file_leaves_out_what_is_not_felt():
    text = written(FIT, {"tpot": {"all": {"all": 0.1}}}, 0.0, {"rows": 3})

    assert "engine: {vllm: 2, llama.cpp: 0.57}" in text
    assert SERVER not in text
    assert "vllm: 1" not in text
