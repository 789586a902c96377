"""Operating points: the largest batch is a boundary, KV in use is Little's law, rates follow from steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates.largest import MOST_SEQUENCES, between, largest
from planner.candidates.points import LEVELS, Mix, batched, prefilling
from planner.cost.admission import Lengths, deviations
from planner.inputs.workload import Bucket
from tests.candidates.samples import CHAT, TWO, ask, one_setup, promising

ROLES = ("mixed", "decode")


def keeps(s, index, batch, role):
    """Whether some bucket keeps the promise at each batch."""
    return batched(s, index, batch.astype(float), role).meets.any(axis=1)


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
@pytest.mark.parametrize("workload", [CHAT, TWO], ids=["one bucket", "two"])
def test_the_largest_batch_keeps_the_promise_and_one_more_breaks_it(engine, workload):
    s = one_setup(ask(workload=workload), engine)
    every = np.arange(len(s.designs))

    for role, most in zip(ROLES, largest(s, every, ROLES), strict=True):
        some, limited = most > 0, most < MOST_SEQUENCES
        assert some.any()
        assert limited.any()
        assert keeps(s, every[some], most[some], role).all()
        assert not keeps(s, every[limited], most[limited] + 1, role).any()


def test_both_roles_at_once_are_the_same_as_each_alone():
    s = one_setup()
    every = np.arange(len(s.designs))

    both = largest(s, every, ROLES)

    assert both.tolist() == [largest(s, every, [role])[0].tolist() for role in ROLES]


def test_a_design_is_searched_alike_alone_and_among_others():
    """More designs at once mean fewer batches a round: the answer must not depend on it."""
    s = one_setup()
    every = np.arange(len(s.designs))

    assert (
        largest(s, np.tile(every, 150), ROLES)[:, : len(every)].tolist() == largest(s, every, ROLES).tolist()
    )


@settings(max_examples=15, deadline=None)
@given(tpot=st.floats(8, 100), ttft=st.floats(100, 4000), more=st.floats(1, 3))
def test_a_looser_promise_never_lowers_the_largest_batch(tpot, ttft, more):
    tight = one_setup(promising(CHAT, tpot_ms=tpot, ttft_ms=ttft))
    loose = one_setup(promising(CHAT, tpot_ms=tpot * more, ttft_ms=ttft * more))
    every = np.arange(len(tight.designs))

    assert (largest(loose, every, ROLES) >= largest(tight, every, ROLES)).all()


@given(st.integers(0, 1000), st.integers(2, 1025), st.integers(1, 12))
def test_batches_tried_lie_inside_the_range(low, width, count):
    tries = between(np.array([low]), np.array([low + width]), count)[0]

    assert len(tries) == count
    assert (tries > low).all()
    assert (tries < low + width).all()
    assert (np.diff(tries) >= 0).all()


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
    s = one_setup()

    points = prefilling(s, np.array([0, 1]), LEVELS)

    assert points.load == pytest.approx(np.tile(LEVELS, 2))
    assert (np.diff(points.ttft_s[: len(LEVELS), 0]) > 0).all()


def test_a_promise_that_one_sequence_breaks_leaves_no_batch():
    s = one_setup(promising(CHAT, tpot_ms=0.01))

    assert (largest(s, np.arange(len(s.designs)), ROLES) == 0).all()


def test_the_context_of_a_decoding_sequence_is_length_biased():
    """By hand: (9 * (100 + 5) + 99 * (100 + 50)) / (9 + 99)."""
    workload = CHAT.model_copy(update={"buckets": [Bucket(isl=100, osl=10), Bucket(isl=100, osl=100)]})

    assert Mix.of(workload).context == pytest.approx((9 * 105 + 99 * 150) / 108)
