"""Prompts in a step, by hand: tokens of the budget, seconds of the work, and what is left of each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulate.requests import Clock, Ledger, StepCosts, prompt_work, steps_s, steps_to_reach

COSTS = StepCosts(0.01, 1e-4, 1e-8, 0.0, 0.0, 1.0)
"""10 ms a step, 0.1 ms a token, 10 ns a pair of tokens, one stage."""


def test_a_prompt_within_the_budget_is_done_in_this_step():
    prompts = [[7, 100, 0]]
    seconds, done = prompt_work(prompts, COSTS, 150, 150, "mixed")

    assert done == [(7, 0.0)]
    assert seconds == pytest.approx(100 * 1e-4 + 1e-8 * 100 * 50.5)


def test_the_rest_of_the_budget_goes_to_the_next_prompt_which_keeps_what_is_left():
    prompts = [[7, 100, 0], [8, 100, 20], [9, 10, 0]]
    _, done = prompt_work(prompts, COSTS, 150, 150, "mixed")

    assert done == [(7, 0.0)]
    assert prompts == [[7, 100, 0], [8, 50, 70], [9, 10, 0]]


def test_a_token_is_paired_with_all_that_are_there_already():
    """A chunk of 50 after 200: 50 · 200 pairs with those before, 50 · 51 / 2 among themselves."""
    seconds, _ = prompt_work([[1, 50, 200]], COSTS, 50, 50, "mixed")

    assert seconds == pytest.approx(50 * 1e-4 + 1e-8 * (50 * 200 + 50 * 51 / 2))


def test_no_budget_is_no_work():
    prompts = [[1, 50, 0]]

    assert prompt_work(prompts, COSTS, 0, 512, "mixed") == (0.0, [])
    assert prompts == [[1, 50, 0]]


def test_servers_that_only_prefill_take_whole_prompts_in_as_many_steps_as_they_have_chunks():
    """300 tokens in chunks of 100 are three steps, of which the caller counts the first."""
    seconds, done = prompt_work([[1, 300, 0], [2, 5, 0]], COSTS, 100, 100, "prefill")

    assert done == [(1, 0.0)]
    assert seconds == pytest.approx(300 * 1e-4 + 1e-8 * 300 * 150.5 + 2 * 0.01)


def test_the_last_piece_passes_the_later_stages():
    """Two chunks of 50 on three stages: the last takes half the work through two more stages."""
    staged = StepCosts(0.01, 1e-4, 0.0, 0.0, 0.0, 3.0)
    _, done = prompt_work([[1, 100, 0]], staged, 300, 50, "mixed")

    assert done == [(1, pytest.approx(2 * 0.01 / 2))]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.integers(1, 300))
@settings(max_examples=100)
def test_in_steps_of_any_budget_every_token_is_computed_once(lengths, budget):
    """Pairs included: cutting a prompt into chunks changes no second of the work."""
    whole = sum(prompt_work([[0, n, 0]], COSTS, n, n, "mixed")[0] for n in lengths)
    prompts, seconds, finished = [[i, n, 0] for i, n in enumerate(lengths)], 0.0, []
    while prompts:
        more, done = prompt_work(prompts, COSTS, budget, budget, "mixed")
        seconds += more
        finished += [request for request, _ in done]
        del prompts[: len(done)]

    assert finished == list(range(len(lengths)))
    assert seconds == pytest.approx(whole)


@given(st.integers(1, 50), st.floats(1e-4, 1.0), st.floats(0.0, 0.1))
@settings(max_examples=100)
def test_steps_that_grow_are_added_up_and_found_again(count, first_s, growth_s):
    one_by_one = sum(first_s + growth_s * i for i in range(count))

    assert steps_s(count, first_s, growth_s) == pytest.approx(one_by_one)
    assert steps_to_reach(steps_s(count, first_s, growth_s), first_s, growth_s) == count
    just_more = steps_s(count, first_s, growth_s) * (1 + 1e-6)
    assert steps_to_reach(just_more, first_s, growth_s) == count + 1


def test_a_server_begins_idle_and_a_ledger_without_times():
    clock, ledger = Clock(), Ledger([10, 20], [1, 2], [10, 5])

    assert (clock.due_s, clock.inside, clock.held) == (float("inf"), 0, 0)
    assert all(t != t for times in (ledger.entry_s, ledger.first_s, ledger.end_s) for t in times)
    assert ledger.preempted == [0, 0]
    ledger.end_s[0] = 1.0
    assert ledger.first_s[0] != 1.0  # lists of their own
