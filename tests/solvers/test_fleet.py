"""The fleet MILP: by hand, against trying every fleet, and by what must not change or must not get worse."""

import random
from dataclasses import replace
from itertools import product

import pytest

from solvers import fleet
from solvers.fleet.extract import fullest, value
from solvers.fleet.goals import COST, ENERGY, GPUS, SPARE, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock, Transfer
from solvers.linear import Limits, total
from tests.solvers.fleets import OBJECTIVES, best_by_trying_all, curved, goal, loaded, random_fleet

SMALL = FleetProblem(
    columns={
        "h100-tp2": Column("h100", 2, {"busy": {"chat": 1 / 20}}, watts=1400.0, latency={"chat": 1.0}),
        "l4-tp1": Column("l4", 1, {"busy": {"chat": 1 / 2}}, watts=70.0, latency={"chat": 4.0}),
    },
    stocks={"h100": Stock(2, 2, 6.0), "l4": Stock(4, 1, 1.0)},
    share={"chat": 1.0},
    objective=COST,
    demand=22.0,
)
ONE_TOKEN = FleetProblem(
    columns={
        "p": Column("g", 1, {"busy": {"one": 0.1, "chat": 0.1}}, group="P"),
        "d small": Column("g", 1, {"busy": {"one": 0.0, "chat": 0.9}}, group="D"),
        "d": Column("g", 1, {"busy": {"one": 1e-9, "chat": 0.1}}, group="D"),
    },
    stocks={"g": Stock(3, 1, 1.0)},
    share={"one": 0.5, "chat": 0.5},
    objective=THROUGHPUT,
    pairs={("P", "D", w): Transfer(0.0, on_nic=False) for w in ("one", "chat")},
)
SENSE = {"throughput": 1.0, "cost": -1.0, "energy": -1.0, "gpus": -1.0, "latency": -1.0, "spare": -1.0}


def solved(p: FleetProblem, **limits: float) -> FleetSolution:
    return fleet.solve(p, Limits(**limits))  # type: ignore[arg-type]


def same(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and a == pytest.approx(b, rel=1e-6, abs=1e-9))


def no_worse(p: FleetProblem, better: FleetSolution, worse: FleetSolution) -> bool:
    """Whether `better` is at least as good as `worse`, infeasible being worst."""
    if worse.objective is None:
        return True
    if better.objective is None:
        return False
    slack = 1e-6 * max(1.0, abs(worse.objective))
    return SENSE[p.objective.name] * (better.objective - worse.objective) >= -slack


# by hand


def test_one_of_each_serves_22_requests_per_second():
    """20/s from one h100-tp2 ($6) and the last 2/s from one l4-tp1 ($1)."""
    s = solved(SMALL)

    assert s.replicas == {"h100-tp2": 1, "l4-tp1": 1}
    assert s.objective == pytest.approx(7.0) == s.bound
    assert s.status == "optimal"


@pytest.mark.parametrize(
    ("objective", "expected"), [("energy", 1470.0), ("gpus", 3.0), ("throughput", 48.0), ("latency", 1.0)]
)
def test_each_objective_has_its_own_answer(objective, expected):
    """Most: 2 * 20 + 4 * 2. Least latency: all on h100, at 1 s a request."""
    assert solved(replace(SMALL, objective=goal(objective))).objective == pytest.approx(expected)


RESTING = {g: replace(stock, idle_watts=50.0) for g, stock in SMALL.stocks.items()}


def test_gpus_in_no_replica_draw_power_in_nodes_that_are_off_the_bill_too():
    """One h100-tp2 of 2 x 2 and one l4-tp1 of 4 are run: 1400 + 70, and 2 + 3 GPUs rest at 50 W."""
    s = solved(replace(SMALL, objective=ENERGY, stocks=RESTING))

    assert s.replicas == {"h100-tp2": 1, "l4-tp1": 1}
    assert s.objective == pytest.approx(1470.0 + 5 * 50.0) == s.bound


