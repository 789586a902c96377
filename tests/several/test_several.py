"""Two models on two small classes: better than by hand, sound, and every fault put in is found."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner.check import packing, several
from planner.check.case import open_case
from planner.check.several import check
from planner.cli import app
from planner.errors import Infeasible, InputError
from planner.inputs.reading import read_workload
from planner.inputs.several import Wanted
from planner.plans.reading import read_any, read_plan
from planner.plans.text import text
from planner.several import takes
from planner.several.find import find
from planner.several.plan import plan_several

NODES = [
    {"name": "h", "device": "h100-sxm", "count": 2, "gpus_per_node": 8, "price_usd_per_hour": 24.0},
    {"name": "l", "device": "l40s", "count": 2, "gpus_per_node": 8, "price_usd_per_hour": 8.0}
    | {"nic": "roce", "peer_to_peer": True},
]
TWO = ("llama-3.1-8b", "qwen3-32b")
VLLM = {"engine": "vllm"}


def cluster(**changed):
    return resolve(Cluster.model_validate({"name": "lab", "nodes": [n | changed for n in NODES]}))


def at(*rates):
    return [Wanted(m, read_workload("chat", rate=r)[0]) for m, r in zip(TWO, rates, strict=True)]


@cache
def cheapest():
    """40 and 10 requests/s."""
    return plan_several(cluster(), at(40.0, 10.0), explain=True, **VLLM)


@cache
def most():
    return plan_several(cluster(), TWO, loop="closed", explain=False, **VLLM)


def test_the_cheapest_fleet_of_both_serves_each_rate_and_shares_what_it_pays():
    found = cheapest()

    assert check(found) == []
    assert [p.predicted.rps.value for p in found.plans] == pytest.approx([40.0, 10.0], rel=1e-6)
    assert found.total.share == pytest.approx(1.0)
    assert found.proof.gap <= 0.01
    assert found.proof.objective == pytest.approx(found.total.usd_per_hour)
    assert found.total.usd_per_hour <= sum(p.predicted.usd_per_hour.value for p in found.plans) + 1e-9


def test_what_a_model_costs_is_the_total_less_what_the_others_take_alone():
    found = cheapest()

    assert [t.model for t in found.prices] == list(TWO)
    for each in found.prices:
        assert each.costs == pytest.approx(found.proof.objective - each.without)
        assert each.bound <= each.without + 1e-9
        assert each.marginal > 0


@pytest.mark.parametrize(("rates", "objective"), [((240.0, 24.0), "cost"), ((None, None), None)])
def test_the_others_without_a_model_are_no_worse_than_they_stand(monkeypatch, rates, objective):
    """Where the search of the rest finds a poor fleet, the one that there is counts."""
    poor = list[float]()

    def poorly(joint, limits):
        fleets, s = find(joint, limits)
        if len(joint.models) == 1:
            worse = fleets.solution.objective * (0.1 if joint.objective.more else 10.0)
            poor.append(worse)
            fleets = replace(fleets, solution=replace(fleets.solution, objective=worse))
        return fleets, s

    monkeypatch.setattr(takes, "find", poorly)
    found = plan_several(cluster(), at(*rates), objective=objective, **VLLM)

    assert len(poor) == 2
    for each, worse in zip(found.prices, poor, strict=True):
        assert abs(each.costs) < abs(found.proof.objective - worse)
        assert each.costs >= -1e-9
        assert each.status == "time_limit" or each.without == pytest.approx(each.bound, rel=0.01)
        if objective == "cost":
            assert 0.0 < each.without <= found.proof.objective


def test_without_rates_as_many_requests_as_possible_in_equal_parts():
    found = most()
    first, second = (p.predicted.rps.value for p in found.plans)

    assert check(found) == []
    assert first == pytest.approx(second, rel=1e-3)
    assert found.total.share is None
    assert found.proof.objective <= found.proof.bound * (1 + 1e-6)
    assert found.proof.gap <= 0.01  # tried again, the bound's program comes nearer


def test_the_common_share_of_unlike_rates():
    found = plan_several(cluster(), at(40.0, 10.0), objective="throughput", explain=False, **VLLM)
    first, second = (p.predicted.rps.value for p in found.plans)

    assert check(found) == []
    assert first == pytest.approx(4 * second, rel=1e-3)
    assert found.total.share == pytest.approx(second / 10.0, rel=1e-3)


def test_weights_say_how_many_requests_of_each():
    models = [Wanted(TWO[0], read_workload("chat")[0], weight=3.0), Wanted(TWO[1], read_workload("chat")[0])]
    found = plan_several(cluster(), models, explain=False, **VLLM)
    first, second = (p.predicted.rps.value for p in found.plans)

    assert first == pytest.approx(3 * second, rel=1e-3)


def test_rates_that_cannot_all_be_served_are_told_with_the_share_that_can():
    with pytest.raises(Infeasible, match=r"at most [\d.]+ % of each"):
        plan_several(cluster(), at(4000.0, 1000.0), **VLLM)


def changed(several, **parts):
    return several.model_copy(update=parts)


def second(several, **parts):
    """With another second plan."""
    return changed(several, plans=[several.plans[0], several.plans[1].model_copy(update=parts)])


def moved(several):
    """The second model's first server on GPUs of the first model's."""
    seat, taken = several.plans[1].seats[0], several.plans[0].seats[0]
    return second(several, seats=[seat.model_copy(update={"gpus": taken.gpus}), *several.plans[1].seats[1:]])


def unplugged(several):
    """The second model's first server at the first model's port, on the same node."""
    seat, taken = several.plans[1].seats[0], several.plans[0].seats[0]
    here = seat.model_copy(update={"port": taken.port, "gpus": taken.gpus})
    return second(several, seats=[here, *several.plans[1].seats[1:]])


def priced(several, **parts):
    """What the first model takes, told otherwise."""
    return changed(several, prices=[several.prices[0].model_copy(update=parts), *several.prices[1:]])


FAULTS = {
    "takes_wrong": lambda s: priced(s, costs=s.prices[0].costs + 0.1),
    "given_up_wrong": lambda s: changed(s, proof=s.proof.model_copy(update={"given_up": 0.1})),
    "port_twice": unplugged,
    "totals": lambda s: changed(s, total=s.total.model_copy(update={"usd_per_hour": 1.0})),
    "rate_missed": lambda s: changed(s, total=s.total.model_copy(update={"share": 0.5})),
    "share_wrong": lambda s: changed(s, total=s.total.model_copy(update={"share": 2.0})),
    "part_wrong": lambda s: changed(s, models=[d.model_copy(update={"part": 0.5}) for d in s.models]),
    "bound_crossed": lambda s: changed(s, proof=s.proof.model_copy(update={"bound": 1e6, "gap": 0.0})),
    "objective_wrong": lambda s: changed(s, proof=s.proof.model_copy(update={"objective": 1.0})),
    "status_wrong": lambda s: changed(s, proof=s.proof.model_copy(update={"bound": 0.0, "gap": 1.0})),
    "models_wrong": lambda s: changed(s, models=list(reversed(s.models))),
    "seats_wrong": lambda s: second(s, seats=s.plans[1].seats[1:]),
    "gpu_twice": moved,
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_in_the_document_is_found(code):
    assert code in {v.code for v in check(FAULTS[code](cheapest()))}


def renumbered(numbers):
    """The second model's first server with other GPUs of its first node."""
    seat = most().plans[1].seats[0]
    node = next(iter(seat.gpus))
    own = seat.model_copy(update={"gpus": {**seat.gpus, node: numbers(seat.gpus[node])}})
    return second(most(), seats=[own, *most().plans[1].seats[1:]])


