"""A curve of `pareto` on the page: where its points and the plan stand; one of others is refused."""

from __future__ import annotations

import json

import pytest

from planner.cli.app import run
from planner.errors import InputError
from planner.reports.page.curve import WHERE, Axis, Curve, Point, read_curve, section, ticks
from planner.reports.page.html import html
from planner.studies import curves
from tests.reports.page.samples import HERE, plan_of, tree

SURVIVE = plan_of("survive")
OF = {"problem": {"model": {"name": "llama-3.1-8b"}, "cluster": {"name": "32xh100"}}}
SPEED = Curve(
    curve="speed",
    x=Axis(what="of a user", unit="tok/s", more_is_better=True),
    y=Axis(what="of a GPU", unit="tok/s", more_is_better=True),
    points=[Point(x=20.0, y=1600.0, gap=0.004, plan=OF), Point(x=40.0, y=400.0, gap=0.0, plan=OF)],
)


def test_points_stand_at_their_shares_of_both_axes():
    """By hand: axes from 0 to 120 (this plan: 111 tokens/s a user) and to 2,000."""
    (_, chart, _) = section(SPEED, [SURVIVE], ["this plan"]).blocks

    assert [t.words for t in chart.across] == ["0", "25", "50", "75", "100", "125"]
    assert [t.words for t in chart.up] == ["0", "500", "1,000", "1,500", "2,000"]
    assert chart.line == ((20 / 125, 0.8), (40 / 125, 0.2))
    (own,) = chart.marks
    assert own.x == pytest.approx(1e3 / SURVIVE.predicted.tpot_ms.value / 125)
    assert own.y == pytest.approx(SURVIVE.predicted.out_tok_per_s.value / 32 / 2000)


@pytest.mark.parametrize(("name", "of"), [("speed", "lab"), ("cost", "latency"), ("energy", "energy")])
def test_a_plan_stands_where_pareto_would_put_it(name, of):
    """Plans of the goals of each curve, from a solver that always gives the same."""
    plan = plan_of(of)
    found = next(iter(curves.curve(name).points(lambda **options: plan, 1)))

    assert WHERE[name](plan) == pytest.approx((found.x, found.y), rel=5e-3)


def test_the_page_has_the_curve_behind_the_costs_and_its_points_in_figures():
    page = tree(html([SURVIVE], ["x"], SPEED))
    titles = [h.text for h in page.all("h2")]
    (chart,) = page.of("chart")
    table = next(t for t in page.all("table") if "Points of the curve" in t.text)

    assert titles[titles.index("Cost and energy") + 1] == "What is given up for what"
    assert len(chart.of("point")) == 2
    assert [t.text for t in chart.of("own-name")] == ["this plan"]
    assert "1,600" in table.text


def test_several_plans_stand_on_one_curve():
    page = tree(html([SURVIVE, SURVIVE], ["a", "b"], SPEED))

    assert [t.text for t in page.of("own-name")] == ["a", "b"]
    assert [h.text for h in page.all("h2")][:2] == ["Side by side", "What is given up for what"]


def test_a_curve_of_another_model_or_cluster_is_refused():
    with pytest.raises(InputError, match=r"the curve is of llama-3.1-8b on 32xh100, the plan of .* on lab"):
        html([plan_of("lab")], ["x"], SPEED)


def test_axes_end_at_round_values_that_hold_all():
    for most in (0.003, 0.97, 1.0, 9.99, 38.3, 51.0, 1586.0, 196_760.0):
        found = ticks(most)
        assert found[0] == 0
        assert found[-2] < most <= found[-1] * (1 + 1e-9)
        assert 4 <= len(found) <= 7


def test_the_command_reads_a_curve_and_says_what_is_wrong_with_one(tmp_path, capsys):
    told = SPEED.model_dump()
    curve, out = tmp_path / "curve.json", tmp_path / "report.html"
    curve.write_text(json.dumps(told))
    words = ["report", str(HERE / "survive.json"), "--curve", str(curve), "-o"]

    assert read_curve(curve) == SPEED
    assert run([*words, str(out)]) == 0
    assert "What is given up for what" in out.read_text(encoding="utf-8")
    assert run([*words, str(tmp_path / "a.svg")]) == 2
    assert "a picture has no curve" in capsys.readouterr().err
    curve.write_text(json.dumps({**told, "points": []}))
    assert run([*words, str(out)]) == 2
    assert str(curve) in capsys.readouterr().err
