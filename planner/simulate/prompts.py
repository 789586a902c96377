"""Prompts in a step."""

from __future__ import annotations

import math
from collections.abc import Iterable

from planner.simulate.ledger import Role
from planner.simulate.requests import StepCosts


def prompt_work(
    prompts: Iterable[list[int]], costs: StepCosts, budget: int, chunk_most: int, role: Role
) -> tuple[float, list[tuple[int, float]]]:
    """Seconds of the prompts in a step, which get `budget` tokens in order of entry; and the requests whose
    prompts it finishes, each with its time through the later pipeline stages. `prompts`: [request, tokens
    left, tokens there], brought up to date. Of prefill servers they are whole; one of more than `chunk_most`
    tokens then takes several steps.

    >>> costs, two = StepCosts(0.01, 1e-4, 0.0, 0.0, 0.0, 1.0), [[7, 100, 0], [8, 100, 0]]
    >>> seconds, done = prompt_work(two, costs, 150, 150, "mixed")
    >>> round(seconds, 6), done, two[1]
    (0.015, [(7, 0.0)], [8, 50, 50])
    """
    whole = role == "prefill"
    seconds, done = 0.0, list[tuple[int, float]]()
    for prompt in prompts:
        if budget <= 0:
            break
        request, left, there = prompt
        chunk = left if whole or left <= budget else budget
        chunk_s = costs.token_s * chunk + costs.pair_s * chunk * (there + (chunk + 1) / 2)
        if whole and chunk > chunk_most:
            chunk_s += costs.t0_s * (_rounds(chunk, chunk_most, costs.stages) - 1)
        seconds += chunk_s
        budget -= chunk
        if chunk < left:
            prompt[1], prompt[2] = left - chunk, there + chunk
            continue
        drain_s = 0.0
        if costs.stages > 1:  # the last piece passes the other stages
            drain_s = (costs.stages - 1) * chunk_s / math.ceil(chunk / chunk_most)
        done.append((request, drain_s))
    return seconds, done


def _rounds(tokens: int, chunk_most: int, stages: float) -> int:
    """Steps of so many prompt tokens: as many chunks as stages in each."""
    return max(1, math.ceil(math.ceil(tokens / chunk_most) / stages))
