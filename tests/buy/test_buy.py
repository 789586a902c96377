"""What to rent or buy: within the budget, the cheapest for a rate, beside what is there, clear errors."""

from itertools import product

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.buy import find
from planner.buy.find import asked_of, buy
from planner.buy.outlook import Prices, break_evens, more
from planner.errors import Infeasible, InputError, OutOfTime
from planner.inputs.workload import Workload
from planner.plans.schema import OUT_OF_TIME, Cap
from planner.reports import bought

LIST = """
name: two
nodes:
  - {name: small, device: l40s, gpus_per_node: 1, price_usd_per_hour: 1.0, price_usd: 9000}
  - {name: dear, device: l40s, gpus_per_node: 1, price_usd_per_hour: 1.5, price_usd: 8000}
"""
UNLIKE = """
name: unlike
nodes:
  - {name: small, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.7}
  - {name: large, device: a100-pcie, gpus_per_node: 1, price_usd_per_hour: 1.6}
"""
LIMITS = {"ttft_ms": 2000, "tpot_ms": 100}
"""Asked for: limits that are only defaulted give way where nothing keeps them, in each mix by itself."""

OWN = "name: own\nnodes: [{name: mine, device: l40s, gpus_per_node: 1, count: 2, price_usd_per_hour: 9.0}]"


@pytest.fixture
def asked(tmp_path):
    return asking(tmp_path)


def asking(tmp_path):
    """Purchases of a price list that is written there."""

    def asked(budget, offers=LIST, own=None, **question):
        path, there = tmp_path / "list.yaml", tmp_path / "own.yaml"
        path.write_text(offers)
        there.write_text(own or OWN)
        wish = asked_of("llama-3.1-8b", budget, lambda text: None, engine="vllm", **LIMITS, **question)
        return *buy(str(there) if own else None, str(path), wish), wish

    return asked


def counts(found):
    return {each.offer: each.nodes for each in found.bought}


def test_a_budget_is_spent_on_the_cheaper_of_two_equal_offers_and_kept(asked):
    found, _, _ = asked("3.2$/h", gap=0.0)

    assert counts(found) == {"small": 3}
    assert found.takes == found.plan.predicted.usd_per_hour.value == 3.0


def test_dollars_paid_once_are_counted_by_the_purchase_price(asked):
    found, _, _ = asked("16500$", gap=0.0)

    assert counts(found) == {"dear": 2}
    assert found.takes == 16000


def test_watts_are_those_that_the_nodes_draw_at_most(asked):
    found, _, _ = asked("1kW", gap=0.0)

    assert found.takes == 700.0  # two L40S of 350 W
    assert sum(counts(found).values()) == 2


def test_nodes_that_are_there_are_used_first_and_cost_nothing(asked):
    alone = asked("2$/h", gap=0.0)[0].plan.predicted.rps.value
    few, _, _ = asked(None, own=OWN, rate=0.5 * alone, gap=0.0)
    more, _, _ = asked(None, own=OWN, rate=1.2 * alone, gap=0.0)

    assert counts(few) == {}
    assert few.takes == few.gap == 0.0
    assert counts(more) == {"small": 1}


def test_the_plan_is_on_what_is_bought_and_nothing_else(asked):
    found, _, _ = asked("3.2$/h", gap=0.0)

    assert [(n["name"], n["count"]) for n in found.plan.problem.cluster["nodes"]] == [("small", 3)]


def served(mix, rate):
    """Requests/s that a mix serves of the rate, or of any; 0: it does not serve it."""
    gpus = {"small": "l4", "large": "a100-pcie"}
    prices = {"small": 0.7, "large": 1.6}
    nodes = [
        {"name": n, "device": gpus[n], "gpus_per_node": 1, "count": k, "price_usd_per_hour": prices[n]}
        for n, k in mix.items()
        if k
    ]
    precisely = {"gap": 0.0} if rate is None else {"gap": 0.05, "time_limit_s": 10}
    try:
        cluster = resolve(Cluster.model_validate({"name": "mix", "nodes": nodes}))
        plan = api.plan(
            cluster,
            "llama-3.1-8b",
            engine="vllm",
            rate=rate,
            explain=False,
            simple=0.0,
            **precisely,
            **LIMITS,
        )
    except (Infeasible, OutOfTime):  # the bound alone cannot tell of some mixes
        return 0.0
    return plan.predicted.rps.value


