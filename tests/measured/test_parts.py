"""The parts of a measured plan, counted again by hand from the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.power import idle_watts
from planner.errors import Infeasible, OutOfTime
from planner.measured import parts, solved
from planner.measured.parts import place
from planner.measured.rivals import of_columns, rivals
from planner.measured.shortage import explain
from solvers.linear import Limits
from tests.measured.tables import H100, L4, PROMPT, asked, row, stated

LIMITS = Limits(seconds=5)


def fleet(wanted, *rows):
    """The table's best fleet, placed."""
    s = stated(wanted, *rows)
    found = solved(wanted, s, LIMITS)
    counts = found.solution.replicas
    return parts.Fleet(wanted, s, found, place(found.cluster.classes, counts, found.candidates))


def test_totals_follow_from_the_table():
    """By hand: four L4s of 0.5 req/s, 1,024 tokens in and 256 out, $4, and the H100s idle."""
    f = fleet(asked(L4, ttft_ms=2000, tpot_ms=50), row("a", "l4", 1, 0.5, watts=70.0))
    p = parts.predicted(f)

    assert p.rps.value == pytest.approx(2.0)
    assert p.out_tok_per_s.value == pytest.approx(512.0)
    assert p.total_tok_per_s.value == pytest.approx(2560.0)
    assert p.usd_per_hour.value == 4.0
    assert p.usd_per_mtok.value == pytest.approx(4 / (512 * 0.0036))
    assert p.watts.low == p.watts.value == p.watts.high == 280.0
    assert p.joules_per_tok.value == pytest.approx(280 / 512)
    assert (p.ttft_ms.low, p.ttft_ms.value, p.tpot_ms.high) == (0.0, 2000.0, 50.0)
    assert p.utilisation.value == pytest.approx(1.0)


def test_gpus_that_idle_draw_power_too():
    four = parts.predicted(fleet(asked(L4), row("a", "l4", 1, 0.5, watts=70.0))).watts.value
    idle = parts.predicted(fleet(asked(L4, H100), row("a", "l4", 1, 0.5, watts=70.0))).watts.value

    assert idle == pytest.approx(four + 16 * idle_watts(700.0))


def test_replicas_larger_than_a_node_stand_on_whole_nodes():
    """By hand: twelve GPUs on two nodes of eight, a three and a two together on a third."""
    rows = [row("a", "h100-sxm", 12, 1.0), row("b", "h100-sxm", 3, 1.0), row("c", "h100-sxm", 2, 1.0)]
    s = stated(asked(H100.model_copy(update={"count": 3})), *rows)
    own = {c.label: c for c in s.candidates}
    on = place(
        asked(H100.model_copy(update={"count": 3})).cluster.classes,
        {c.id: 1 for c in own.values()},
        {c.id: c for c in own.values()},
    )

    assert on.used == {"h": 3}
    assert sorted({k for stage in on.stages[own["a"].id] for k in stage}) == [0, 1]
    assert on.stages[own["b"].id] == on.stages[own["c"].id] == [[2]]


def test_watts_that_the_table_leaves_out_have_a_band():
    p = parts.predicted(fleet(asked(L4), row("a", "l4", 1, 0.5)))

    assert p.watts.low < p.watts.value < p.watts.high


def test_prices_are_the_tables_or_else_of_whole_nodes():
    """By hand: two of eight GPUs pay the node's $16; a row of $2 a replica is the price of its replicas."""
    wanted = asked(H100, rate=2.0, objective="cost")

    assert parts.usd_per_hour(fleet(wanted, row("a", "h100-sxm", 2, 2.0))) == 16.0
    named = row("a", "h100-sxm", 2, 1.0, price_usd_per_hour=2.0)
    assert parts.usd_per_hour(fleet(wanted, named)) == 4.0
    f = fleet(asked(H100), row("a", "h100-sxm", 2, 2.0))
    unpriced = replace(f.found.problem, stocks={"h": replace(f.found.problem.stocks["h"], price=None)})
    assert parts.usd_per_hour(replace(f, found=replace(f.found, problem=unpriced))) is None


def test_batches_are_littles_law_with_latencies_at_their_limits():
    """By hand: 0.5 req/s for 2 s and 255 tokens of 50 ms are 7.4 requests; a prompt's side has the 2 s."""
    (mixed,) = parts.replicas(fleet(asked(L4, ttft_ms=2000, tpot_ms=50), row("a", "l4", 1, 0.5)))

    assert mixed.max_batch == 8
    assert (mixed.count, mixed.tp, mixed.engine) == (4, 1, "measured")
    assert mixed.utilisation == pytest.approx(1.0)
    both = [row("p", "h100-sxm", 4, 16.0, "prefill"), row("d", "h100-sxm", 4, 8.0, "decode")]
    made = {r.id: r for r in parts.replicas(fleet(asked(H100, ttft_ms=2000, tpot_ms=50), *both))}
    rate = 8.0 * made["d"].count / made["p"].count
    assert made["p"].max_batch == pytest.approx(2 * min(rate, 16.0), abs=1)
    assert made["d"].max_batch == 102  # 8 x 255 x 0.05


