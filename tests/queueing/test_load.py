"""Loads by conservation: in a second all work is done once, and steps take what is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.designs.shape import StepTimes
from planner.queueing.load import FULL, Limits, Load, Parts, column, decode_s, prefill_s, rounds, total

STEP = StepTimes(*(np.array([x]) for x in (0.01, 1e-4, 1e-8, 1e-4, 1e-7, 1.0)))
"""10 ms a step; 0.1 ms a prompt token, 10 ns a pair; 0.1 ms a sequence, 0.1 us a token of its context."""

ROW = np.array([[500.0, 100.0]])
ANSWERS = np.array([[101.0, 11.0]])
WIDE = Limits.of(1e9, np.inf, np.inf)


def parts(role: str = "mixed", **more) -> Parts:
    return Parts.of(STEP, ROW, ROW, ANSWERS, role, **more)


def load(rate: float, limits: Limits = WIDE, own: Parts | None = None) -> Load:
    """Two buckets at the same rate each."""
    return Load.of(own or parts(), np.full((1, 2), rate / 2), limits)


def test_work_of_a_prompt_and_of_an_answer_by_hand():
    """Of 500 tokens 300 are computed: 300 · 200 pairs with the cache and 300 · 301 / 2 among themselves."""
    prompt = prefill_s(STEP, np.array([[300.0]]), np.array([[500.0]]))
    answer = decode_s(STEP, np.array([[500.0]]), np.array([[101.0]]))

    assert prompt[0, 0] == pytest.approx(0.03 + 1e-8 * (300 * 200 + 300 * 301 / 2))
    assert answer[0, 0] == pytest.approx(100 * (1e-4 + 1e-7 * 550.5))


@given(st.floats(0.01, 0.98))
@settings(max_examples=60)
def test_a_second_is_full_of_steps_and_work(share):
    """t0 / T + ρ = 1, and sequences in a step are the tokens made in a second times a step's length."""
    unit = float(WIDE.utilisation(parts(), np.full((1, 2), 0.5))[0, 0])
    x = load(share / unit)

    assert float(x.utilisation[0, 0]) == pytest.approx(share)
    assert float((0.01 / x.step_s + x.rho)[0, 0]) == pytest.approx(1.0, rel=1e-6)
    made = float(total(x.rate * x.steps)[0, 0])
    assert float(x.sequences[0, 0]) == pytest.approx(made * float(x.step_s[0, 0]))
    assert float(x.share.sum()) == pytest.approx(1.0)
    assert float(x.prompts_per_step_s[0, 0]) == pytest.approx(float((x.step_s - x.gap_s)[0, 0]), rel=1e-6)
    assert x.stable.all()


def test_a_server_beyond_its_capacity_is_not_stable_but_finite():
    x = load(1e6)

    assert not x.stable.any()
    assert float(x.utilisation[0, 0]) > FULL
    assert all(np.isfinite(v).all() for v in (x.step_s, x.sequences, x.rho, x.full_s))


def test_an_idle_server_has_steps_of_t0():
    x = load(0.0)

    assert float(x.step_s[0, 0]) == pytest.approx(0.01, rel=1e-3)
    assert float(x.utilisation[0, 0]) == 0.0


@pytest.mark.parametrize(
    ("limits", "tokens"),
    [
        (Limits.of(64, np.inf, np.inf), (500 + 100 + 100 + 10) / 2 / 64),
        (Limits.of(1e9, 2000.0, np.inf), (100 * 550.5 + 10 * 105.5) / 2 / 2000),
        (Limits.of(1e9, np.inf, 4.0), (100 + 10) / 2 / 4),
    ],
)
def test_the_tightest_of_budget_cache_and_places_fills_a_server(limits, tokens):
    """Each by hand for one request/s, half of either bucket, at t0 = 10 ms."""
    work = float(total(0.5 * (parts().prompt_s + parts().decode_s))[0, 0])
    found = float(limits.utilisation(parts(), np.full((1, 2), 0.5))[0, 0])

    assert found == pytest.approx(work + 0.01 * tokens)


def test_a_round_carries_one_budget_a_stage():
    assert Limits.of(512, 1.0, 1.0, 4).budget[0, 0] == 2048
    assert Limits.of(np.inf, 1.0, 1.0).budget[0, 0] == 1e18
    assert Limits.of(0.0, 0.0, 0.0).kv_tokens[0, 0] > 0


def test_a_server_of_one_role_has_no_part_in_the_other():
    first, second = parts("prefill"), parts("decode")

    assert (first.steps == 0).all()
    assert (first.decode_s == 0).all()
    assert (second.new == 0).all()
    assert (second.prompt_s < 1e-9).all()
    assert np.allclose(parts().prompt_s, first.prompt_s)
    assert np.allclose(parts().decode_s, second.decode_s)


def test_a_prompt_of_several_rounds_brings_their_t0_to_a_prefill_server_only():
    """500 tokens in chunks of 200 are three rounds; 100 are one."""
    more = (parts("prefill", budget=200.0).prompt_s - parts("prefill").prompt_s).tolist()

    assert more == [pytest.approx([0.02, 0.0])]
    assert np.allclose(parts("mixed", budget=200.0).prompt_s, parts("mixed").prompt_s)
    assert rounds(STEP, ROW, 200.0).tolist() == [[3.0, 1.0]]


def test_the_last_chunk_drains_through_the_other_stages():
    staged = StepTimes(*(np.array([x]) for x in (0.01, 1e-4, 0.0, 0.0, 0.0, 4.0)))
    drained = Parts.of(staged, ROW, ROW, ANSWERS, "mixed", budget=250.0).drain_s

    assert drained.tolist() == [pytest.approx([3 * 0.05 / 2, 3 * 0.01])]
    assert (parts().drain_s == 0).all()


def test_tokens_that_are_verified_fill_the_budget_too():
    limits = Limits.of(64, np.inf, np.inf)
    plain, drafted = (limits.utilisation(parts(computed=c), np.full((1, 2), 0.5)) for c in (1.0, 4.0))

    assert float((drafted - plain)[0, 0]) == pytest.approx(0.01 * 3 * 55 / 64)


def test_columns_and_totals_keep_servers_apart():
    assert column(np.array([1.0, 2.0])).shape == (2, 1)
    assert column(3.0).tolist() == [[3.0]]
    assert total(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[3.0], [7.0]]
    one = np.array([[5.0]])
    assert total(one) is one