def mixes(money):
    """Every mix of the two unlike offers within the money, with its price."""
    every = product(range(int(money / 0.7) + 1), range(int(money / 1.6) + 1))
    priced = {(s, m): 0.7 * s + 1.6 * m for s, m in every if s or m}
    return {mix: price for mix, price in priced.items() if price <= money}


def largest(mixes):
    """Those that are no part of another: what a mix does not serve, no part of it does."""
    return [(s, m) for s, m in mixes if not any((s, m) != (t, n) and s <= t and m <= n for t, n in mixes)]


def test_the_largest_mixes_hold_all_others():
    assert largest(mixes(3.1)) == [(2, 1), (4, 0)]
    every = mixes(5.0)
    assert all(any(s <= t and m <= n for t, n in largest(every)) for s, m in every)


@pytest.mark.parametrize("money", [1.0, 2.5, 3.1])
def test_a_budget_serves_as_much_as_the_best_of_all_mixes(asked, money):
    found, _, _ = asked(f"{money}$/h", UNLIKE, gap=0.0)
    best = max(served({"small": s, "large": m}, None) for s, m in largest(mixes(money)))

    assert found.takes <= money
    assert found.value == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("rate", [2.0, 7.0])
def test_a_rate_costs_as_little_as_the_cheapest_of_all_mixes(asked, rate):
    found, _, _ = asked(None, UNLIKE, rate=rate, gap=0.0)
    cheaper = [mix for mix, price in mixes(5.0).items() if price < found.takes - 1e-6]

    assert served(counts(found), rate) > 0
    served_by = [mix for mix in largest(cheaper) if served({"small": mix[0], "large": mix[1]}, rate) > 0]
    assert served_by == []


def test_the_prices_at_which_the_mix_changes_are_those_of_a_scan(asked):
    """Each side of each price: the same mix just before it, another just behind it."""
    found, offered, wish = asked(None, UNLIKE, rate=7.0, gap=0.0)
    prices, met = Prices(found, offered, wish), 0
    for name in offered.offers:
        one, mine = prices.of(name), prices.own(name)
        for edge, away in ((one.below, 0.99), (one.above, 1.01)):
            if edge is not None:
                met += 1
                near, far = edge * (2 - away), edge * away
                # plans of servers stop within a hundredth of what the mean over all routes allows
                assert prices.cheapest(name, near).at(near) == pytest.approx(mine.at(near), rel=0.01)
                assert prices.cheapest(name, far).at(far) < mine.at(far) * (1 - 1e-5)
        for p in (one.price * f for f in (0.5, 0.8, 1.3, 2.0)):
            inside = (one.below or 0) <= p <= (one.above or 1e9)
            assert (prices.cheapest(name, p).at(p) >= mine.at(p) * (1 - 1e-6)) == inside

    assert met


def test_a_budget_s_mix_is_paid_for_up_to_its_own_price_and_not_beyond(asked):
    found, offered, wish = asked("3.1$/h", UNLIKE, gap=0.0)
    prices = Prices(found, offered, wish)
    one = prices.of(found.bought[0].offer)
    mine = prices.own(one.offer)

    assert one.above is not None
    assert mine.at(one.above) == pytest.approx(3.1)
    for edge in [] if one.below is None else [one.below]:
        assert prices.cheapest(one.offer, 0.99 * edge).at(0.99 * edge) < 3.1
        assert prices.cheapest(one.offer, 1.01 * edge).at(1.01 * edge) > 3.1


