"""Operating points: the largest batch is a boundary, KV in use is Little's law, rates follow from steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates.largest import MOST_SEQUENCES, busiest, closed, largest, most
from planner.candidates.mix import Mix
from planner.candidates.points import KEPT, at_rate, batched, prefilling
from planner.inputs.workload import Bucket
from planner.queueing.admission import Lengths
from planner.queueing.spare import deviations
from tests.candidates.samples import CHAT, TWO, ask, one_setup, promising

ROLES = ("mixed", "decode")


def keeps(s, index, batch, role):
    """Whether some bucket keeps the promise at each batch."""
    return batched(s, index, batch.astype(float), role).excess.min(axis=1) <= KEPT


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
@pytest.mark.parametrize("workload", [CHAT, TWO], ids=["one bucket", "two"])
def test_the_largest_batch_keeps_the_promise_and_any_more_breaks_it(engine, workload):
    s = one_setup(ask(workload=workload), engine)
    every = np.arange(len(s.designs))

    for role in ROLES:
        largest_batch = most(s, every, role)
        some, limited = largest_batch > 0, (largest_batch > 0) & (largest_batch < 0.99 * MOST_SEQUENCES)
        assert limited.any()
        assert keeps(s, every[some], largest_batch[some] * (1 - 1e-6), role).all()
        assert not keeps(s, every[limited], largest_batch[limited] * (1 + 1e-6), role).any()


def test_both_roles_at_once_are_the_same_as_each_alone():
    s = one_setup(ask(workload=TWO))
    every, limit = np.arange(len(s.designs)), s.promise.tpot_s

    both = largest(s, every, [(role, limit) for role in ROLES])[0]

    for found, role in zip(both, ROLES, strict=True):
        assert found == pytest.approx(largest(s, every, [(role, limit)])[0][0], rel=1e-6)


def test_a_tighter_step_is_the_promise_with_that_step():
    s = one_setup(ask(workload=TWO))
    every = np.arange(len(s.designs))
    tight = replace(s, promise=replace(s.promise, tpot_s=0.02))

    here, there = (largest(one, every, [("decode", 0.02)])[0] for one in (s, tight))

    assert here == pytest.approx(there, rel=1e-6)


@settings(max_examples=15)
@given(tpot=st.floats(8, 100), ttft=st.floats(100, 4000), more=st.floats(1, 3))
def test_a_looser_promise_never_lowers_the_largest_batch(tpot, ttft, more):
    tight = one_setup(promising(CHAT, tpot_ms=tpot, ttft_ms=ttft))
    loose = one_setup(promising(CHAT, tpot_ms=tpot * more, ttft_ms=ttft * more))
    every = np.arange(len(tight.designs))

    for role in ROLES:
        assert (most(loose, every, role) >= most(tight, every, role) * (1 - 1e-6)).all()


@settings(max_examples=40)
@given(st.lists(st.floats(1.5, 900.0), min_size=1, max_size=5), st.floats(0.4, 3.0), st.booleans())
def test_the_largest_load_is_closed_from_both_sides(limits, power, steep):
    """Of x^power against limits, with a wall where `steep`: nothing is exceeded below, something above."""
    wall = 500.0 if steep else np.inf

    def at(rows, x):
        return np.where(x > wall, np.inf, (x / np.array(limits)[rows]) ** power - 1)

    rows = np.arange(len(limits))
    tries = np.tile(np.geomspace(1.0, 1000.0, 6), (len(limits), 1))
    excess = at(np.repeat(rows, 6), tries.ravel()).reshape(-1, 6)

    low, high = closed(at, tries, excess)

    assert low == pytest.approx(np.minimum(limits, wall), rel=1e-4)
    assert (at(rows, low) <= 1e-7).all()
    assert (high >= np.minimum(limits, wall) * (1 - 1e-7)).all()


@settings(max_examples=20)
@given(rate=st.floats(0.05, 3.0), role=st.sampled_from(ROLES))
def test_the_batch_of_a_rate_makes_that_rate(rate, role):
    s = one_setup()
    index = np.array([0, 1])

    found = at_rate(s, index, np.full(2, rate), role)
    again = batched(s, index, found.sequences, role)

    assert again.rate == pytest.approx(found.rate, rel=1e-6)
    assert again.tpot_s == pytest.approx(found.tpot_s, rel=1e-5)


def test_kv_in_use_is_littles_law_by_hand():
    """Decode servers, closed loop: 1 request/s holds isl + osl/2 tokens for (osl - 1) * TPOT seconds; of the
    room deviations of 40 uniform outputs are left free."""
    s = one_setup()
    index, batch = np.array([0]), np.array([40.0])

    points = batched(s, index, batch, "decode")

    token_bytes = 32 * 2 * 8 * 128 * 2  # layers, K and V, KV heads, width, 16 bit; on one GPU
    assert s.designs.gpus[0] == 1
    held = (1000 + 200 / 2 + 15 / 2) * token_bytes  # half of the last block of 16 is empty
    spread = 200 / np.sqrt(12) * np.sqrt(40)  # tokens: outputs are anywhere between none and all
    lengths = Lengths(np.array([1007.5]), np.array([200.0]), np.array([1.0]))
    free = deviations(lengths, np.array([spread]), "closed")[0] * spread
    room = s.memory.kv_bytes[0] - free * token_bytes
    assert points.kv_share[0, 0] == pytest.approx(199 * points.tpot_s[0, 0] * held / room, rel=1e-3)


@pytest.mark.parametrize("role", ROLES)
def test_room_is_held_at_mean_times_whatever_percentile_is_promised(role):
    """Buckets differ in how far a percentile lies above the mean: each has a mean of its own."""
    poisson = TWO.model_copy(update={"rate_rps": 2.0})
    average, late = (one_setup(promising(poisson, percentile=p)) for p in ("mean", "p95"))
    every = np.arange(len(late.designs))
    rate = np.full(len(every), 0.8)

    points, means = at_rate(late, every, rate, role), at_rate(average, every, rate, role)

    runs = np.isfinite(points.decoding)
    assert runs.any()
    assert points.mean_tpot_s == pytest.approx(means.tpot_s)
    assert points.kv_share == pytest.approx(means.kv_share)
    assert (points.tpot_s > points.mean_tpot_s)[runs].all()
    decoding = rate * (points.mean_tpot_s @ (late.mix.share * (late.mix.osl - 1)))
    assert decoding[runs] == pytest.approx(points.decoding[runs])  # Little's law


def test_an_engine_that_reserves_holds_the_longest_output():
    long = one_setup(ask(workload=CHAT.model_copy(update={"max_osl": 2000})), "trtllm")
    usual = one_setup(ask(), "trtllm")

    assert long.held_bytes / usual.held_bytes == pytest.approx(
        (3000 + 31 / 2) / (1200 + 31 / 2)
    )  # blocks of 32
    assert long.prompt_bytes == pytest.approx(usual.prompt_bytes)


def test_rate_times_time_is_the_batch():
    """Little's law of the decoding sequences: rate * (osl - 1) * step = B."""
    s = one_setup()
    every = np.arange(len(s.designs))

    points = batched(s, every, np.full(len(every), 16.0), "decode")

    step = points.step.t0_s + 16 * (points.step.sequence_s + points.step.context_s_per_token * 1100)
    assert points.rate * 199 * step == pytest.approx(16.0)