@pytest.mark.parametrize(
    ("code", "fault"),
    {
        "a seat twice": (
            "seats_wrong",
            lambda: second(most(), seats=[*(own := most().plans[1].seats), own[0]]),
        ),
        "a GPU that no node has": ("seats_wrong", lambda: renumbered(lambda own: [*own[:-1], 8])),
        "a GPU twice": ("seats_wrong", lambda: renumbered(lambda own: own[:1] * max(len(own), 2))),
        "a better rest than its bound": ("bound_crossed", lambda: priced(cheapest(), bound=1e6)),
        "a price of no model": ("takes_wrong", lambda: priced(cheapest(), model="another")),
        "routers": ("port_twice", lambda: second(most(), router_port=most().plans[0].router_port)),
    }.values(),
)
def test_seats_and_ports_that_cannot_be_are_found(code, fault):
    assert check(most()) == []
    assert code in {v.code for v in check(fault())}


def test_replicas_that_fit_alone_but_not_beside_the_others_are_found():
    """Each model alone has room for its replicas twice; both together have not."""
    s = most()
    twice = [r.model_copy(update={"count": 2 * r.count}) for r in s.plans[1].replicas]
    found = second(s, replicas=twice)
    cases = [open_case(plan) for plan in found.plans]

    assert list(several._packing(s, [open_case(plan) for plan in s.plans])) == []
    assert list(packing.violations(cases[0])) == []
    assert list(several._packing(found, cases))