def test_idle_power_decides_between_many_gpus_and_few():
    """40/s by two replicas of 1 GPU at 300 W, or by one of 4 at 650 W: beside the two, 2 rest at 60 W."""
    columns = {
        "few": Column("g", 1, {"busy": {"chat": 1 / 20}}, watts=300.0),
        "many": Column("g", 4, {"busy": {"chat": 1 / 40}}, watts=650.0),
    }
    p = replace(SMALL, columns=columns, stocks={"g": Stock(1, 4, 1.0)}, objective=ENERGY, demand=40.0)

    assert solved(p).replicas == {"few": 2}
    resting = solved(replace(p, stocks={"g": Stock(1, 4, 1.0, idle_watts=60.0)}))
    assert resting.replicas == {"many": 1}
    assert resting.objective == pytest.approx(650.0)


def test_a_budget_of_watts_pays_for_gpus_at_rest():
    p = replace(SMALL, stocks=RESTING, budget={"watts": 1719.0})

    assert solved(p).status == "infeasible"
    assert solved(replace(p, budget={"watts": 1720.0})).replicas == {"h100-tp2": 1, "l4-tp1": 1}


def test_a_demand_beyond_all_nodes_is_infeasible():
    s = solved(replace(SMALL, demand=48.1))

    assert (s.status, s.objective, s.replicas) == ("infeasible", None, {})


def test_no_time_is_not_the_same_word_as_infeasible():
    s = solved(large(7), seconds=1e-9)

    assert s.status == "time_limit"


def test_a_replica_may_cost_more_than_its_nodes():
    columns = {**SMALL.columns, "l4-tp1": replace(SMALL.columns["l4-tp1"], price=5.5)}

    assert solved(replace(SMALL, columns=columns)).objective == pytest.approx(6.0 + 6.0)


def test_prefill_and_decode_are_paid_for_together():
    """One prefill feeds 10/s, one decode 4/s; 8/s over a link of 40 bytes/s, 5 bytes a request."""
    p = FleetProblem(
        columns={
            "p": Column("g", 4, {"busy": {"w": 0.1}}, group="P"),
            "d": Column("g", 2, {"busy": {"w": 0.25}}, group="D"),
        },
        stocks={"g": Stock(3, 4, 3.0)},
        share={"w": 1.0},
        objective=THROUGHPUT,
        pairs={("P", "D", "w"): Transfer(5.0, links=("k",), on_nic=False)},
        links={"k": 40.0},
    )

    assert solved(p).rate == pytest.approx(8.0)
    assert solved(replace(p, links={"k": 80.0})).rate == pytest.approx(10.0)
    assert solved(replace(p, stocks={"g": Stock(2, 4, 3.0)})).replicas == {"p": 1, "d": 2}


@pytest.mark.parametrize("gone", ["p", "d"])
def test_a_pool_without_columns_serves_nothing(gone):
    p = FleetProblem(
        columns={
            "m": Column("g", 1, {"busy": {"w": 1.0}}),
            "p": Column("g", 1, {"busy": {"w": 0.01}}, group="P"),
            "d": Column("g", 1, {"busy": {"w": 0.01}}, group="D"),
        },
        stocks={"g": Stock(4, 1)},
        share={"w": 1.0},
        objective=THROUGHPUT,
        pairs={("P", "D", "w"): Transfer(0.0, on_nic=False)},
    )

    assert solved(p).rate == pytest.approx(200.0)
    half = replace(p, columns={c: column for c, column in p.columns.items() if c != gone})
    assert solved(half).rate == pytest.approx(4.0)


def test_a_nic_limits_what_a_pool_sends():
    p = FleetProblem(
        columns={
            "p": Column("g", 1, {"busy": {"w": 0.01}}, group="P"),
            "d": Column("g", 1, {"busy": {"w": 0.01}}, group="D"),
        },
        stocks={"g": Stock(5, 1)},
        share={"w": 1.0},
        objective=THROUGHPUT,
        pairs={("P", "D", "w"): Transfer(2.0)},
        nic={"P": 6.0, "D": 100.0},
    )

    assert solved(p).rate == pytest.approx(4 * 6.0 / 2.0)
    assert solved(replace(p, nic={"P": 100.0, "D": 6.0})).replicas == {"p": 1, "d": 4}


