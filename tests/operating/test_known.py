"""Steps that are asked for again are those that there were, and only where all that they hang on is alike."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
import pytest

from model_zoo.catalog import find
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Floats, StepTimes, like
from planner.operating.known import MOST, MOST_ROWS, once
from planner.operating.requests import Requests
from planner.predict.predictions import usual_node

CARD = find("llama-3.1-8b")[0]


def model(device: str = "h100-sxm") -> CostModel:
    return CostModel(CARD, usual_node(device), "vllm", precisions(CARD))


ONE = np.ones((1, 1))
SMALL: dict[str, Any] = {
    "model": model(),
    "designs": like(2, 1, np.array([1, 4])),
    "asked": Requests(1000 * ONE, 1000 * ONE, 200 * ONE, ONE),
    "sequences": np.array([8.0, 16.0]),
    "budget": 8192.0,
}
OTHERS: dict[str, Any] = {
    "model": model(),
    "designs": like(2, 2, np.array([1, 4])),
    "asked": replace(SMALL["asked"], emitted=1.5),
    "sequences": np.array([16.0, 8.0]),
    "budget": 2048.0,
}


def _counting(asked_for: list[int]):
    @once
    def steps(
        model: CostModel, designs: Designs, asked: Requests, sequences: Floats, budget: Floats | float
    ) -> StepTimes:
        asked_for.append(len(designs))
        return StepTimes(*(sequences * (i + 1) for i in range(5)), np.ones(len(designs)))

    return steps


def test_the_same_question_is_asked_once():
    asked_for: list[int] = []
    steps = _counting(asked_for)

    first, again = steps(**SMALL), steps(**{**SMALL, "sequences": SMALL["sequences"].copy()})

    assert asked_for == [2]
    assert first.t0_s.tolist() == again.t0_s.tolist()


@pytest.mark.parametrize("other", OTHERS)
def test_another_question_is_asked_anew(other):
    asked_for: list[int] = []
    steps = _counting(asked_for)

    steps(**SMALL)
    steps(**{**SMALL, other: OTHERS[other]})

    assert asked_for == [2, 2]


@pytest.mark.parametrize("part", ["new", "isl", "osl", "share"])
def test_other_requests_are_another_question(part):
    asked_for: list[int] = []
    steps = _counting(asked_for)

    steps(**SMALL)
    steps(**{**SMALL, "asked": replace(SMALL["asked"], **{part: 0.5 * getattr(SMALL["asked"], part)})})

    assert asked_for == [2, 2]


def test_an_answer_that_is_kept_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        _counting([])(**SMALL).t0_s[0] = 0.0


def test_long_answers_are_not_kept():
    asked_for: list[int] = []
    steps, n = _counting(asked_for), MOST_ROWS + 1
    many = {**SMALL, "designs": like(n, 1), "sequences": np.ones(n)}

    steps(**many)
    steps(**many)

    assert asked_for == [n, n]


def test_no_more_answers_are_kept_than_there_is_room_for():
    asked_for: list[int] = []
    steps = _counting(asked_for)

    for rate in range(MOST + 1):
        steps(**{**SMALL, "budget": 1.0 + rate})
    steps(**{**SMALL, "budget": 1.0 + MOST})
    steps(**{**SMALL, "budget": 1.0})

    assert len(asked_for) == MOST + 2


def test_what_is_known_of_a_model_goes_with_it():
    steps, own = _counting([]), model()
    steps(**{**SMALL, "model": own})
    gone = ref(own)

    del own
    gc.collect()

    assert gone() is None
