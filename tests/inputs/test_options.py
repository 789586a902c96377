"""What is asked of a plan beside its inputs: limits in range, lists as text, and what is off."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner.inputs.options import Budget, Options, Survive


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("fp8,nvfp4", ("fp8", "nvfp4")),
        (" fp8 , ,nvfp4,", ("fp8", "nvfp4")),
        ("", ()),
        (["fp8"], ("fp8",)),
        (None, None),
    ],
)
def test_precisions_come_as_text_or_as_a_list(written: object, read: tuple[str, ...] | None):
    assert Options(precisions=written).precisions == read


def test_speculation_that_is_off_is_none():
    assert Options(speculation="off").speculation is None
    assert Options(speculation="mtp").speculation == "mtp"


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "speed"},
        {"engine": "vlm"},
        {"risk": 0.51},
        {"risk": 0.0},
        {"simple": 1.0},
        {"simple": -0.01},
        {"max_utilisation": 1.0},
        {"max_utilisation": 0.0},
        {"acceptance": 1.0},
        {"draft_tokens": 0},
        {"draft_tokens": 17},
        {"gap": 1.0},
        {"time_limit_s": 0},
        {"seed": -1},
        {"budget": {"gpus": 0}},
        {"budget": {"usd_per_hour": 0}},
        {"budget": {"watts": float("inf")}},
        {"budget": {"usd": 5}},
        {"survive": {"nodes": 0}},
        {"survive": {"share": 0}},
        {"survive": {"share": 1.01}},
    ],
)
def test_what_is_out_of_range_is_refused(fields: dict[str, Any]):
    with pytest.raises(ValidationError):
        Options.model_validate(fields)


@pytest.mark.parametrize(
    "fields",
    [{"risk": 0.5}, {"simple": 0}, {"gap": 0}, {"draft_tokens": 16}, {"engine": "chains"}, {"seed": 0}],
)
def test_the_ends_of_each_range_are_allowed(fields: dict[str, Any]):
    assert Options.model_validate(fields).model_dump().items() >= fields.items()


def test_no_budget_is_no_limit_and_survival_is_of_one_node_and_the_whole_rate():
    assert set(Budget().model_dump().values()) == {None}
    assert Survive().model_dump() == {"nodes": 1, "share": 1.0}
    with pytest.raises(ValidationError, match="frozen"):
        Options().seed = 3
