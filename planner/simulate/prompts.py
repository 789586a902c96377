"""Seconds of steps: of prompts in one, and of many of which each lasts longer than the last by the same."""

from __future__ import annotations

import math
from collections.abc import Iterable

from planner.simulate.requests import Role, StepCosts


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
            rounds = math.ceil(math.ceil(chunk / chunk_most) / costs.stages)  # a chunk for each stage
            chunk_s += costs.t0_s * (max(1, rounds) - 1)
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


NO_JUMP = (0, 0.0, 0.0)
"""Steps ahead, seconds of the first, and how much longer each next one is: none."""


def steps_s(count: float, first_s: float, growth_s: float) -> float:
    """Seconds of `count` steps, the first lasting `first_s` and each next one `growth_s` longer.

    >>> steps_s(3, 1.0, 0.5)
    4.5
    """
    return count * first_s + growth_s * count * (count - 1) / 2


def steps_to_reach(time_s: float, first_s: float, growth_s: float) -> int:
    """The least number of such steps, at least one, that last `time_s` or longer.

    >>> [steps_to_reach(t, 1.0, 0.5) for t in (0.0, 1.0, 1.1, 4.5, 4.6)]
    [1, 1, 2, 3, 4]
    """
    if time_s <= first_s:
        return 1
    half = first_s - growth_s / 2  # growth/2·k² + half·k = time
    count = math.ceil(2 * time_s / (half + math.sqrt(half * half + 2 * growth_s * time_s)))
    while count > 1 and steps_s(count - 1, first_s, growth_s) >= time_s:
        count -= 1
    while steps_s(count, first_s, growth_s) < time_s:
        count += 1
    return count