def test_a_file_of_both_is_read_back_whole_or_by_model(tmp_path):
    path = tmp_path / "both.json"
    path.write_text(text(cheapest()))

    assert check(read_any(path)) == []
    assert read_plan(f"{path}#{TWO[1]}").problem.model["name"] == TWO[1]
    with pytest.raises(InputError, match="plans of 2 models"):
        read_plan(path)
    with pytest.raises(InputError, match="no plan of `qwen`"):
        read_plan(f"{path}#qwen")


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (["llama-3.1-8b", "Llama-3.1-8B"], {}, "is named twice"),
        (TWO, {"survive": "node"}, "lost nodes"),
        (TWO, {"objective": "latency"}, "objective latency"),
        (TWO, {"objective": "cost"}, "needs a rate"),
        (TWO, {"engine": "chains"}, "chains"),
        (TWO, {"budget": "watts=9000"}, "watts"),
        (TWO[:1], {}, "planned by itself"),
    ],
)
def test_what_is_not_planned_for_several_models_is_said(models, options, message):
    with pytest.raises(InputError, match=message):
        plan_several(cluster(), models, **options)


def test_a_model_that_fits_nowhere_is_named():
    with pytest.raises(Infeasible, match=r"deepseek-r1"):
        plan_several(cluster(count=1, gpus_per_node=1), ["llama-3.1-8b", "deepseek-r1"])


DOCS = Path(__file__).resolve().parents[2]


def test_every_command_of_the_page_runs(tmp_path, monkeypatch, capsys):
    for name in ("docs", "cluster_configs"):
        (tmp_path / name).symlink_to(DOCS / name)
    monkeypatch.chdir(tmp_path)
    lines = (DOCS / "docs/several.md").read_text().splitlines()
    commands = [line.removeprefix("$ meshwright ") for line in lines if line.startswith("$ ")]

    assert len(commands) >= 6
    for command in commands:
        assert (command, app.run(command.split())) == (command, 0), capsys.readouterr().err
    assert "Proof of all together" in capsys.readouterr().out
    assert (tmp_path / "manifests/qwen3-32b/README.md").exists()


LISTED = """
models:
  - {model: llama-3.1-8b, workload: chat, rate_rps: 40}
  - {model: qwen3-32b, isl: 2048, osl: 128, rate_rps: 10, slo: {ttft_ms: 3000}, engine: vllm}
"""


def test_models_of_a_file_have_their_own_traffic_limits_and_engine(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(LISTED)
    found = plan_several(cluster(), workload=path, explain=False, **VLLM)
    workload = found.plans[1].problem.workload

    assert [b["isl"] for b in workload["buckets"]] == [2048]
    assert workload["slo"]["ttft_ms"] == 3000.0
    assert {r.engine for r in found.plans[1].replicas} == {"vllm"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{model: qwen3-32b, rate_rps: 1, weight: 2}", "a weight is for models without a rate"),
        ("{model: qwen3-32b, workload: chat, buckets: [{isl: 9, osl: 9}]}", "either `workload`"),
        ("{model: qwen3-32b}", "has no rate"),
        ("{model: qwen3-32b, rate: 1}", "rate"),
        ("{model: qwen3-32b, rate_rps: 1, workload: chta}", "unknown workload"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path, line, message):
    path = tmp_path / "two.yaml"
    path.write_text(f"models:\n  - {{model: llama-3.1-8b, rate_rps: 4}}\n  - {line}\n")
    with pytest.raises(InputError, match=message) as error:
        plan_several(cluster(), workload=path)

    assert f"{path}:3" in error.value.where