def test_unused_nodes_are_neither_counted_nor_paid_for():
    p = replace(SMALL, objective=THROUGHPUT, stocks={**SMALL.stocks, "idle": Stock(5, 8, 9.0)})

    assert solved(p).nodes == {"h100": 2, "l4": 4}


@pytest.mark.parametrize(
    "change",
    [
        {"demand": None},
        {"stocks": {"h100": Stock(2, 2), "l4": Stock(4, 1, 1.0)}},
        {"columns": {"c": Column("l4", 1, {"busy": {"chat": -1.0}})}},
    ],
    ids=["no demand", "no price", "negative use"],
)
def test_numbers_that_would_answer_wrongly_in_silence_are_refused(change):
    with pytest.raises(ValueError, match=r"demand|price|freed"):
        replace(SMALL, **change)


# by brute force


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_agrees_with_trying_every_fleet(objective):
    """Hundreds of fleets: classes, odd sizes, whole nodes and domains, pairs over links and NICs, budgets."""
    for seed in range(60):
        p = random_fleet(seed, objective)
        s = solved(p)

        assert same(s.objective, best_by_trying_all(p)), f"seed {seed}"
        assert s.status == ("infeasible" if s.objective is None else "optimal"), f"seed {seed}"
        assert s.bound == s.objective, f"seed {seed}"


@pytest.mark.parametrize("objective", ["cost", "energy", "gpus"])
def test_replicas_that_serve_no_less_than_a_part_agree_with_trying_every_fleet(objective):
    changed = 0
    for seed in range(40):
        free = random_fleet(seed, objective)
        p = loaded(curved(free, seed) if objective == "energy" else free, seed)
        s = solved(p)
        plain = solved(replace(p, columns={c: replace(k, least=0.0) for c, k in p.columns.items()}))
        changed += not same(s.objective, plain.objective)

        assert same(s.objective, best_by_trying_all(p)), f"seed {seed}"
    assert changed > 3


@pytest.mark.parametrize("limits", [{"gap": 0.3}, {"work": 1}], ids=["gap 30 %", "one node"])
def test_a_bound_is_true_however_early_the_search_ends(limits):
    for seed in range(60):
        p = random_fleet(seed)
        s, best = solved(p, **limits), best_by_trying_all(p)
        if best is None:
            assert s.objective is None
            continue
        slack = 1e-6 * max(1.0, abs(best))

        assert s.bound is not None
        assert SENSE[p.objective.name] * (s.bound - best) >= -slack, f"seed {seed}"
        if s.objective is not None:
            assert SENSE[p.objective.name] * (best - s.objective) >= -slack, f"seed {seed}"
            assert (s.status == "optimal") == (s.bound == s.objective), f"seed {seed}"


def test_an_answer_keeps_every_limit_by_its_own_numbers():
    for seed in range(60):
        p = random_fleet(seed)
        s = solved(p)
        if s.objective is None:
            continue
        served = dict.fromkeys(p.share, 0.0)
        for (c, w), v in s.flows.items():
            served[w] += v if p.columns[c].group is None else 0.0
        for (_, _, w), v in s.pair_flows.items():
            served[w] += v

        assert fullest(p, s) <= 1 + 1e-8, f"seed {seed}"
        assert value(p, s) == s.objective, f"seed {seed}"
        assert all(served[w] == pytest.approx(x * s.rate, rel=1e-7) for w, x in p.share.items()), (
            f"seed {seed}"
        )
        assert all(k <= p.stocks[g].nodes for g, k in s.nodes.items()), f"seed {seed}"


# by what must not change, or must not get worse


def pick(seed: int) -> random.Random:
    return random.Random(seed + 10_000)