@pytest.mark.parametrize("budget", [None, "50", "50 euros", "50kW/h", "5$/h,3kW", "0$/h", "nan$/h"])
def test_what_is_no_budget_is_refused_with_the_forms_that_are(asked, budget):
    with pytest.raises(InputError) as error:
        asked(budget)

    assert error.value.where == "--budget"


def test_too_little_money_is_told_what_the_cheapest_costs(asked):
    with pytest.raises(Infeasible) as error:
        asked("0.5$/h")

    assert "0.50/h" in error.value.message
    assert "$1.00/h: 1 x small" in (error.value.hint or "")


def test_an_offer_with_the_name_of_a_node_that_is_there_is_refused(asked):
    with pytest.raises(InputError, match="small"):
        asked("3$/h", own=OWN.replace("mine", "small"))


def test_offers_without_the_price_that_is_counted_are_named(asked):
    some = UNLIKE.replace("price_usd_per_hour: 1.6", "price_usd: 9000")
    found, _, _ = asked("20000$", some, gap=0.0)

    assert found.left_out == ["small"]


def test_the_document_has_what_is_printed(asked):
    found, _, _ = asked("3.2$/h", gap=0.0)
    said = found.as_json

    assert said["bought"] == [{"offer": "small", "nodes": 3, "takes": 1.0, "usd_per_hour": 1.0}]
    assert said["takes"] == 3.0
    assert said["rps"] == found.value
    assert said["bound"] >= found.value * (1 - 1e-8)
    assert said["plan"]["schema_version"]


def test_a_workload_may_be_given_as_one(asked):
    found, _, _ = asked(
        "1$/h", workload=Workload.model_validate({"buckets": [{"isl": 100, "osl": 50, "share": 1}]})
    )

    assert counts(found) == {"small": 1}


def test_a_rate_in_the_workload_is_a_rate(asked, tmp_path):
    """As in the command, so in a file: the least money, not the most requests."""
    path = tmp_path / "load.yaml"
    path.write_text("name: load\nisl: 500\nosl: 100\nrate_rps: 2\n")
    found, _, wish = asked(None, workload=str(path), gap=0.0)

    assert counts(found) == {"small": 1}
    assert found.rate_rps == 2.0
    assert found.value == found.bound == 1.0
    assert wish.times(2.0).rate == 4.0


def test_more_of_the_rate_takes_more_nodes(asked):
    one, offered, wish = asked(None, UNLIKE, rate=7.0, gap=0.0)
    next_ = list(more(offered, wish))

    assert [m.times for m in next_] == [1.25, 1.5, 2.0]
    for m in next_:
        again = asked(None, UNLIKE, rate=7.0 * m.times, gap=0.0)[0]
        assert m.takes == pytest.approx(again.takes)
        assert m.rps == pytest.approx(7.0 * m.times)
    assert one.takes <= next_[0].takes <= next_[-1].takes


def test_offers_that_differ_in_nothing_are_taken_in_their_order_and_have_no_price_of_their_own(asked):
    twins = (
        LIST.replace("1.5", "1.0").replace("8000", "9000, count: 2").replace("9000}", "9000, count: 2}", 1)
    )
    found, offered, wish = asked("3$/h", twins, gap=0.0)

    assert counts(found) == {"small": 2, "dear": 1}
    assert break_evens(found, offered, wish) == ([], 0)


def test_of_offers_that_draw_the_same_the_cheaper_is_taken(asked):
    dear_first = LIST.replace("1.0", "2.0")

    assert counts(asked("1kW", LIST, gap=0.0)[0]) == {"small": 2}
    assert counts(asked("1kW", dear_first, gap=0.0)[0]) == {"dear": 2}


def test_offers_may_cost_the_same_an_hour_and_not_to_buy(asked):
    found, _, _ = asked("16500$", LIST.replace("1.5", "1.0"), gap=0.0)

    assert counts(found) == {"dear": 2}