def test_pairs_are_routed_as_their_members_serve():
    both = [row("p", "h100-sxm", 4, 16.0, "prefill"), row("d", "l4", 1, 2.0, "decode")]
    f = fleet(asked(H100, L4), *both)
    (route,) = parts.routing(f)

    assert (route.prefill, route.decode, route.share) == ("p", "d", pytest.approx(1.0))
    assert route.kv_gb_per_s == pytest.approx(f.found.solution.rate * PROMPT / 1e9)


def test_what_is_idle_is_told_with_the_reason():
    (note,) = parts.warnings(fleet(asked(L4, H100), row("a", "l4", 1, 0.5)), "t.csv")[1:]
    (room,) = parts.warnings(fleet(asked(H100), row("a", "h100-sxm", 6, 0.5)), "t.csv")[1:]
    (load,) = parts.warnings(fleet(asked(L4, rate=0.5, objective="gpus"), row("a", "l4", 1, 0.5)), "t.csv")[
        1:
    ]

    assert (
        note.message == "16 of 16 h100-sxm idle: the table has no design for them that serves this workload"
    )
    assert room.message == "4 of 16 h100-sxm idle: the smallest replica of the table takes 6"
    assert load.message == "3 of 4 l4 idle: the load is served without them"


def test_designs_on_several_classes_have_their_class_in_their_name():
    twin = L4.model_copy(update={"name": "m", "price_usd_per_hour": 2.0})
    f = fleet(asked(L4, twin), row("a", "l4", 1, 0.5))

    assert len(set(f.ids.values())) == 2
    assert set(fleet(asked(L4), row("a", "l4", 1, 0.5)).ids.values()) == {"a"}


def test_without_a_design_its_pairs_are_gone():
    problem = stated(
        asked(H100, L4), row("p", "h100-sxm", 2, 40.0, "prefill"), row("d", "l4", 1, 40.0, "decode")
    ).problem
    some = {c for c, column in problem.columns.items() if column.group.startswith("prefill")}

    assert of_columns(problem, some).pairs == {}
    assert set(of_columns(problem, some).columns) == some
    assert of_columns(problem, set(problem.columns)) == problem


def test_what_each_design_is_worth_is_what_the_fleet_loses_without_it():
    """By hand: sixteen GPUs in twos of 3 req/s are 24, in twos of 2 req/s 16."""
    f = fleet(asked(H100), row("a", "h100-sxm", 2, 3.0), row("b", "h100-sxm", 2, 2.0))
    (line,) = rivals(f.found, LIMITS)

    assert (line.what, line.objective, line.status) == ("without a", pytest.approx(16.0), "proven")
    assert line.loss == pytest.approx(1 / 3)
    assert line.why == "8 x b: 1 against 1.5 req/s a GPU"


def short(*rows, ended=None, **load):
    """Why no fleet of four L4s does it."""
    wanted = asked(L4, **load)
    found = solved(wanted, stated(wanted, *rows), LIMITS)
    if ended:
        found = replace(found, solution=replace(found.solution, status=ended))
    return explain(found, LIMITS)


def test_a_rate_that_is_too_high_is_told_with_what_is_served_and_with_nodes_that_would_do():
    """By hand: two of four; four and a half want five more of 0.5."""
    error = short(row("a", "l4", 1, 0.5), rate=4.5)

    assert isinstance(error, Infeasible)
    assert error.message == "4.5 req/s cannot be served by these nodes at the table's rates: at most 2 req/s"
    assert str(error.hint).endswith(" or 5 more nodes of l")


def test_a_budget_that_is_too_small_is_raised_as_little_as_is_enough():
    error = short(row("a", "l4", 1, 0.5), rate=1.5, budget="gpus=2,usd_per_hour=9")

    assert "cannot be served within the budget: at most 1 req/s" in error.message
    assert str(error.hint).endswith("--budget usd_per_hour=9,gpus=3") or "gpus=3" in str(error.hint)


def test_no_time_and_an_interrupt_are_not_called_infeasible():
    assert isinstance(short(row("a", "l4", 1, 0.5), rate=5.0, ended="time_limit"), OutOfTime)
    with pytest.raises(KeyboardInterrupt):
        short(row("a", "l4", 1, 0.5), rate=5.0, ended="interrupted")
