"""KV room of operating points: what is left free keeps waiting and preemption rare, by the whole law."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.cache import admitted, prompt_byte_s, spare_bytes
from planner.candidates.largest import most as most_of
from planner.candidates.points import batched
from planner.candidates.setup import predict
from planner.inputs.workload import Bucket, Slo
from planner.queueing.spare import DELAYED, PREEMPTED
from tests.candidates.samples import CHAT, TWO, ask, one_setup

LONG = [Bucket(isl=100, osl=1000, share=0.5), Bucket(isl=3000, osl=2000, share=0.5)]
LOADS = {"chat": CHAT, "two": TWO, "long": CHAT.model_copy(update={"buckets": LONG})}
LOOSE = Slo(ttft_ms=60_000, tpot_ms=3000)


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
@pytest.mark.parametrize("rate", [None, 20.0], ids=["closed", "open"])
@pytest.mark.parametrize("load", list(LOADS))
def test_the_largest_batch_that_room_allows_keeps_the_stated_chances(load, rate, engine):
    """And uses the room: somewhere one of the two chances is near its limit, unless all lengths are equal."""
    s = one_setup(
        ask(workload=LOADS[load].model_copy(update={"rate_rps": rate, "slo": LOOSE})), engine, "4xL4"
    )
    index = np.flatnonzero(s.memory.kv_bytes > 0)
    most = most_of(s, index, "mixed")
    some = (most >= 10) & (most < 1024)
    index, most = index[some], most[some]
    p = batched(s, index, most, "mixed")
    e = predict(s, p.step, p.rate[:, None] * s.mix.share, "mixed")
    prompts = p.rate * (prompt_byte_s(s, index, p.step, "mixed") @ s.mix.share) / s.memory.kv_bytes[index]

    met = [
        admitted(s, index[[k]], p.rate[k] * s.mix.share, e.tpot_s[k], e.utilisation[k], prompts[k], loop)
        for loop in [s.promise.loop]
        for k in range(len(index))
    ]

    full = (p.rate * (p.kv_share @ s.mix.share)).max()
    assert full > 0.95
    assert max(a.preempted for a in met) <= PREEMPTED * 1.2
    assert max(a.delayed for a in met) <= DELAYED[s.promise.loop] * 1.2
    if rate or load != "chat":
        near = max(max(a.preempted / PREEMPTED, a.delayed / DELAYED[s.promise.loop]) for a in met)
        assert near > 0.5


def test_nothing_is_left_free_where_all_hold_the_same_for_good():
    s = one_setup(engine="trtllm")

    assert spare_bytes(s, np.array([0]), np.array([40.0]), np.array([0.5])) == pytest.approx(0.0, abs=1.0)


def test_more_is_left_free_under_random_arrivals():
    """Their number varies beside their lengths, the more the busier the server is."""
    closed = one_setup()
    open_ = one_setup(ask(workload=CHAT.model_copy(update={"rate_rps": 5.0})))
    at = np.array([0]), np.array([40.0])

    calm, busy = (spare_bytes(open_, *at, np.array([u]))[0] for u in (0.2, 0.8))

    assert spare_bytes(closed, *at, np.array([0.8]))[0] < calm < busy
