"""Steps and watts of GPUs that are told to draw less than they would."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs import devices
from planner.cost.attention import Load
from planner.cost.powered import own_limit_watts
from tests.cost.samples import KINDS, cost, tensor_parallel
from tests.cost.test_model import DESIGNS, FLOATS, assert_more_takes_no_less

PROMPTS, DECODING = Load.of(0.0, 0.0, 4096.0, 2048.0), Load.of(8.0, 2000.0)
TP = tensor_parallel(1)
H100 = devices.find("h100-sxm").tdp_watts


def drawn(model, load):
    """Watts of one busy GPU."""
    return float(model.watts(TP, load, 1.0)[0])


def test_a_gpu_under_its_limit_draws_just_that_and_takes_longer():
    """By hand: arithmetic draws all that an H100 may, so 70 % of it takes (1 - 0.7) / (0.7 - 0.458) x 0.161 =
    20 % more of the arithmetic, which takes 1 / 0.75 of its seconds at peak."""
    free, held = cost(engine="trtllm"), cost(engine="trtllm").limited(0.7 * H100)
    compute, memory = (float(x[0]) for x in free.peaks_s(TP, PROMPTS))
    more = float(held.step_s(TP, PROMPTS)[0] - free.step_s(TP, PROMPTS)[0])
    reading = 0.0607 * (0.85 - 0.7) / (0.7 - 0.458 * 0.85)

    assert drawn(free, PROMPTS) > 0.9 * H100
    assert drawn(held, PROMPTS) == pytest.approx(0.7 * H100)
    assert more == pytest.approx((0.161 * 0.3 / 0.242 * compute + reading * memory) / 0.75, rel=1e-6)
    assert 1.15 < 1 + more / float(free.step_s(TP, PROMPTS)[0]) < 1.25


def test_a_limit_above_what_memory_draws_at_full_rate_hardly_slows_decoding():
    free, above = cost(), cost().limited(0.9 * H100)

    assert (above.step_s(TP, DECODING) <= 1.01 * free.step_s(TP, DECODING)).all()
    assert cost().limited(H100).step_s(TP, DECODING) == pytest.approx(free.step_s(TP, DECODING))
    assert drawn(above, DECODING) == pytest.approx(drawn(free, DECODING))


def test_decoding_is_slowed_less_than_prompts():
    free = cost()
    slowed = [
        float(free.limited(0.6 * H100).step_s(TP, load)[0] / free.step_s(TP, load)[0])
        for load in (DECODING, PROMPTS)
    ]

    assert 1 < slowed[0] < slowed[1]


def test_the_line_of_a_limited_step_meets_the_step():
    held = cost().limited(0.6 * H100)
    line = held.step_times(TP, DECODING)

    at = line.t0_s + 8.0 * (line.sequence_s + 2000.0 * line.context_s_per_token)
    assert at == pytest.approx(held.step_s(TP, DECODING))


@pytest.mark.parametrize(("cap", "each"), [(None, None), (8 * 500, 500.0), (8 * 700, None), (8 * 340, None)])
def test_a_nodes_cap_limits_its_gpus_evenly_where_limits_were_measured(cap, each):
    node = replace(cost().node_class, power_cap_watts=cap)

    assert own_limit_watts(node) == each


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(**FLOATS, more=st.floats(1, 3), share=st.floats(0.5, 1))
def test_more_to_do_never_takes_less_time_under_a_limit(name, batch, context, new, more, share):
    assert_more_takes_no_less(cost(KINDS[name]).limited(share * H100), batch, context, new, more)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(**FLOATS, more=st.floats(1, 1.5), share=st.floats(0.5, 1))
def test_a_higher_limit_never_takes_more_time(name, batch, context, new, more, share):
    load, free = Load.of(batch, context, new, context), cost(KINDS[name])
    low, high = (free.limited(x * H100).step_s(DESIGNS, load) for x in (share, share * more))

    assert (free.step_s(DESIGNS, load) <= high).all()
    assert (high <= low * (1 + 1e-12)).all()
