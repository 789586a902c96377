"""What else a table allows and what would help where it does not do: exact, by small tables."""

from dataclasses import replace

import pytest

from planner.errors import Infeasible
from planner.measured import shortage, solved
from planner.measured.rivals import MOST, rivals
from planner.measured.shortage import explain
from planner.why.rounding import MOST_NODES
from solvers.linear import Limits
from tests.measured.tables import H100, L4, asked, row, stated

DEVICES = ("l4", "t4", "l40s", "a10", "a100-pcie-80gb")
LIMITS = Limits(gap=0.0, seconds=20)
ONE = row("a", "l4", 1, 0.5)
"""Half a request a second; four of them stand here, at $1 an hour each."""


def found(wanted, *rows):
    return solved(wanted, stated(wanted, *rows), LIMITS)


def short(*rows, nodes=(L4,), **load):
    wanted = asked(*nodes, **load)
    return explain(found(wanted, *rows), LIMITS)


@pytest.mark.parametrize(
    ("load", "message", "hint"),
    [
        (
            {"rate": 2.5},
            "2.5 req/s cannot be served by these nodes at the table's rates: at most 2 req/s",
            "1 more node of l",
        ),
        (
            {"rate": 9.0},
            "9 req/s cannot be served by these nodes at the table's rates: at most 2 req/s",
            "14 more nodes of l",
        ),
        ({"rate": 1.5, "budget": "gpus=2"}, "within the budget: at most 1 req/s", "--budget gpus=3"),
        (
            {"rate": 1.9, "budget": "usd_per_hour=2.5"},
            "within the budget: at most 1 req/s",
            "--budget usd_per_hour=4",
        ),
        # one of two is raised, where that is enough; the first that is short alone
        (
            {"rate": 2.0, "budget": "gpus=4,usd_per_hour=2"},
            "at most 1 req/s",
            "--budget usd_per_hour=4,gpus=4",
        ),
        # both are short: each as little as the others allow
        (
            {"rate": 2.0, "budget": "gpus=2,usd_per_hour=3"},
            "at most 1 req/s",
            "--budget usd_per_hour=4,gpus=4",
        ),
    ],
)
def test_the_most_that_is_served_and_the_least_that_would_help(load, message, hint):
    error = short(ONE, **load)
    most = "1" if "1 req/s" in message else "2"

    assert isinstance(error, Infeasible)
    assert message in error.message
    assert error.where == "--rate"
    assert error.hint == f"--rate {most} or {hint}"


def test_one_budget_is_raised_where_that_is_enough_however_far():
    """Within two GPUs only the dear ones serve 2 requests/s, a node of $16; four cheap ones would for $4."""
    error = short(
        ONE, row("b", "h100-sxm", 2, 3.0), nodes=(L4, H100), rate=2.0, budget="gpus=2,usd_per_hour=3"
    )

    assert error.hint == "--rate 1 or --budget usd_per_hour=16,gpus=2"


def test_a_budget_that_is_enough_stays_where_others_are_raised():
    """280 W of 9,000."""
    error = short(row("a", "l4", 1, 0.5, watts=70.0), rate=2.0, budget="gpus=2,usd_per_hour=2,watts=9000")

    assert error.hint == "--rate 1 or --budget usd_per_hour=4,gpus=4,watts=9000"


def test_dollars_are_rounded_up():
    """Three at $1.23456 are $3.70368."""
    odd = L4.model_copy(update={"price_usd_per_hour": 1.23456})

    assert str(short(ONE, nodes=(odd,), rate=1.5, budget="usd_per_hour=2").hint).endswith("usd_per_hour=3.71")


def test_a_budget_that_pays_for_nothing_is_raised_to_the_least_replica():
    """Three GPUs are the smallest there are."""
    error = short(row("a", "h100-sxm", 3, 0.5), nodes=(H100,), budget="gpus=2")

    assert error.message == "the budget does not pay for a fleet"
    assert error.hint == "--budget gpus=3"


def test_of_two_classes_the_ones_that_need_the_fewest_nodes_are_named():
    """4 x 0.5 and 2 x 4 x 3 are 26; 30 want 8 of the small nodes or one of the large."""
    error = short(ONE, row("b", "h100-sxm", 2, 3.0), nodes=(L4, H100), rate=30.0)

    assert error.hint == "--rate 26 or 1 more node of h or 8 more nodes of l"