def test_there_are_no_more_nodes_than_an_offer_has(asked):
    found, _, _ = asked("3.6$/h", LIST.replace("price_usd: 9000", "count: 2"), gap=0.0)

    assert counts(found) == {"small": 2, "dear": 1}


def test_where_all_that_is_offered_is_too_little_nothing_is_said_of_a_budget_that_nobody_gave(asked):
    few = LIST.replace("price_usd: 9000", "count: 2").replace("price_usd: 8000", "count: 1")

    assert counts(asked(None, few, rate=12.0, gap=0.0)[0]) == {"small": 2, "dear": 1}
    with pytest.raises(Infeasible, match=r"cannot be served by these nodes within the SLO: at most 1\d"):
        asked(None, few, rate=500.0)


BOX = """
name: boxes
nodes:
  - {name: pc, gpus: [{device: rtx-4090, count: 1}, {device: rtx-3090, count: 1}], price_usd_per_hour: 0.8}
links: []
"""


def test_offers_have_gpus_of_one_kind(asked):
    with pytest.raises(InputError, match="one kind"):
        asked("1.7$/h", BOX)


MANY = """
name: many
nodes:
  - {name: dear, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.9}
  - {name: cheap, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.7}
  - {name: few, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.5, count: 1}
  - {name: near, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.9, zone: z}
  - {name: far, device: l4, gpus_per_node: 1, price_usd_per_hour: 0.8, zone: z}
  - {name: joined, device: l4, gpus_per_node: 1, price_usd_per_hour: 2.0}
links: [{between: [joined, cheap], gb_per_s: 1.0}]
"""


def test_offers_of_which_another_is_the_same_for_less_are_not_planned_with(asked):
    """Those of a number, in another zone or at a link are no such offers."""
    found, offered, _ = asked("1.9$/h", MANY, gap=0.0)
    nodes = {run.stem for n in offered.cluster(1.9).classes for run in n.nodes.runs}
    every = {run.stem for n in offered.cluster(1.9, dearer=True).classes for run in n.nodes.runs}

    assert offered.dearer == {"dear", "near"}
    assert every - nodes == {"dear", "near"}
    assert counts(found) == {"few": 1, "cheap": 2}
    assert offered.most_nodes(1.9) == 2 + 1 + 2


def test_the_time_limit_holds_for_all_plans_of_a_purchase_together(asked, monkeypatch):
    """Each plan has a part of what is left, and takes all of it; none is begun when it is over."""
    now, given = [100.0], list[float]()

    def slow(*_, time_limit_s, **__):
        given.append(time_limit_s)
        now[0] += time_limit_s
        raise OutOfTime("late")

    monkeypatch.setattr(find.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(find.api, "plan", slow)
    for budget, rate in (("3.2$/h", None), (None, 5.0)):
        given.clear()
        began = now[0]
        with pytest.raises(OutOfTime):
            asked(budget, rate=rate, time_limit_s=5.0)

        assert given[0] == pytest.approx(3.0)
        assert len(given) > 1
        assert sum(given) <= 5.0
        assert now[0] - began <= 5.0


def test_a_mix_of_only_some_offers_is_not_said_to_be_the_best(asked, monkeypatch):
    found, _, _ = asked("3.2$/h", gap=0.0)
    assert found.in_time

    real = find.api.plan

    def cut(*args, **more):
        made = real(*args, **more)
        cap = Cap(what=OUT_OF_TIME, value=1, binds=True)
        space = made.proof.space.model_copy(update={"caps": [*made.proof.space.caps, cap]})
        return made.model_copy(update={"proof": made.proof.model_copy(update={"space": space})})

    monkeypatch.setattr(find.api, "plan", cut)
    found, _, _ = asked("3.2$/h", gap=0.0)
    assert not found.in_time
    assert "the time was over before all 2 offers were looked at" in bought._proven(found)
