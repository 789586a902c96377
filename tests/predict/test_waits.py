"""Decode steps that a first token waits by what a launch line tells the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.engines import named
from planner.predict.rows import balanced_steps, held_back


def row(**told: Any) -> Any:
    return SimpleNamespace(
        **{"balance_steps": None, "wait_steps": 0, "receive_steps": 0, "start": "", **told}
    )


def steps(most: float, ranks: int, sequences: float, osl: float) -> float:
    return float(balanced_steps(*(np.array([x]) for x in (most, ranks, sequences, osl)))[0])


def test_all_ranks_have_a_prompt_after_the_last_coupon():
    """By playing: one of four ranks at random gets each of the prompts that come every 922 / 64 steps."""
    random = np.random.default_rng(0)
    drawn = [len(_until_all(random)) for _ in range(4000)]

    every = 922 / 64 / 4  # a prompt comes to some rank
    assert steps(1e9, 4, 64, 922) == pytest.approx(np.mean(drawn) * every / 2, rel=0.03)


def _until_all(random: np.random.Generator) -> list[int]:
    seen: list[int] = []
    while len({*seen}) < 4:
        seen.append(int(random.integers(4)))
    return seen


def test_ranks_wait_no_longer_than_they_are_told_and_one_alone_not_at_all():
    assert steps(10, 4, 64, 922) == 5
    assert steps(10, 1, 64, 922) == 0
    assert steps(0, 4, 64, 922) == 0


def test_prompts_kept_for_others_and_looks_at_new_requests_add():
    """Five steps kept, and half of the eight between two looks."""
    few = np.full(1, 4.0)
    found = held_back("trtllm", [row(wait_steps=5, receive_steps=8)], np.array([1]), few, few)

    assert found.tolist() == [9]


@pytest.mark.parametrize(
    ("sequences", "ranks", "steps"),
    [(1.0, 1, 0.0), (1.5, 1, 2.5), (2.0, 1, 5.0), (0.25, 4, 0.0), (0.5, 4, 5.0)],
)
def test_a_request_that_is_alone_waits_for_no_steps(sequences, ranks, steps):
    """Nobody decodes, so none are made: one in flight over all ranks, that is."""
    found = held_back("sglang", [row(receive_steps=10)], np.array([ranks]), np.array([sequences]), np.ones(1))

    assert found.tolist() == [steps]


def test_ranks_of_public_recipes_balance_only_where_requests_start_at_once():
    usual = named("trtllm").balance_steps
    rows = [row(start="at_once"), row(), row(balance_steps=4.0)]
    many = np.full(3, 1e-3)
    found = held_back("trtllm", rows, np.array([8, 8, 8]), many, np.full(3, 1e3))

    assert found.tolist() == [usual / 2, 0, 2]
