"""What a plan gives up where kinds of replica bring no more than their own band."""

import pytest

from planner.check import check
from planner.plans.schema import Plan
from planner.reports.proven import given_up
from tests.check.plans import moe


def codes(simple, unpaid, most=3):
    """Of a plan of one kind that is 2 % from a fleet of `most`."""
    d = moe().model_dump(mode="json", by_alias=True)
    d["problem"]["options"]["simple"] = simple
    d["proof"]["unpaid"] = unpaid
    d["proof"]["kinds"][-1]["kinds"] = most
    return [violation.code for violation in check(Plan.model_validate(d))]


def test_more_than_was_asked_for_may_be_given_up_for_a_band():
    assert codes(0.01, None) == ["given_up_over"]
    assert codes(0.01, 0.05) == []
    assert codes(0.01, 0.015) == ["given_up_over"]


def test_a_plan_says_which_band_kinds_are_left_out_for():
    d = moe().model_dump(mode="json", by_alias=True)
    d["proof"]["unpaid"] = 0.052
    said = given_up(Plan.model_validate(d))

    assert said.endswith("1 kind of replica in place of 3: the rest brings less than its own band, 5.2 %")


@pytest.mark.parametrize(
    ("simple", "unpaid", "most"),
    [
        (0.01, 0.05, 2),  # of a second kind no band is asked
        (0.0, 0.05, 3),  # the best itself was asked for
        (0.01, 5.0, 3),  # no third kind is so uncertain
    ],
)
def test_a_band_must_be_one_of_kinds_beyond_the_second(simple, unpaid, most):
    assert "given_up_wrong" in codes(simple, unpaid, most)