LOOSENED = [
    lambda p, r: replace(p, stocks=changed(p.stocks, r, a_domain_more)),
    lambda p, r: replace(p, stocks=changed(p.stocks, r, lambda s: replace(s, price=s.price * 0.7))),
    lambda p, r: replace(p, columns=changed(p.columns, r, faster)),
    lambda p, r: replace(p, budget={b: x * 1.3 for b, x in p.budget.items()}),
    lambda p, r: replace(p, links={k: x * 2 for k, x in p.links.items()}),
    lambda p, r: replace(p, nic={k: x * 2 for k, x in p.nic.items()}),
]


@pytest.mark.parametrize(
    "loosen",
    LOOSENED,
    ids=["more nodes", "a lower price", "less use", "a larger budget", "a faster link", "faster NICs"],
)
def test_never_makes_the_answer_worse(loosen):
    for seed in range(25):
        p = random_fleet(seed)
        if loosen is LOOSENED[0]:  # what draws power at rest is no gift
            p = replace(p, stocks={g: replace(s, idle_watts=0.0) for g, s in p.stocks.items()})

        assert no_worse(p, solved(loosen(p, pick(seed))), solved(p)), f"seed {seed}"


def a_domain_more(stock: Stock) -> Stock:
    return replace(stock, nodes=stock.nodes + stock.domain_nodes)


def changed(table, r, change):
    """`table` with one entry changed."""
    key = r.choice(sorted(table))
    return {k: change(v) if k == key else v for k, v in table.items()}


def faster(column: Column) -> Column:
    return replace(column, use={j: {w: u * 0.6 for w, u in use.items()} for j, use in column.use.items()})


def test_order_and_names_change_nothing():
    for seed in range(25):
        p, r = random_fleet(seed), pick(seed)

        assert same(solved(renamed(p, r)).objective, solved(p).objective), f"seed {seed}"


def renamed(p: FleetProblem, r: random.Random) -> FleetProblem:
    """`p` in another order, with names that a solver's file format would confuse."""

    def moved(v: Column) -> Column:
        return replace(v, stock=f"{v.stock} ]_", blocks=tuple((f"{g} ]_", k) for g, k in v.blocks))

    columns = {f"x[{c}-y]": moved(v) for c, v in p.columns.items()}
    stocks = {f"{g} ]_": v for g, v in p.stocks.items()}
    return replace(p, columns=shuffled(columns, r), stocks=shuffled(stocks, r), share=shuffled(p.share, r))


def shuffled(table, r):
    return dict(r.sample(sorted(table.items()), len(table)))


def test_a_column_written_twice_changes_nothing():
    for seed in range(25):
        p = random_fleet(seed)
        twice = {**p.columns, **{f"{c} again": column for c, column in p.columns.items()}}

        assert same(solved(replace(p, columns=twice)).objective, solved(p).objective), f"seed {seed}"


def test_a_class_split_in_two_changes_nothing_where_domains_are_nodes():
    for seed in range(25):
        p = random_fleet(seed)
        p = replace(p, stocks={g: replace(s, domain_nodes=s.nodes) for g, s in p.stocks.items()})
        p = replace(p, columns={c: replace(v, joined=False) for c, v in p.columns.items()})
        two = split(p)

        if all(k <= p.stocks[g].gpus_per_node for v in p.columns.values() for g, k in v.stands):
            assert same(solved(two).objective, solved(p).objective), f"seed {seed}"
        assert no_worse(p, solved(p), solved(two)), f"seed {seed}"


