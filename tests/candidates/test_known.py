"""Largest loads that are asked for again are those that there were, only where all they hang on is alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cluster_configs.schema import Host
from planner.candidates import known
from planner.candidates.known import MOST, MOST_BYTES, once
from planner.candidates.largest import largest
from planner.candidates.setup import Setup
from tests.candidates.samples import one_setup

ONE, INDEX, ASKED = one_setup(), np.array([0, 1]), [("mixed", 0.05)]

OTHERS: dict[str, Callable[[Setup], dict[str, Any]]] = {
    "designs": lambda s: {"designs": replace(s.designs, tp=2 * s.designs.tp)},
    "memory": lambda s: {"memory": replace(s.memory, kv_bytes=0.5 * s.memory.kv_bytes)},
    "mix": lambda s: {"mix": replace(s.mix, osl=2 * s.mix.osl)},
    "promise": lambda s: {"promise": replace(s.promise, tpot_s=0.5 * s.promise.tpot_s)},
    "budget": lambda s: {"token_budget": 2 * s.token_budget},
    "risk": lambda s: {"risk_z": s.risk_z + 1},
    "watts": lambda s: {"model": s.model.limited(300.0)},
    "engine": lambda s: {"model": one_setup(engine="sglang").model},
    "device": lambda s: {"model": one_setup(gpus="4xA100").model},
}


class Counting:
    """Loads of so many numbers, and how often they were looked for."""

    def __init__(self, size: int = 2) -> None:
        known.KNOWN.clear()
        self.size, self.count = size, 0

        @once
        def loads(s: Setup, index: Any, asked: Any) -> tuple[Any, Any]:
            self.count += 1
            return np.zeros(self.size), np.ones(self.size)

        self.loads = loads


def test_the_same_question_is_answered_once_whoever_asks():
    counting = Counting()

    first = counting.loads(ONE, INDEX, ASKED)
    again = counting.loads(one_setup(), INDEX.copy(), list(ASKED))

    assert counting.count == 1
    assert again[1].tolist() == first[1].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("other", OTHERS)
def test_another_setup_is_another_question(other: str):
    counting = Counting()

    counting.loads(ONE, INDEX, ASKED)
    counting.loads(replace(ONE, **OTHERS[other](ONE)), INDEX, ASKED)

    assert counting.count == 2


ALIKE: dict[str, dict[str, Any]] = {
    "name": {"id": "other", "zone": "elsewhere"},
    "price": {"price_usd_per_hour": 99.0, "spot": True, "availability": 0.5},
    "count": {"nodes": ONE.model.node_class.nodes[:0]},
}


@pytest.mark.parametrize("other", ALIKE)
def test_nodes_of_another_name_price_or_number_are_the_same_question(other: str):
    counting, model = Counting(), one_setup().model
    model.node_class = replace(model.node_class, **ALIKE[other])

    counting.loads(ONE, INDEX, ASKED)
    counting.loads(replace(ONE, model=model), INDEX, ASKED)

    assert counting.count == 1


@pytest.mark.parametrize("other", [{"gpus_per_node": 2}, {"host": Host(memory_gb=64, gb_per_s=100)}])
def test_other_nodes_are_another_question(other: dict[str, Any]):
    counting, model = Counting(), one_setup().model
    model.node_class = replace(model.node_class, **other)

    counting.loads(ONE, INDEX, ASKED)
    counting.loads(replace(ONE, model=model), INDEX, ASKED)

    assert counting.count == 2


def test_classes_of_stages_are_known_by_their_names():
    """Stagings name them."""
    counting, models = Counting(), [one_setup().model, one_setup().model]
    for model, name in zip(models, ("a", "b"), strict=True):
        model.of_class = {}  # type: ignore[attr-defined]
        model.node_class = replace(model.node_class, id=name)

    for model in models:
        counting.loads(replace(ONE, model=model), INDEX, ASKED)

    assert counting.count == 2


def test_designs_are_the_same_question_whatever_stands_beside_them():
    counting = Counting()

    counting.loads(ONE, INDEX, ASKED)
    counting.loads(ONE.only(np.array([2, 0, 1])), np.array([1, 2]), ASKED)

    assert counting.count == 1


@pytest.mark.parametrize(("index", "asked"), [([1, 0], ASKED), ([0, 1], [("decode", 0.05)]), ([0, 1], [])])
def test_other_designs_roles_and_limits_are_another_question(index: list[int], asked: list[Any]):
    counting = Counting()

    counting.loads(ONE, INDEX, ASKED)
    counting.loads(ONE, np.array(index), asked)

    assert counting.count == 2


def test_a_model_that_cannot_be_told_is_only_like_itself():
    counting, odd = Counting(), [one_setup(), one_setup()]
    for s in odd:
        s.model.layers.popularity = lambda: None  # type: ignore[assignment]

    for s in (*odd, *odd):
        counting.loads(s, INDEX, ASKED)

    assert counting.count == 2


def test_an_answer_that_is_kept_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Counting().loads(ONE, INDEX, ASKED)[0][0] = 1.0


def test_there_is_room_for_so_many_answers_of_such_a_size():
    counting, large = Counting(), Counting(MOST_BYTES // 16 + 1)

    for k in range(MOST + 2):
        counting.loads(ONE, INDEX, k)
    for _ in range(2):
        large.loads(ONE, INDEX, ASKED)

    assert len(known.KNOWN) == 2
    assert large.count == 2


def test_other_code_in_a_test_is_not_answered_for_by_the_code_that_was(monkeypatch: pytest.MonkeyPatch):
    before = largest(ONE, INDEX, ASKED)[0]

    monkeypatch.setattr("planner.candidates.largest.KEPT", -0.5)  # of each limit half is taken at most

    assert (largest(ONE, INDEX, ASKED)[0] < before).all()
