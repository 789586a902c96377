"""Sections of the page against the Plan that they tell: every figure once, every bar within its scale."""

import re

import pytest

from planner.plans.schema import Band, Plan, PlanWarning
from planner.reports.figures import Figure, figures
from planner.reports.page import flow, money, told
from planner.reports.page.answer import facts, sentences
from planner.reports.page.blocks import Bar, Bars, Block, Folded, Section
from planner.reports.page.html import SECTIONS
from tests.reports.page.samples import ALL, plan_of

EVERY = pytest.mark.parametrize("name", ALL)


def flat(blocks: tuple[Block, ...]) -> list[Block]:
    """Blocks, and those inside of folded ones."""
    return [x for b in blocks for x in ([b, *flat(b.blocks)] if isinstance(b, Folded) else [b])]


def bars_of(section: Section | None) -> list[Bar]:
    """All bars of a section."""
    found = flat(section.blocks) if section else []
    return [bar for b in found if isinstance(b, Bars) for bar in b.bars]


def changed(plan: Plan, **predicted: object) -> Plan:
    return plan.model_copy(update={"predicted": plan.predicted.model_copy(update=predicted)})


@EVERY
def test_every_bar_lies_within_its_scale(name):
    sections = [make(plan_of(name)) for make in SECTIONS]
    bars = [bar for section in sections for bar in bars_of(section)]

    assert bars
    for bar in bars:
        assert bar.mark is None or 0 <= bar.mark <= 1
        for part in bar.parts:
            assert part.start >= -1e-9
            assert part.width >= -1e-9
            assert part.start + part.width <= 1 + 1e-6


@EVERY
def test_sections_have_names_and_titles_of_their_own(name):
    sections = [s for make in SECTIONS if (s := make(plan_of(name))) is not None]

    assert len({s.name for s in sections}) == len({s.title for s in sections}) == len(sections)
    assert all(s.blocks for s in sections)


@EVERY
def test_what_is_promised_and_what_it_costs_are_all_figures_each_once(name):
    plan = plan_of(name)
    bars = [*bars_of(money.expected(plan)), *bars_of(money.spent(plan))]

    assert sorted(b.label for b in bars) == sorted(f.label for f in figures(plan))


def test_money_is_what_is_spent():
    plan = plan_of("h100-8")

    assert {b.label for b in bars_of(money.expected(plan))} >= {"output tokens", "requests"}
    assert "power of all GPUs" in {b.label for b in bars_of(money.spent(plan))}


def test_without_prices_the_page_says_that_the_cost_is_unknown():
    plan = changed(plan_of("h100-8"), usd_per_hour=None, usd_per_mtok=None)
    words = str(money.spent(plan))

    assert "the cost is not known" in words
    assert "the cost is not known" not in str(money.spent(plan_of("melange-cloud")))


def test_a_figure_is_drawn_to_its_value_its_band_and_its_limit():
    """The scale ends 8 % beyond the highest of the three, here the limit of 200."""
    bar = money._bullet(Figure("time", Band(value=100.0, low=80.0, high=130.0), "ms", 200.0, 0.97))
    scale = money.ROOM * 200

    assert bar.parts[0].width == pytest.approx(100 / scale)
    assert (bar.parts[1].start, bar.parts[1].width) == (pytest.approx(80 / scale), pytest.approx(50 / scale))
    assert bar.mark == pytest.approx(200 / scale)
    assert "limit 200 ms" in bar.said
    assert "97" in bar.said


def test_a_figure_without_band_and_limit_says_neither():
    bar = money._bullet(Figure("time", Band(value=100.0, low=100.0, high=100.0), "ms"))

    assert bar.said == ""
    assert bar.mark is None


@EVERY
def test_what_more_would_bring_is_in_the_order_of_its_worth(name):
    plan = plan_of(name)
    bars = bars_of(money.more(plan))
    lengths = [b.parts[0].width for b in bars]

    assert lengths == sorted(lengths, reverse=True)
    assert len(bars) == sum(p.worth > 1e-9 * abs(plan.proof.own) for p in plan.prices)
    assert not bars or lengths[0] == 1.0
    assert (money.more(plan) is None) == (not plan.prices)


@EVERY
def test_the_plan_is_the_first_of_what_was_considered(name):
    plan = plan_of(name)
    bars = bars_of(money.instead(plan))

    assert [b.chosen for b in bars] == (
        [True] + [False] * len(plan.alternatives) if plan.alternatives else []
    )
    assert {b.label for b in bars[1:]} == {a.what for a in plan.alternatives}