def split(p: FleetProblem) -> FleetProblem:
    """Every class as two that share its nodes, every column on both."""
    stocks = {f"{g} a": replace(s, nodes=s.nodes // 2) for g, s in p.stocks.items()}
    stocks |= {f"{g} b": replace(s, nodes=s.nodes - s.nodes // 2) for g, s in p.stocks.items()}
    columns = {
        f"{c} {''.join(x)}": on(v, x)
        for c, v in p.columns.items()
        for x in product("ab", repeat=max(len(v.blocks), 1))
    }
    return replace(p, stocks=stocks, columns=columns)


def on(v: Column, halves: tuple[str, ...]) -> Column:
    """The column with each block on that half of its class."""
    blocks = tuple((f"{g} {x}", k) for (g, k), x in zip(v.blocks, halves, strict=False))
    return replace(v, stock=f"{v.stock} {halves[0]}", blocks=blocks)


def lighter(v: Column, factor: float) -> dict[str, dict[str, float]]:
    return {k: {w: x / factor for w, x in each.items()} for k, each in v.sent.items()}


def test_scaling_all_rates_scales_the_answer():
    """Replicas of a thousandth and of 1e5 requests/s: the same fleet."""
    for seed, factor in ((s, f) for s in range(12) for f in (1e-3, 1e5)):
        p = random_fleet(seed)
        use = {
            c: {j: {w: u / factor for w, u in x.items()} for j, x in v.use.items()}
            for c, v in p.columns.items()
        }
        scaled = replace(
            p,
            columns={c: replace(v, use=use[c], sent=lighter(v, factor)) for c, v in p.columns.items()},
            demand=None if p.demand is None else p.demand * factor,
            pairs={key: replace(t, bytes=t.bytes / factor) for key, t in p.pairs.items()},
        )
        expected = solved(p).objective
        if expected is not None and p.objective.name == "throughput":
            expected *= factor

        assert same(solved(scaled).objective, expected), f"seed {seed}"


# at size


def large(seed: int) -> FleetProblem:
    """7 classes of many nodes with 15 designs each."""
    r = random.Random(seed)
    columns, stocks, share = {}, {}, {"a": 0.5, "b": 0.3, "c": 0.2}
    for g in range(7):
        speed = r.uniform(0.5, 4.0)
        stocks[f"g{g}"] = Stock(r.randint(20, 200), 8, round(8 * speed * r.uniform(0.7, 1.5), 2))
        for i in range(15):
            gpus = r.choice([1, 2, 3, 4, 6, 8, 16])
            use = {w: r.uniform(0.8, 1.6) / (speed * gpus) for w in share}
            columns[f"c{g}-{i}"] = Column(
                f"g{g}", gpus, {"busy": use, "kv": {w: u * r.random() for w, u in use.items()}}
            )
    return FleetProblem(columns, stocks, share, COST, 500.0)


def test_a_large_fleet_is_proven_within_the_gap_asked_for():
    s = solved(large(7), gap=0.01)

    assert s.status in ("optimal", "within_gap")
    assert s.bound is not None
    assert s.bound <= s.objective <= s.bound * 1.0102


def test_on_large_fleets_no_bound_of_the_better_is_below_the_worse_answer():
    p = replace(large(3), objective=THROUGHPUT, demand=None)
    better = replace(p, stocks={g: replace(s, nodes=s.nodes + 1) for g, s in p.stocks.items()})

    assert solved(better, gap=0.01).bound >= solved(p, gap=0.01).objective


# marginals, balance, docstring


def test_marginals_are_per_unit_of_each_limit():
    """One more h100 node serves 20/s more; per byte/s of a link that is full, 1/5 request/s."""
    p = replace(SMALL, objective=THROUGHPUT, demand=None)
    worth = fleet.marginals(p, Limits())

    assert worth["nodes", "h100"] == pytest.approx(20.0)
    assert worth["nodes", "l4"] == pytest.approx(2.0)


def test_a_node_more_is_worth_less_where_its_gpus_draw_power_at_rest():
    """One l4 more, at 70 W and 2/s, frees a tenth of an h100-tp2: 140 W, of which 10 W stay as idle draw."""
    p = replace(SMALL, objective=ENERGY, stocks=RESTING)
    larger = replace(p, stocks={**RESTING, "l4": replace(RESTING["l4"], nodes=5)})
    before, after = (fleet.relaxed(q, Limits()) for q in (p, larger))

    assert fleet.marginals(p, Limits())["nodes", "l4"] == pytest.approx(60.0)
    assert (before, before - after) == (pytest.approx(1390.0), pytest.approx(60.0))


def test_a_marginal_of_a_link_is_per_byte_a_second():
    p = FleetProblem(
        columns={
            "p": Column("g", 1, {"busy": {"w": 0.01}}, group="P"),
            "d": Column("g", 1, {"busy": {"w": 0.01}}, group="D"),
        },
        stocks={"g": Stock(4, 1)},
        share={"w": 1.0},
        objective=THROUGHPUT,
        pairs={("P", "D", "w"): Transfer(5.0, links=("k",), on_nic=False)},
        links={"k": 40.0},
    )

    assert fleet.marginals(p, Limits())["link", "k"] == pytest.approx(1 / 5)


def test_balanced_traffic_serves_the_same_with_the_fullest_replica_freer():
    p = replace(SMALL, objective=GPUS, demand=24.0, budget={"gpus": 8.0})
    s = replace(solved(p), replicas={"h100-tp2": 2, "l4-tp1": 2}, rate=24.0)

    spread = fleet.balance(p, s, Limits())

    assert sum(spread.flows.values()) == pytest.approx(24.0)
    assert fullest(p, spread) == pytest.approx(24.0 / 44.0)


def test_balancing_never_fills_a_replica_further():
    for seed in range(40):
        p = random_fleet(seed)
        s = solved(p)
        if s.objective is not None:
            assert fullest(p, fleet.balance(p, s, Limits())) <= fullest(p, s) + 1e-6, f"seed {seed}"


def test_a_solution_starts_a_changed_problem():
    """A little less demand: the old fleet serves it, so the answer is not above it."""
    p = replace(SMALL, objective=GPUS, demand=41.0)
    first = solved(p)
    again = fleet.solve(replace(p, demand=40.5), Limits(work=1), first.point)

    assert first.objective == again.objective == pytest.approx(5.0)


def test_every_row_of_the_docstring_is_in_the_model():
    doc = fleet.__doc__ or ""
    families = {family for family, _ in fleet.build(ONE_TOKEN).model.rows}
    for seed in range(80):
        families |= {family for family, _ in fleet.build(loaded(random_fleet(seed), seed)).model.rows}
    stated = {
        line.split("[")[0] for line in doc.splitlines() if line[:1].isalpha() and "[" in line.split()[0]
    }

    assert families - {"fit", "full", "cover"} == stated
    assert {"fit", "full", "cover"} <= families
    assert "\nfit, full, cover " in doc


def test_every_variable_of_the_docstring_is_in_the_model():
    families = set().union(*(fleet.build(random_fleet(seed)).model.families for seed in range(20)))

    assert families - {"z"} == {"n", "y", "f", "x", "i", "rate", "e"}


def test_presolve_does_not_lose_the_optimum():
    """HiGHS 1.12's aggregator stated 11 GPUs as optimal: the fleet whose one small replica is enough."""
    columns = {
        "wide": Column(
            "g1",
            12,
            {"busy": {"w0": 0.25036698201004953, "w1": 0.3926065366699268}},
            blocks=(("g1", 3), ("g0", 1), ("g0", 8)),
        ),
        "far": Column(
            "g1",
            11,
            {
                "busy": {"w0": 0.0896231913949919, "w1": 0.10045735250715955},
                "kv": {"w0": 0.17312626378920373, "w1": 0.08258058424662525},
            },
            blocks=(("g1", 3), ("g0", 8)),
            sent={"k": {"w0": 0.3371403577934035, "w1": 0.7322259742579386}},
        ),
        "small": Column(
            "g0",
            5,
            {
                "busy": {"w0": 0.1542911395940935, "w1": 0.31492038276903345},
                "kv": {"w0": 0.11627605644524198, "w1": 0.35518675410544076},
            },
        ),
    }
    p = FleetProblem(
        columns=columns,
        stocks={"g0": Stock(3, 8), "g1": Stock(2, 4)},
        share={"w0": 0.6004997317204048, "w1": 0.3995002682795953},
        objective=GPUS,
        demand=2.1376585132224193,
        links={"k": 5.578595587704544},
    )

    assert solved(p).replicas == {"small": 1}


def test_a_column_of_one_easy_bucket_alone_does_not_set_the_scale():
    """It would serve a million short requests a second: at a scale of that size HiGHS stated false bounds."""
    columns = {
        "all": Column("g", 1, {"busy": {"long": 0.5, "short": 0.01}}, watts=1.0, latency={}),
        "short alone": Column("g", 1, {"busy": {"short": 1e-6}}, watts=1.0, latency={}),
    }
    p = FleetProblem(columns, {"g": Stock(2, 1, 1.0)}, {"long": 0.9, "short": 0.1}, THROUGHPUT)

    assert solved(p).rate == pytest.approx(2 / (0.9 * 0.5 + 0.1 * 0.01), rel=1e-6)
    assert 1 <= fleet.reference(p) / solved(p).rate <= 2


@pytest.mark.parametrize("slower", [1.0, 1000.0])
def test_traffic_is_counted_in_what_all_classes_serve(slower):
    """Two replicas of 20 requests/s and four of 2 at their fastest, twice that with prefill apart."""
    use = {c: replace(k, use={"busy": {"chat": slower * k.first["chat"]}}) for c, k in SMALL.columns.items()}
    p = replace(SMALL, columns=use, objective=THROUGHPUT, demand=None)
    halves = {f"{c} {group}": replace(k, group=group) for c, k in use.items() for group in "PD"}
    apart = replace(p, columns=halves, pairs={("P", "D", "chat"): Transfer(0.0)}, nic={"P": 1.0, "D": 1.0})

    assert fleet.reference(p) == pytest.approx(48.0 / slower) == fleet.reference(apart)


def test_work_to_spare_is_counted_for_what_there_is_to_serve():
    """A column may serve buckets that nobody asks for: 22/s keep one of 2 GPUs busy and one of 1, of which
    a hundredth of the busy part counts."""
    wide = {c: replace(k, use={"busy": {**k.first, "other": 1.0}}) for c, k in SMALL.columns.items()}
    s = solved(replace(SMALL, columns=wide, objective=SPARE))

    assert s.replicas == {"h100-tp2": 1, "l4-tp1": 1}
    assert s.objective == pytest.approx(3 + 0.02 + 0.01) == s.bound


def test_a_demand_far_below_what_can_be_served_does_not_hold_throughput_back():
    """A replica that one in 50,000 of its requests/s is asked of still serves them all."""
    columns = {"c": Column("g", 1, {"busy": {"w": 0.02}})}
    p = FleetProblem(columns, {"g": Stock(8, 1, 1.0)}, {"w": 1.0}, THROUGHPUT, demand=0.001)

    assert solved(p).rate == pytest.approx(400.0)
    assert solved(replace(p, demand=400.1)).status == "infeasible"


def test_traffic_that_takes_nothing_of_a_column_passes_none_that_does_not_run():
    """Decode columns do nothing for requests of one token, and are all alike to them."""
    s = solved(ONE_TOKEN)

    for w, share in ONE_TOKEN.share.items():
        sent = sum(v for key, v in s.pair_flows.items() if key[2] == w)
        assert sum(s.flows.get((c, w), 0.0) for c in ("d small", "d")) == pytest.approx(sent)
        assert sent == pytest.approx(share * s.rate)


def test_a_toy_row_is_a_function_and_a_line(monkeypatch):
    """Without L4s a second H100 serves what they did."""

    def without_l4(p, built):
        built.model.add("toy", "l4", total([built.n["l4-tp1"]]) <= 0.0)

    assert solved(SMALL).replicas.get("l4-tp1")
    monkeypatch.setattr(fleet, "ROWS", (*fleet.ROWS, without_l4))

    assert not solved(SMALL).replicas.get("l4-tp1")


def test_a_program_that_is_not_stated_in_time_has_no_fleet_and_no_bound():
    """Stating the loss of each of 64 nodes took eight seconds of a limit of five."""
    late = fleet.solve(SMALL, Limits(seconds=-1.0))

    assert (late.status, late.objective, late.bound, late.replicas) == ("time_limit", None, None, {})
    assert fleet.solve(SMALL, Limits(seconds=-1.0, work=100)).objective == pytest.approx(7.0)
