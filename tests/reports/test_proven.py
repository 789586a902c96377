"""The price list and the proof, word for word."""

from __future__ import annotations

import pytest

from planner.plans.schema import Alternative, Cap, KindCount, Plan, Price
from planner.reports import proven, terminal
from tests.reports.samples import MIXED, ONE_NODE, SIMPLE
from tests.reports.test_terminal import proven as changed
from tests.reports.test_terminal import shown


def counts(*entries: tuple[int, float]) -> list[KindCount]:
    return [KindCount(kinds=k, objective=value) for k, value in entries]


def priced(unit: str, chosen: float, *entries: tuple[int, float]) -> str:
    best = entries[-1][1]
    plan = changed(SIMPLE, unit=unit, objective=best, chosen=chosen, kinds=counts(*entries))
    return proven.price_list(plan).plain


def test_the_price_list_is_one_line_with_the_unit_at_its_end() -> None:
    text = shown(SIMPLE)

    assert (
        "\nKinds of replica\n  1 kind 21.0 · 2 kinds 23.3 (this plan) · 4 kinds 23.9 (best) req/s\n" in text
    )


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("USD/h", "1 kind $57.60/h · 2 kinds $38.40/h (this plan, best)"),
        ("W", "1 kind 57.6 · 2 kinds 38.4 (this plan, best) W"),
        ("GPUs", "1 kind 57.6 · 2 kinds 38.4 (this plan, best) GPUs"),
        ("s", "1 kind 57.6 · 2 kinds 38.4 (this plan, best) s"),
    ],
)
def test_each_goal_has_its_unit(unit: str, expected: str) -> None:
    assert priced(unit, 38.4, (1, 57.6), (2, 38.4)) == expected


def test_units_that_differ_stand_with_their_amounts() -> None:
    assert priced("W", 950.0, (1, 1400.0), (3, 950.0)) == "1 kind 1.40 kW · 3 kinds 950 W (this plan, best)"
    assert priced("GPUs", 1.0, (1, 2.0), (3, 1.0)) == "1 kind 2 GPUs · 3 kinds 1 GPU (this plan, best)"


def test_where_one_kind_is_best_there_is_no_price_list() -> None:
    alone = changed(SIMPLE, kinds=counts((2, 23.3)))

    assert "Kinds of replica" not in shown(alone)
    assert "Kinds of replica" not in shown(ONE_NODE)


def test_the_proof_speaks_of_the_best_and_says_what_this_plan_gave_up() -> None:
    section = shown(SIMPLE, 100).split("\nProof\n")[1].split("Not asked for")[0]

    assert [line.strip() for line in section.strip().splitlines()] == [
        "the best fleet found is 0.6 % from the best possible among 1,840 designs, 0.41 s (HiGHS 1.12)",
        "this plan is 2.5 % below it, for 2 kinds of replica in place of 4",
        "held by a cap: utilisation 0.98 (4 of 96 left out)",
        "all vLLM-valid designs up to 8 GPUs, any load",
    ]


def proof_lines(plan: Plan) -> list[str]:
    return proven.proof(plan).plain.split("\n")


def test_a_plan_that_is_the_best_gave_up_nothing() -> None:
    best = changed(SIMPLE, chosen=23.9, given_up=0.0)

    assert proof_lines(best)[0].startswith("0.6 % from the best possible among")
    assert not any("this plan" in line for line in proof_lines(best))
    assert proof_lines(ONE_NODE)[1:] == [ONE_NODE.proof.space.what]


def test_a_proven_best_that_was_not_taken_is_called_the_best_possible() -> None:
    exact = changed(SIMPLE, gap=0.0, bound=23.9)

    assert proof_lines(exact)[0].startswith("the best fleet found is the best possible among 1,840 designs")


def test_what_is_minimised_is_given_up_above_the_best() -> None:
    cost = changed(
        SIMPLE, sense="min", unit="USD/h", objective=100.0, chosen=100.02, given_up=0.0002, kinds=[]
    )

    assert proof_lines(cost)[1] == "this plan is less than 0.1 % above it"


def test_only_caps_that_bind_are_told() -> None:
    loose = [
        Cap(what="sequences", value=1024, binds=False),
        Cap(what="GPUs a replica", value=1024, binds=True),
    ]
    told = changed(SIMPLE, space=SIMPLE.proof.space.model_copy(update={"caps": loose}))

    assert [line for line in proof_lines(told) if "cap" in line] == ["held by a cap: GPUs a replica 1,024"]


def test_rivals_and_prices_are_measured_against_this_plan() -> None:
    """23.5 req/s is less than the best, and 0.9 % more than this plan."""
    rival = Alternative(what="3 kinds", objective=23.5, loss=0.0, why="")
    plan = SIMPLE.model_copy(update={"alternatives": [rival]})
    node = Price(limit="gpus h100-sxm", one_more="8 GPUs (a node)", worth=11.65, unit="req/s")

    assert "0.9 % better" in shown(plan)
    assert terminal.sentence(SIMPLE, node).endswith("(50 %).")
    assert terminal.sentence(MIXED, MIXED.prices[1]).endswith("(7.6 %).")