@EVERY
def test_of_fewer_kinds_the_chosen_fleet_is_marked(name):
    plan = plan_of(name)
    bars = bars_of(money.simpler(plan))

    assert len(bars) == len(plan.proof.kinds)
    assert not bars or any(b.chosen for b in bars)


@EVERY
def test_a_request_takes_its_first_token_and_the_further_ones(name):
    """At a percentile the sum is no request's: few have both a late first token and slow further ones."""
    plan = plan_of(name)
    section = flow.times(plan)
    which = plan.problem.workload["slo"].get("percentile", "mean")
    label = (
        "A request, from" if which == "mean" else f"Times to the first and to further tokens, each at {which}"
    )
    bar = next((b for b in bars_of(section) if b.label.startswith(label)), None)
    p = plan.predicted
    if bar is None:
        assert p.ttft_ms.value == p.tpot_ms.value == 0
        return
    buckets = plan.problem.workload["buckets"]
    further = sum(b["share"] * (b["osl"] - 1) for b in buckets) / sum(b["share"] for b in buckets)
    whole = p.ttft_ms.value + further * p.tpot_ms.value

    assert bar.parts[0].width == pytest.approx(p.ttft_ms.value / whole)
    assert sum(part.width for part in bar.parts) == pytest.approx(1.0)


@EVERY
def test_steps_are_as_long_as_they_last_beside_the_longest(name):
    plan = plan_of(name)
    steps = [r for r in plan.replicas if r.step.decode_s and r.role != "prefill"]
    longest = max((r.step.decode_s for r in plan.replicas), default=0.0)
    bars = [b for b in bars_of(flow.times(plan)) if any(b.label.startswith(f"{r.id}:") for r in steps)]

    for r, bar in zip(steps, bars, strict=False):
        assert sum(part.width for part in bar.parts) == pytest.approx(r.step.decode_s / longest, rel=1e-3)


def test_optional_sections_are_there_where_the_plan_has_what_they_tell():
    for name in ALL:
        plan = plan_of(name)
        assert (told.again(plan) is not None) == (plan.replayed is not None)
        assert (told.lost(plan) is not None) == (plan.survives is not None)
        assert (told.longest(plan) is not None) == bool(plan.long_prompts)
        assert (told.supposed(plan) is not None) == bool(plan.problem.defaulted or plan.assumptions)
        assert told.balanced(plan) is None or any(e.ep > 1 for e in plan.experts.replicas)


def test_all_three_kinds_of_optional_section_are_met():
    plans = [plan_of(name) for name in ALL]

    assert any(p.replayed for p in plans)
    assert any(p.survives for p in plans)
    assert any(p.long_prompts for p in plans)


@EVERY
def test_the_proof_says_objective_and_bound_in_figures(name):
    p = plan_of(name).proof
    text = str(told.proven(plan_of(name)))

    assert f"best found {p.objective:,.6g} {p.unit}, bound {p.bound:,.6g} {p.unit}" in text
    assert told.STATUS[p.status] in text


def test_of_a_plan_made_with_others_nothing_is_said_to_be_proven():
    """Its own objective and bound are what it was given of all together: by itself it could do better."""
    plan = plan_of("h100-8")
    joint = plan.model_copy(update={"proof": plan.proof.model_copy(update={"status": "joint"})})
    text = " ".join([str(told.proven(joint)), *sentences(joint), *(f.label for f in facts(joint))])

    assert "the proof is of all together" in text
    assert not any(word in text for word in ("It is proven", "best found", "From the best possible"))


def test_a_warning_has_its_reason_once():
    plan = plan_of("h100-8").model_copy(
        update={
            "warnings": [
                PlanWarning(code="a", message="too old", reason="from 2020"),
                PlanWarning(code="b", message="old, from 2020", reason="from 2020"),
                PlanWarning(code="c", message="bare"),
            ]
        }
    )

    assert told.warned(plan) == ("too old (from 2020)", "old, from 2020", "bare")


@EVERY
def test_the_memory_of_a_gpu_is_drawn_to_its_capacity(name):
    plan = plan_of(name)
    labels = [b.label for b in bars_of(told.memory(plan))]

    assert len(labels) == len(set(labels))
    for r in plan.replicas:
        assert not r.memory or any(re.match(rf"{re.escape(r.id)}: a ", label) for label in labels)
