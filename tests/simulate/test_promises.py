"""Whether a limit was kept: at its percentile, and in a closed loop the mean, but for two per cent."""

from types import SimpleNamespace

import numpy as np
import pytest

from planner.inputs.workload import Slo
from planner.simulate.answer import _promises


def kept(tpot_ms, loop="open", percentile="mean", **limits):
    slo = Slo(**{"ttft_ms": None, "tpot_ms": 50.0, "percentile": percentile} | limits)
    servers = SimpleNamespace(workload=SimpleNamespace(slo=slo, loop=loop))
    times = np.array(tpot_ms)
    found, _ = _promises(servers, np.full(len(times), 100.0), times, 100.0 + 10 * times)
    return {name: p.kept for name, p in found.items()}


@pytest.mark.parametrize(
    ("loop", "mean", "good"), [("closed", 50.9, True), ("closed", 51.1, False), ("open", 50.1, False)]
)
def test_only_a_closed_loop_may_be_a_little_beyond(loop, mean, good):
    assert kept([mean, mean], loop) == {"tpot_ms": good}


def test_a_percentile_is_kept_where_its_share_of_requests_is_within():
    assert kept([40.0] * 90 + [60.0] * 10, percentile="p50") == {"tpot_ms": True}
    assert kept([40.0] * 90 + [60.0] * 10, percentile="p95") == {"tpot_ms": False}


def test_a_limit_on_whole_requests_is_one_too():
    assert kept([40.0], e2e_ms=501.0) == {"tpot_ms": True, "e2e_ms": True}
    assert kept([40.0], e2e_ms=499.0) == {"tpot_ms": True, "e2e_ms": False}
