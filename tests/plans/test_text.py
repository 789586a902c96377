"""A plan as text: figures as long as they mean something, and the plan still sound."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from planner import plan
from planner.check import check
from planner.plans.schema import Plan
from planner.plans.text import text
from planner.reading.figures import rounded


def test_a_written_plan_is_read_back_sound_with_nine_digits_at_most():
    made = plan(None, "llama-3.1-8b", gpus="2xL40S", rate=3.0)
    told = text(made)
    back = Plan.model_validate(json.loads(told))
    digits = [
        re.sub(r"[-.]|e.*|^0+(?=[.1-9])", "", n).strip("0")
        for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", told)
    ]

    assert check(back) == []
    assert max(map(len, digits)) <= 9
    assert "-0.0" not in told
    assert back.proof.objective == rounded(made.proof.objective)


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_rounding_keeps_a_figure_to_a_billionth(x):
    once = rounded(x)

    assert once == rounded(once)
    assert abs(once - x) <= 1e-8 * abs(x) + 1e-20
