"""What of a prompt's cache is met again: what may be stated of it, and what is refused, by name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner.errors import Misplaced
from planner.inputs.reuse import LONGEST_NAME, Idle, Reuse

KIND = {"bucket": 0, "depth": 0, "tokens": 10, "back": [0.5, 0.25]}
IDLE = {"ages_s": [1, 60], "kinds": [KIND], "hits": [[5, 2.5]]}


def test_a_beginning_and_a_returning_context_have_their_own_defaults():
    beginning = Reuse(name="system prompt", tokens=2000)
    turns = Reuse(name="turns", gap_s=60)

    assert (beginning.share, beginning.distinct, beginning.gap_s) == (1.0, 1, None)
    assert (turns.share, turns.gap_cv, turns.again, turns.part, turns.tokens) == (1.0, 1.0, 1.0, 1.0, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs either `tokens`"),
        ({"tokens": 5, "gap_s": 1}, "needs either `tokens`"),
        ({"tokens": 5, "gap_cv": 2}, "`gap_cv` of `x` goes with `gap_s`"),
        ({"tokens": 5, "again": 0.5}, "`again` of `x` goes with `gap_s`"),
        ({"tokens": 5, "part": 0.5}, "`part` of `x` goes with `gap_s`"),
        ({"gap_s": 5, "distinct": 2}, "`distinct` of `x` goes with `tokens`"),
        ({"tokens": 0}, "greater than or equal to 1"),
        ({"gap_s": 0.0009}, "greater than or equal to 0.001"),
        ({"gap_s": float("inf")}, "finite"),
        ({"gap_s": 1, "again": 1.1}, "less than or equal to 1"),
        ({"gap_s": 1, "part": -0.1}, "greater than or equal to 0"),
        ({"gap_s": 1, "gaps": 2}, "Extra inputs"),
    ],
)
def test_the_two_forms_are_kept_apart(given: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        Reuse(name="x", **given)


def test_what_goes_with_the_other_form_may_stand_at_its_default():
    """As a workload that was written and read again has them."""
    assert Reuse(**Reuse(name="a", tokens=5).model_dump()) == Reuse(name="a", tokens=5)
    assert Reuse(**Reuse(name="a", gap_s=5).model_dump()) == Reuse(name="a", gap_s=5)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[31m", "x" * (LONGEST_NAME + 1)])
def test_a_name_is_short_and_can_be_printed(name: str):
    with pytest.raises((ValidationError, Misplaced), match="characters that can be printed"):
        Reuse(name=name, tokens=5)
    assert Reuse(name="x" * LONGEST_NAME, tokens=5).name == "x" * LONGEST_NAME


def kinds(*updates: dict[str, Any]) -> dict[str, Any]:
    return IDLE | {"kinds": [KIND | update for update in updates]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (IDLE | {"ages_s": [60, 1]}, "must rise"),
        (IDLE | {"ages_s": [60, 60]}, "must rise"),
        (IDLE | {"ages_s": [0, 60]}, "greater than 0"),
        (IDLE | {"ages_s": []}, "at least 1 item"),
        (IDLE | {"kinds": []}, "at least 1 item"),
        (IDLE | {"hits": [[5]]}, "one figure for each of the 2"),
        (kinds({"back": [0.5]}), "one figure for each of the 2"),
        (kinds({"back": [0.6, 0.5]}), "add up to more than 1"),
        (kinds({"above": 0}), "`above` names a kind before it"),
        (kinds({}, {"above": 1}), "`above` names a kind before it"),
        (kinds({"bucket": -1}), "greater than or equal to 0"),
        (kinds({"tokens": -1}), "greater than or equal to 0"),
    ],
)
def test_what_was_counted_fits_together_or_is_refused(given: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        Idle(**given)


def test_a_kind_builds_on_one_before_it_and_its_shares_may_be_a_rounding_above_one():
    idle = Idle(**kinds({}, {"above": 0, "back": [0.5, 0.5 + 5e-7]}))

    assert [kind.above for kind in idle.kinds] == [None, 0]