def test_prefill_servers_are_as_busy_as_they_are_asked_to_be():
    s, levels = one_setup(), np.array([0.1, 0.4, 0.7, 0.95])

    points = prefilling(s, np.zeros(4, dtype=np.int64), levels)

    assert points.load == pytest.approx(levels)
    assert (np.diff(points.ttft_s[:, 0]) > 0).all()


def test_a_prefill_server_carries_what_its_own_ttft_allows_and_no_more_than_the_rule_of_operation():
    s, every = one_setup(), np.array([0, 1])
    within = np.array([0.2, 0.5, 1e3])

    low, high = busiest(s, every, within)

    assert high == pytest.approx(low)
    for edge, level in zip(within[:2], low[:2, :, 0], strict=True):
        at = prefilling(s, every, level)
        late = at.ttft_s[:, 0] * s.caution("prefill")[0, every] / edge - 1
        assert np.maximum(late, level / s.busiest - 1) == pytest.approx(0.0, abs=1e-6)
    assert low[2] == pytest.approx(s.busiest)


def test_a_promise_that_one_sequence_breaks_leaves_no_batch():
    s = one_setup(promising(CHAT, tpot_ms=0.01))

    assert all((most(s, np.arange(len(s.designs)), role) == 0).all() for role in ROLES)


def test_the_context_of_a_decoding_sequence_is_length_biased():
    """By hand: (9 * (100 + 5) + 99 * (100 + 50)) / (9 + 99)."""
    workload = CHAT.model_copy(update={"buckets": [Bucket(isl=100, osl=10), Bucket(isl=100, osl=100)]})

    assert Mix.of(workload).context == pytest.approx((9 * 105 + 99 * 150) / 108)
