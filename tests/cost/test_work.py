"""What a decode step goes to: parts that add up to it, and that move with what they stand for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.attention import Load
from planner.cost.work import WORK, seconds_by_work
from tests.cost.samples import KINDS, cost, designs, tensor_parallel

LAYOUTS = {
    "tp1": (1, 1, 1, 1, 1),
    "tp8": (8, 1, 1, 8, 1),
    "tp4 pp2": (4, 2, 1, 4, 1),
    "dp8 ep8": (1, 1, 8, 1, 8),
    "tp2 dp4 ep8": (2, 1, 4, 1, 8),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=10)
@given(batch=st.floats(1, 512), context=st.floats(16, 60000))
def test_parts_add_up_to_the_step(name, layout, batch, context):
    model, one, load = cost(KINDS[name]), designs(LAYOUTS[layout]), Load.of(batch, context)
    found = seconds_by_work(model, one, load)

    assert sum(found.values()) == pytest.approx(model.step_s(one, load)[0])
    assert set(found) <= set(WORK)
    assert all(seconds > 0 for seconds in found.values())


def test_of_one_gpu_the_parts_are_its_kernels():
    """By hand: with neither messages nor stages the kernels take what the step takes beside the engine."""
    model, one, load = cost(), tensor_parallel(1), Load.of(64, 4000)
    found = seconds_by_work(model, one, load)
    own = load.over(1, 1.0)
    attention = sum(
        n * model.layers.computed_s(kind, own, one)[0][0]
        for n, kind in zip(model.layers_by_kind, model.kinds, strict=True)
    )

    assert found["attention"] == pytest.approx(attention)
    assert found["engine"] == pytest.approx(model.engine_s(one, own.sequences)[0])
    assert "communication" not in found
    assert "experts" not in found


def test_four_times_the_context_is_attention_alone():
    model, one = cost(), tensor_parallel(1)
    short, long = (seconds_by_work(model, one, Load.of(64, context)) for context in (4000, 16000))

    assert long["attention"] > 3 * short["attention"]
    assert long["matmuls"] == pytest.approx(short["matmuls"])
    assert long["engine"] == pytest.approx(short["engine"])


def test_gpus_that_share_layers_send_messages_and_experts_take_their_part():
    shared = seconds_by_work(cost(), tensor_parallel(8), Load.of(64, 4000))
    moe = next(name for name in KINDS if "moe" in name.lower())
    routed = seconds_by_work(cost(KINDS[moe]), designs(LAYOUTS["dp8 ep8"]), Load.of(64, 4000))

    assert shared["communication"] > 0
    assert routed["experts"] > 0