def test_more_nodes_than_anybody_has_are_not_named():
    assert short(ONE, rate=MOST_NODES * 0.5 + 3).hint == "--rate 2"


def test_a_split_of_the_phases_is_compared_with_none():
    """Mixed ones serve 3 with two GPUs, 24 in all; pairs of two and two GPUs 8: four pairs, 32."""
    mixed = row("m", "h100-sxm", 2, 3.0)
    pair = [row("p", "h100-sxm", 2, 8.0, "prefill"), row("d", "h100-sxm", 2, 8.0, "decode")]
    wanted = asked(H100)
    both = {a.what: a for a in rivals(found(wanted, mixed, *pair), LIMITS)}

    assert set(both) == {"no prefill/decode split", "without p", "without d"}
    other = both["no prefill/decode split"]
    assert (other.objective, other.status) == (pytest.approx(24.0), "proven")
    assert other.loss == pytest.approx(1 - 24 / 32)
    slow = [replace(own, max_rps=5.0) for own in pair]  # 20: then the mixed ones are the plan
    (split, without) = rivals(found(wanted, mixed, *slow), LIMITS)
    assert (split.what, split.objective) == ("prefill/decode split", pytest.approx(20.0))
    assert (without.what, without.objective) == ("without m", pytest.approx(20.0))


def test_designs_that_alone_carry_the_load_have_no_rival():
    (line,) = rivals(found(asked(L4, rate=1.0), ONE), LIMITS)

    assert line.what == "without a"
    assert line.objective is None
    assert "do not carry the load" in line.why


def test_only_the_largest_of_many_designs_are_left_out_one_by_one():
    """A class for each of five designs, with 2 to 6 GPUs of 1 request/s: 20 in all."""
    nodes = [
        L4.model_copy(update={"name": f"n{i}", "count": i, "device": d}) for i, d in enumerate(DEVICES, 2)
    ]
    rows = [row(f"r{i}", d, 1, 1.0) for i, d in enumerate(DEVICES, 2)]
    lines = rivals(found(asked(*nodes), *rows), LIMITS)

    assert [line.what for line in lines] == ["without r6", "without r5", "without r4"][:MOST]
    assert [line.objective for line in lines] == pytest.approx([14.0, 15.0, 16.0])


def stopping(monkeypatch, **ended):
    """Solves for the most that can be served, of which those without a budget end so."""
    solve = shortage.fleet.solve

    def stopped(p, limits):
        s = solve(p, limits)
        return replace(s, **ended) if p.demand is None and not p.budget else s

    monkeypatch.setattr(shortage.fleet, "solve", stopped)


@pytest.mark.parametrize(
    ("bound", "within"),
    [(1.8, "by these nodes at the table's rates"), (3.0, "within the budget"), (None, "within the budget")],
)
def test_the_nodes_are_too_few_only_where_a_bound_says_so(monkeypatch, bound, within):
    """A search that was stopped found one request a second; two may be served without the budget."""
    stopping(monkeypatch, status="time_limit", objective=1.0, bound=bound)
    error = short(ONE, rate=1.9, budget="gpus=2")

    assert error.message == f"1.9 req/s cannot be served {within}: at most 1 req/s"


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"objective": 2.0, "bound": 2.5}, ": at most 2.5 req/s"),
        ({"objective": 2.0, "bound": 9.5}, ": the most that was found is 2 req/s"),
        ({"objective": None, "bound": None}, ""),
    ],
)
def test_the_most_is_told_as_far_as_it_is_proven(monkeypatch, ended, said):
    stopping(monkeypatch, status="time_limit", **ended)

    assert (
        short(ONE, rate=9.0).message == f"9 req/s cannot be served by these nodes at the table's rates{said}"
    )


def test_ctrl_c_while_looking_for_hints_is_heard(monkeypatch):
    stopping(monkeypatch, status="interrupted")

    with pytest.raises(KeyboardInterrupt):
        short(ONE, rate=9.0)


def test_ctrl_c_while_traffic_is_spread_keeps_the_fleet(monkeypatch):
    def broken_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shortage.fleet, "balance", broken_off)
    s = found(asked(L4, rate=1.5), ONE).solution

    assert (s.status, s.rate) == ("interrupted", pytest.approx(1.5))
