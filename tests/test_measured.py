"""`plan --profile`: fleets checked by hand and by trying all, what the plan says, what `check` refuses."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node, ResolvedCluster
from model_zoo import catalog
from planner import api
from planner.check import check
from planner.cli import app
from planner.errors import Infeasible, InputError, OutOfTime
from planner.inputs.workload import Bucket, Slo, Workload
from planner.measured.parts import fewest
from planner.plans.schema import Plan

REPO = Path(__file__).resolve().parents[1]
EXAMPLE = REPO / "docs" / "examples" / "profile.csv"
CLOUD = REPO / "cluster_configs" / "examples" / "melange-cloud.yaml"
HEADER = "design,device,gpus,role,isl_min,isl_max,osl_min,osl_max,max_rps,price_usd_per_hour,watts"
LLAMA, _ = catalog.find("llama-3.1-8b")

MELANGE = Workload(
    buckets=[
        Bucket(isl=256, osl=64, share=0.2),
        Bucket(isl=256, osl=256, share=0.1),
        Bucket(isl=1024, osl=64, share=0.5),
        Bucket(isl=1024, osl=256, share=0.2),
    ],
    rate_rps=30.0,
)
"""The mix of Melange's example (arXiv:2404.14527, melange/config/example.json); its rates are in EXAMPLE."""


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows `design,device,gpus,role,max_rps[,price[,watts]]`, good for any lengths, as a table."""

    def write(*rows: str) -> Path:
        path = tmp_path / "table.csv"
        path.write_text("\n".join([HEADER, *map(_any_lengths, rows)]) + "\n")
        return path

    return write


def _any_lengths(row: str) -> str:
    cells = row.split(",")
    return ",".join([*cells[:4], "1", "100000", "1", "100000", *cells[4:], *[""] * (7 - len(cells))])


def cluster(*nodes: Node, links: tuple[Link, ...] = ()) -> ResolvedCluster:
    return resolve(Cluster(nodes=list(nodes), links=list(links)))


H100 = Node(name="h", device="h100-sxm", count=2, gpus_per_node=8, price_usd_per_hour=16.0)
L4 = Node(name="l", device="l4", count=4, gpus_per_node=1, price_usd_per_hour=1.0)


def planned(where: Any, profile: Path, **asked: Any) -> Plan:
    return api.plan(where, LLAMA, profile=profile, **asked)


def counts(plan: Plan) -> dict[str, int]:
    return {replica.id: replica.count for replica in plan.replicas}


# what is chosen


def test_melanges_example_takes_one_of_each_for_4_dollars_68():
    """By hand: an A100 would be busy 6/20 + 3/20 + 15/40 + 6/20 = 1.125 of its time; an A10G takes the
    eighth, 5/s of the third bucket. The published plan cost 6.70."""
    plan = planned(str(CLOUD), EXAMPLE, workload=MELANGE, gap=0.0)

    assert counts(plan) == {"a10g": 1, "a100": 1}
    assert plan.proof.objective == pytest.approx(1.01 + 3.67) == plan.proof.bound
    assert (plan.proof.status, plan.proof.unit, plan.proof.sense) == ("optimal", "USD/h", "min")
    assert [r.utilisation for r in plan.replicas] == pytest.approx([1.0, 1.0])


def test_throughput_fills_every_gpu_it_can(table):
    """By hand: nodes of 8 hold 3 + 3 + 2, which serve 3 + 3 + 2.5 each; the L4s 0.5 each."""
    plan = planned(cluster(H100, L4), table("a,H100,3,mixed,3", "b,H100,2,mixed,2.5", "c,l4,1,mixed,.5"))

    assert plan.predicted.rps.value == pytest.approx(2 * 10.0 + 4 * 0.5)
    assert counts(plan) == {"b": 8, "c": 4}


def test_replicas_of_sizes_that_do_not_divide_stand_where_they_fit(table):
    """By hand: 5 + 3 fill a node and serve 12/s; two of 3 would serve 8."""
    plan = planned(cluster(H100), table("a,H100,5,mixed,8", "b,H100,3,mixed,4"), objective="throughput")

    assert counts(plan) == {"a": 2, "b": 2}
    assert {n for r in plan.replicas for s in r.stages for n in s.nodes} == {"h-0", "h-1"}


def test_a_replica_larger_than_a_node_takes_whole_nodes(table):
    plan = planned(cluster(H100), table("big,H100,12,mixed,5", "c,H100,2,mixed,0.1"))
    (replica,) = plan.replicas

    assert (replica.id, replica.tp, replica.pp, replica.count) == ("big", 6, 2, 1)
    assert [s.layers for s in replica.stages] == [(0, 16), (16, 32)]
    assert [(w.code, w.count) for w in plan.warnings if w.code == "idle_gpus"] == [("idle_gpus", 4)]


def test_a_design_on_two_classes_is_two_groups_of_its_name(table):
    nodes = [L4.model_copy(update={"name": name, "zone": name}) for name in "ab"]
    plan = planned(cluster(*nodes), table("c,l4,1,mixed,1"))

    assert set(counts(plan)) == {"c-a", "c-b"}


def test_a_design_of_any_name_has_an_id_that_scripts_can_say(table):
    plan = planned(cluster(H100, L4), table("tp 4; reboot,H100,4,mixed,3", "tp 4 reboot,l4,1,mixed,1"))

    assert set(counts(plan)) == {"tp-4-reboot", "tp-4-reboot-2"}
    assert plan.problem.calibration["designs"].keys() == counts(plan).keys()


@pytest.mark.parametrize(
    ("asked", "objective"),
    [
        ({"objective": "gpus"}, 4.0),  # two of 2 GPUs
        ({"objective": "energy"}, 1536.0),  # three of 400 W, four idle GPUs of 84 W
        ({"objective": "cost"}, 16.0),  # one node has room for all
        ({"objective": "cost", "budget": "gpus=4"}, 16.0),
    ],
)
def test_each_objective_finds_its_own_fleet_for_15_requests(table, asked: Any, objective: float):
    rows = ["a,H100,2,mixed,8,,800", "b,H100,4,mixed,10,,700", "c,H100,4,mixed,5,,400"]
    plan = planned(cluster(H100), table(*rows), rate=15, gap=0.0, **asked)

    assert plan.proof.objective == pytest.approx(objective) == plan.proof.bound
    assert plan.predicted.rps.value == pytest.approx(15.0)


def test_prices_of_the_table_replace_those_of_its_nodes(table):
    """By hand: 3 replicas at $2; the node of 8 would cost $16."""
    plan = planned(cluster(H100), table("a,H100,2,mixed,5,2.0"), rate=15, gap=0.0)

    assert plan.proof.objective == pytest.approx(6.0)
    assert plan.predicted.usd_per_hour is not None
    assert plan.predicted.usd_per_hour.value == pytest.approx(6.0)
    assert check(plan) == []


def test_a_power_cap_stands_for_watts_that_the_table_leaves_out(table):
    capped = H100.model_copy(update={"power_cap_watts": 4000.0})
    plan = planned(cluster(capped), table("a,H100,4,mixed,1"))

    assert plan.replicas[0].watts == pytest.approx(2000.0)


# prefill and decode


def test_prefill_and_decode_replicas_share_the_work_over_the_network(table):
    """By hand: 8/s of prefill on 8 GPUs, 4/s a decode replica of 2: two of each."""
    joined = cluster(H100, L4.model_copy(update={"nic": "roce"}))
    plan = planned(joined, table("p,H100,2,prefill,4", "d,l4,1,decode,4"), rate=8, objective="gpus")
    (route,) = plan.routing

    assert counts(plan) == {"p": 2, "d": 2}
    assert (route.prefill, route.decode) == ("p", "d")
    assert route.kv_gb_per_s == pytest.approx(8 * 1024 * 131072 / 1e9)  # Llama-3.1-8B: 128 KiB a token


def test_the_link_between_zones_limits_what_pairs_serve(table):
    """By hand: 1.34 GB/s carry ten prompts of 134 MB a second, whatever the replicas sustain."""
    zones = [H100.model_copy(update={"zone": "a"}), L4.model_copy(update={"zone": "b"})]
    prompt = 1024 * 131072
    link = Link(between=["a", "b"], gb_per_s=10 * prompt / 1e9)
    plan = planned(cluster(*zones, links=(link,)), table("p,H100,2,prefill,40", "d,l4,1,decode,40"))

    assert plan.predicted.rps.value == pytest.approx(10.0)
    assert check(plan) == []


def test_nics_limit_what_pairs_serve(table):
    """By hand: a decode L4 takes 0.134 GB/s, one prompt a second, over its NIC."""
    slow = L4.model_copy(update={"nic_gb_per_s": 1024 * 131072 / 1e9})
    plan = planned(cluster(H100, slow), table("p,H100,2,prefill,40", "d,l4,1,decode,40"))

    assert plan.predicted.rps.value == pytest.approx(4.0)


def test_alternatives_name_the_other_phases_and_what_each_design_is_worth(table):
    """By hand: 4 a pair of 2 + 2 GPUs are 16 on 16; without the pair 8 of 1.5."""
    plan = planned(cluster(H100), table("p,H100,2,prefill,4", "d,H100,2,decode,4", "m,H100,2,mixed,1.5"))
    said = {a.what: a.objective for a in plan.alternatives}

    assert said == {"no prefill/decode split": pytest.approx(12.0)} | {
        f"without {x}": pytest.approx(12.0) for x in "pd"
    }
    assert all(a.loss == pytest.approx(0.25) and a.status == "proven" for a in plan.alternatives)
    assert {p.limit: p.worth for p in plan.prices} == {"nodes h": pytest.approx(8.0)}


# what the plan says


def test_latencies_stand_at_their_limits_and_the_warning_says_so():
    plan = planned(str(CLOUD), EXAMPLE, workload=MELANGE, gap=0.0)
    (warning,) = [w for w in plan.warnings if w.code == "measured_profile"]

    assert (plan.predicted.ttft_ms.low, plan.predicted.ttft_ms.value) == (0.0, 2000.0)
    assert (plan.predicted.tpot_ms.low, plan.predicted.tpot_ms.high) == (0.0, 50.0)
    assert all(r.engine == "measured" and r.step.decode_s == 0 for r in plan.replicas)
    assert "profile.csv" in warning.message
    assert "TTFT and TPOT stand at their limits" in warning.message


def test_a_limit_that_is_not_there_is_called_unknown():
    free = MELANGE.model_copy(update={"slo": Slo(ttft_ms=None, tpot_ms=None)})
    plan = planned(str(CLOUD), EXAMPLE, workload=free)

    assert any("TTFT and TPOT: no limit, unknown" in w.message for w in plan.warnings)


def test_answers_of_one_token_have_no_tpot(table):
    assert planned(cluster(L4), table("a,l4,1,mixed,1"), osl=1).predicted.tpot_ms.high == 0.0


def test_designs_of_devices_that_are_not_there_are_named(table):
    plan = planned(cluster(L4), table("a,H100,2,mixed,5", "c,l4,1,mixed,1", "huge,l4,16,mixed,99"))
    (note,) = [w.message for w in plan.warnings if w.code == "profile_rows"]

    assert "`a`: the cluster has no H100" in note
    assert "`huge`: takes 16 GPUs" in note


def test_the_table_is_embedded_as_it_was_used(table):
    plan = planned(cluster(L4, H100), table("c,NVIDIA L4,1,mixed,1", "t,t4,1,mixed,9"))

    assert [(r["design"], r["device"]) for r in plan.problem.calibration["profile"]] == [("c", "l4")]
    assert plan.problem.calibration["designs"] == {"c": "c"}


# what cannot be done


@pytest.mark.parametrize(
    ("rows", "asked", "error", "said"),
    [
        (["a,t4,1,mixed,1"], {}, InputError, "`a`: the cluster has no t4"),
        (["a,l4x,1,mixed,1"], {}, InputError, "unknown GPU `l4x`"),
        (["a,l4,5,mixed,1"], {}, InputError, "takes 5 GPUs, the largest class of l4 has 4"),
        (["a,l4,1,decode,1"], {}, Infeasible, "serves isl 1024 osl 256"),
        (["a,l4,1,mixed,1"], {"rate": 5}, Infeasible, "at most 4 req/s"),
        (["a,l4,1,mixed,1"], {"rate": 3, "budget": "usd_per_hour=2"}, Infeasible, "within the budget"),
        (["a,l4,2,mixed,1"], {"budget": "gpus=1"}, Infeasible, "the budget does not pay"),
        (["a,l4,1,mixed,1"], {"rate": 3, "objective": "latency"}, InputError, "latencies"),
    ],
)
def test_what_cannot_be_planned_is_told_in_a_line(table, rows: list[str], asked: Any, error: Any, said: str):
    where = cluster(L4.model_copy(update={"count": 1, "gpus_per_node": 4, "price_usd_per_hour": 4.0}))
    one_each = cluster(L4) if "usd_per_hour" in str(asked) else where
    with pytest.raises(error) as caught:
        planned(one_each, table(*rows), **asked)

    assert said in caught.value.message


def test_hints_are_changes_that_help(table):
    rows = ["a,l4,1,mixed,1"]
    with pytest.raises(Infeasible) as much:
        planned(cluster(L4), table(*rows), rate=5)
    with pytest.raises(Infeasible) as dear:
        planned(cluster(L4), table(*rows), rate=3, budget="usd_per_hour=1,gpus=1")

    assert str(much.value.hint) in ("--rate 4 or 1 more node of l", "--rate 3.99 or 1 more node of l")
    assert "--budget usd_per_hour=3,gpus=3" in str(dear.value.hint)
    assert planned(cluster(L4), table(*rows), rate=3, budget="usd_per_hour=3,gpus=3").proof.objective == 3.0


def test_watts_above_the_power_cap_are_refused_by_line(table):
    capped = H100.model_copy(update={"power_cap_watts": 4000.0})
    with pytest.raises(InputError) as caught:
        planned(cluster(capped), table("a,H100,2,mixed,1,,1200"))

    assert str(caught.value.where).endswith("table.csv:2, column watts")


def test_no_time_and_no_plan_is_not_called_infeasible(table, monkeypatch: pytest.MonkeyPatch):
    from solvers import fleet
    from solvers.fleet.types import FleetSolution

    nothing = FleetSolution("time_limit", None, None, "HiGHS")
    monkeypatch.setattr(fleet, "solve", lambda *_: nothing)
    with pytest.raises(OutOfTime):
        planned(cluster(L4), table("a,l4,1,mixed,1"))


def test_an_interrupt_while_explaining_keeps_the_plan(table, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.measured.rivals", interrupted)
    plan = planned(cluster(L4), table("a,l4,1,mixed,1"))

    assert (plan.proof.status, plan.proof.exit_code) == ("interrupted", 130)
    assert plan.predicted.rps.value == pytest.approx(4.0)


# by trying all


def fleets(sizes: list[int], nodes: int, room: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """All counts of replicas of these sizes that fit on `nodes` of `room`, with the fewest nodes for them."""
    least: dict[tuple[int, ...], int] = {(0,) * len(sizes): 0}
    one = [k for k in itertools.product(*(range(room // s + 1) for s in sizes)) if np.dot(k, sizes) <= room]
    for used in range(1, nodes + 1):
        for before in [k for k, n in least.items() if n == used - 1]:
            for more in one:
                least.setdefault(tuple(np.add(before, more).tolist()), used)
    yield from least.items()


def most(count: tuple[int, ...], rates: np.ndarray, shares: np.ndarray) -> float:
    """Requests/s that `count` replicas serve of the mix: rates (designs, buckets) alone, 0 = not served."""
    designs, buckets = rates.shape
    goal = np.zeros(designs * buckets + 1)
    goal[-1] = -1.0
    serve = np.zeros((buckets, designs * buckets + 1))
    busy = np.zeros((designs, designs * buckets + 1))
    for d, w in itertools.product(range(designs), range(buckets)):
        serve[w, d * buckets + w] = 1.0
        busy[d, d * buckets + w] = 1.0 / rates[d, w] if rates[d, w] else 0.0
    serve[:, -1] = -shares
    limits = [(0, None if rate else 0) for rate in rates.ravel()] + [(0, None)]
    found = linprog(goal, A_ub=busy, b_ub=count, A_eq=serve, b_eq=np.zeros(buckets), bounds=limits)
    return float(-found.fun)


def tried_all(sizes: list[int], rates: np.ndarray, shares: np.ndarray, rate: float | None) -> float | None:
    """The highest rate, or the fewest dollars ($3 a node of 4 GPUs) at `rate`, on two nodes."""
    every = [(most(count, rates, shares), nodes) for count, nodes in fleets(sizes, 2, 4)]
    if rate is None:
        return max(served for served, _ in every)
    return min((3.0 * nodes for served, nodes in every if served >= rate - 1e-7), default=None)


RATE = st.sampled_from([0.0, 0.5, 1.0, 2.5, 3.0, 7.0])


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    cells=st.lists(RATE, min_size=6, max_size=6),
    rate=st.sampled_from([None, 1.0, 4.0]),
)
def test_no_fleet_is_better(tmp_path: Path, sizes: list[int], cells: list[float], rate: float | None):
    rates = np.array(cells).reshape(3, 2)[: len(sizes)]
    lines = [
        f"d{i},l4,{size},mixed,{low},{high},1,99,{rates[i, w]},,"
        for i, size in enumerate(sizes)
        for w, (low, high) in enumerate([(1, 100), (101, 200)])
    ]
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *lines]))
    load = Workload(
        buckets=[Bucket(isl=50, osl=9, share=0.75), Bucket(isl=150, osl=9, share=0.25)], rate_rps=rate
    )
    where = cluster(Node(device="l4", count=2, gpus_per_node=4, price_usd_per_hour=3.0))
    best = tried_all(sizes, rates, np.array([0.75, 0.25]), rate)
    if not best:
        with pytest.raises(Infeasible):
            planned(where, tmp_path / "t.csv", workload=load)
        return
    plan = planned(where, tmp_path / "t.csv", workload=load, gap=0.0)

    assert plan.proof.objective == pytest.approx(best, rel=1e-6)
    assert plan.proof.bound == pytest.approx(best, rel=1e-6)


@given(items=st.dictionaries(st.integers(1, 6), st.integers(1, 3), min_size=1, max_size=3))
@settings(max_examples=40)
def test_replicas_stand_on_the_fewest_nodes(items: dict[int, int]):
    sizes = sorted(items)
    wanted = tuple(items[s] for s in sizes)
    tried = dict(fleets(sizes, sum(wanted), 6)) if sum(wanted) <= 4 else None
    bins = fewest(items, 6)

    for size, count in items.items():
        assert sum(dict(q).get(size, 0) for q in bins) >= count
    assert len(bins) >= -(-sum(s * k for s, k in items.items()) // 6)
    assert tried is None or len(bins) == tried[wanted]


# check


@pytest.fixture(scope="module")
def sound() -> Any:
    plan = planned(str(CLOUD), EXAMPLE, workload=MELANGE, gap=0.0)
    return json.loads(plan.model_dump_json(by_alias=True))


def codes(found: dict[str, Any]) -> set[str]:
    return {violation.code for violation in check(Plan.model_validate(found))}


def unwarned(d: dict[str, Any]) -> None:
    d["warnings"] = [w for w in d["warnings"] if w["code"] != "measured_profile"]


def timed(d: dict[str, Any]) -> None:
    d["replicas"][0]["step"]["decode_s"] = 1e-4


def another_engine(d: dict[str, Any]) -> None:
    d["replicas"][0]["engine"] = "vllm"


def no_table(d: dict[str, Any]) -> None:
    d["problem"]["calibration"] = {}


def not_a_table(d: dict[str, Any]) -> None:
    d["problem"]["calibration"]["profile"][0]["max_rps"] = "many"


def slower_rows(d: dict[str, Any]) -> None:
    for row in d["problem"]["calibration"]["profile"]:
        row["max_rps"] /= 2


def rows_of_other_lengths(d: dict[str, Any]) -> None:
    for row in d["problem"]["calibration"]["profile"]:
        row["isl_min"] = 2000


def all_on_one_group(d: dict[str, Any]) -> None:
    for route in d["routing"]:
        route["replica"] = d["replicas"][0]["id"]
    d["routing"] = [{**r, "share": 1.0} for r in {r["bucket"]: r for r in d["routing"]}.values()]


def on_another_device(d: dict[str, Any]) -> None:
    for row in d["problem"]["calibration"]["profile"]:
        row["device"] = "l4"


def other_watts(d: dict[str, Any]) -> None:
    for row in d["problem"]["calibration"]["profile"]:
        row["watts"] = 99.0


def cheaper(d: dict[str, Any]) -> None:
    for band in ("usd_per_hour", "usd_per_mtok"):
        for edge in ("value", "low", "high"):
            d["predicted"][band][edge] *= 0.9


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (unwarned, "measured_unsaid"),
        (timed, "measured_unsaid"),
        (another_engine, "decode_below_roofline"),
        (no_table, "not_in_profile"),
        (not_a_table, "bad_problem"),
        (slower_rows, "rate_above_profile"),
        (rows_of_other_lengths, "bucket_not_measured"),
        (all_on_one_group, "rate_above_profile"),
        (on_another_device, "not_as_measured"),
        (other_watts, "not_as_measured"),
        (cheaper, "cost_understated"),
    ],
)
def test_a_measured_plan_that_the_table_does_not_bear_out_is_refused(sound: Any, change: Any, code: str):
    assert codes(sound) == set()
    broken = copy.deepcopy(sound)
    change(broken)

    assert code in codes(broken)


def test_money_below_the_tables_prices_is_refused(table):
    plan = planned(cluster(H100), table("a,H100,2,mixed,5,2.0"), rate=15, gap=0.0)
    found = json.loads(plan.model_dump_json(by_alias=True))
    cheaper(found)

    assert "cost_understated" in codes(found)


# the command


def test_the_command_writes_a_plan_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    args = ["plan", str(CLOUD), "--model", "llama-3.1-8b", "--profile", str(EXAMPLE), "--rate", "45"]
    file = tmp_path / "plan.json"

    assert app.run([*args, "--isl", "1000", "--osl", "100", "--json", "-o", str(file)]) == 0
    printed = Plan.model_validate_json(capsys.readouterr().out)
    assert counts(printed) == {"a100": 1, "a10g": 1}  # 40 + 5 requests/s
    assert Plan.model_validate_json(file.read_text()) == printed
    assert app.run(["check", str(file)]) == 0


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--rate", "9999"], 3),
        (["--isl", "9999"], 3),
        (["--profile", "nowhere.csv"], 2),
        (["--profile", str(CLOUD)], 2),
        (["--rate", "3", "--objective", "latency"], 2),
    ],
)
def test_failures_end_with_the_contracts_exit_code_and_json(
    more: list[str], code: int, capsys: pytest.CaptureFixture[str]
):
    args = ["plan", str(CLOUD), "--model", "llama-3.1-8b", "--profile", str(EXAMPLE), "--json", *more]

    assert app.run(args) == code
    assert json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_reader_sees_designs_by_their_names(capsys: pytest.CaptureFixture[str]):
    args = ["plan", str(CLOUD), "--model", "llama-3.1-8b", "--profile", str(EXAMPLE), "--rate", "45"]

    assert app.run([*args, "--isl", "1000", "--osl", "100"]) == 0
    out, err = capsys.readouterr()
    assert "a10g" in out
    assert "nothing cheaper among 2 designs" in out
    assert "throughput comes from" in err
