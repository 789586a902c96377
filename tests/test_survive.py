"""Plans that survive lost nodes: by hand, node by node, what `check` refuses, what is bad input."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner import api
from planner.check import check
from planner.cli import app
from planner.errors import Infeasible, InputError
from planner.inputs.options import Survive
from planner.inputs.reading import parse_survive
from planner.plans.schema import Plan
from planner.studies import questions

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "survive.md").read_text(encoding="utf-8")
QUICK: dict[str, Any] = {"work_limit": 2000, "engine": "vllm", "explain": False}


def planned(gpus: str, survive: str | None, **options: Any) -> Plan:
    return api.plan(None, "llama-3.1-8b", gpus=gpus, survive=survive, **{**QUICK, **options})


@pytest.fixture(scope="module")
def two_classes() -> Plan:
    """Two nodes of each of two classes, any of which may be lost."""
    return planned("16xL40S,16xH100", "node:80%", simple=0.0, gap=0.05)


@pytest.fixture(scope="module")
def priced() -> Plan:
    """With what its promise costs."""
    return planned("16xL40S", "node", explain=True, simple=0.0)


def test_what_a_plan_of_few_kinds_gives_up_is_not_what_surviving_costs():
    """Four nodes lose one and keep more than the half that is asked for: that costs nothing. The L4 that
    would serve 1.4 % more beside them was left out for simplicity."""
    forms = [("n", "h100-sxm", 4), ("small", "l4", 1)]
    nodes = [Node(name=name, device=device, gpus_per_node=1, count=k) for name, device, k in forms]
    plan = api.plan(
        resolve(Cluster(nodes=nodes)),
        "llama-3.1-8b",
        isl=500,
        osl=500,
        tpot_ms=100,
        survive="node:50%",
        risk=0.5,
        **{**QUICK, "explain": True},
    )

    assert plan.proof.given_up > 0.01
    assert plan.survives is not None
    assert plan.survives.price == 0
    assert plan.survives.without == plan.proof.own


def test_one_node_is_lost_and_as_many_gpus_as_before_are_left():
    """Twice the nodes, each with all that the rate needs."""
    alone = planned("8xL40S", None, rate=4.0, objective="gpus")
    safe = planned("16xL40S", "node", rate=4.0, objective="gpus")

    assert safe.proof.own == 2 * alone.proof.own
    assert safe.survives is not None
    assert [sum(loss.lost.values()) for loss in safe.survives.losses] == [
        sum(r.count for r in safe.replicas) / 2
    ]


def test_the_rest_serves_what_it_would_if_it_were_asked_alone(two_classes: Plan):
    """The nodes that are left, planned anew, serve at least as much as the rest of the plan does."""
    assert two_classes.survives is not None
    for loss in two_classes.survives.losses:
        (gone,) = loss.classes
        gpus = ",".join(f"{8 if g == gone else 16}x{g}" for g in ("l40s", "h100-sxm"))
        anew = planned(gpus, None)

        assert 0.8 * two_classes.predicted.rps.value <= loss.rps * (1 + 1e-6)
        assert loss.rps <= anew.proof.bound * (1 + 1e-6)


def test_every_replica_stands_somewhere_once(two_classes: Plan):
    assert two_classes.survives is not None
    held = Counter[str]()
    for part in two_classes.survives.standing:
        held.update({r: k * len(part.nodes) for r, k in part.replicas.items()})

    assert held == {r.id: r.count for r in two_classes.replicas}


def test_of_two_lost_nodes_every_pair_is_looked_at():
    """Whichever two of four nodes are lost, half of the rate is served; each lies on several."""
    plan = planned("32xL40S", "2:50%", rate=12.0, objective="gpus")
    told = plan.survives

    assert told is not None
    assert check(plan) == []
    assert all(sum(loss.classes.values()) == 2 and loss.rps >= 6.0 * (1 - 1e-6) for loss in told.losses)
    assert sum(max(part.replicas.values()) for part in told.standing) < sum(r.count for r in plan.replicas)


def test_the_price_is_that_of_the_best_plan_that_need_not_survive(priced: Plan):
    told, without = priced.survives, planned("16xL40S", None, simple=0.0)

    assert told is not None
    assert told.without == pytest.approx(without.proof.objective, rel=0.02)
    assert told.price == pytest.approx(1 - priced.proof.own / without.proof.objective, rel=0.05)
    assert "survive_price" in changed(priced, lambda form: form["survives"].update(price=0.1))
    assert "survive_price" in changed(priced, lambda form: form["survives"].update(without=1.0))


def test_a_sense_that_is_left_out_is_the_goals():
    """A quarter more GPUs than without is a price that is paid, not one that is won."""
    plan = planned("16xL40S", "node", rate=4.0, objective="gpus")

    def unsaid(form: dict[str, Any]) -> None:
        del form["proof"]["sense"]
        form["survives"].update(without=0.8 * plan.proof.own, price=0.25)

    assert plan.proof.sense == "min"
    assert changed(plan, unsaid) == set()


def test_a_price_of_nearly_nothing_is_as_exact_as_the_objectives_it_is_of(priced: Plan):
    """A difference of 4e-9 of figures of nine digits has none left (odd problems, seed 3411, no. 248)."""
    own = priced.proof.own

    def nearly(form: dict[str, Any], price: float) -> None:
        form["survives"].update(without=own * (1 + 4.2e-9), price=price)

    assert "survive_price" not in changed(priced, lambda form: nearly(form, 4.4e-9))
    assert "survive_price" in changed(priced, lambda form: nearly(form, 1e-5))


def changed(plan: Plan, change: Callable[[dict[str, Any]], object]) -> set[str]:
    """Codes that `check` finds after a change."""
    form = json.loads(plan.model_dump_json(by_alias=True))
    change(form)
    return {violation.code for violation in check(Plan.model_validate(form))}


def test_the_plan_itself_is_sound(two_classes: Plan):
    assert changed(two_classes, lambda form: None) == set()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda s: s.update(share=0.9), "survive_unlike"),
        (lambda s: s["standing"].pop(), "survive_standing"),
        (lambda s: s["standing"][0]["nodes"].append("l40s-9"), "survive_standing"),
        (lambda s: s["standing"][0]["nodes"].append(s["standing"][0]["nodes"][0]), "survive_standing"),
        (lambda s: s["standing"][0]["replicas"].update(r9=1), "survive_standing"),
        (
            lambda s: s["standing"][0]["replicas"].update(dict.fromkeys(s["standing"][0]["replicas"], 9)),
            "survive_standing",
        ),
        (lambda s: s["losses"].pop(), "survive_unsaid"),
        (lambda s: s["losses"][0].update(classes={"l40s": 9}), "survive_unsaid"),
        (lambda s: s["losses"][0].update(classes={"no such": 1}), "survive_unsaid"),
        (lambda s: s["losses"][0]["lost"].clear(), "survive_unsaid"),
        (lambda s: s["losses"][0].update(rps=0.5 * s["losses"][0]["rps"]), "survive_short"),
        (lambda s: s["losses"][0]["routing"].pop(), "survive_short"),
    ],
)
def test_what_is_not_as_stated_is_found(two_classes: Plan, change: Callable[[Any], object], code: str):
    assert code in changed(two_classes, lambda form: change(form["survives"]))


def test_replicas_stand_on_nodes_of_their_stages(two_classes: Plan):
    def elsewhere(form: dict[str, Any]) -> None:
        for replica in form["replicas"]:
            for stage in replica["stages"]:
                stage["nodes"] = stage["nodes"][1:] or stage["nodes"]

    assert "survive_standing" in changed(two_classes, elsewhere)


def test_more_traffic_than_the_rest_can_carry_is_found():
    """The whole plan is as busy as before: only after a loss its servers of prompts are too few."""
    apart = planned("24xH100", "node:80%", simple=0.0, gap=0.05, isl=8000, osl=300, tpot_ms=20)
    assert any(r.role == "prefill" for r in apart.replicas)

    def busier(form: dict[str, Any]) -> None:
        for replica in form["replicas"]:
            replica["utilisation"] = min(1.3 * replica["utilisation"], 0.97)

    assert "survive_short" in changed(apart, busier)


def test_a_plan_that_was_to_survive_says_so(two_classes: Plan):
    assert changed(two_classes, lambda form: form.pop("survives")) == {"survive_unlike"}


def test_without_the_option_nothing_is_said_of_it():
    plan = planned("8xL40S", None)

    assert "surviv" not in plan.model_dump_json(by_alias=True)


def test_a_sweep_and_the_api_are_asked_alike():
    asked = {"gpus": "16xL40S", "model": "llama-3.1-8b", "engine": "vllm", "rate": 4.0, "objective": "gpus"}
    cell = questions.plan(questions.resolve({**asked, "survive": "node"})[1])

    assert cell.survives is not None
    assert cell.problem.options["survive"] == {"nodes": 1, "share": 1.0}


@pytest.mark.parametrize(
    ("text", "lost"),
    [("node", (1, 1.0)), ("2", (2, 1.0)), (3, (3, 1.0)), ("node:80%", (1, 0.8)), (" 2 : 50 % ", (2, 0.5))],
)
def test_what_is_to_be_survived_is_read(text: str | int, lost: tuple[int, float]):
    assert parse_survive(text) == Survive(nodes=lost[0], share=lost[1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rack",
        "0",
        "-1",
        "1.5",
        "node:",
        "node:80",
        "node:0.8",
        "node:0%",
        "node:101%",
        "node:nan%",
        ":80%",
    ],
)
def test_what_cannot_be_meant_is_refused(text: str):
    with pytest.raises(InputError) as caught:
        planned("16xL40S", text)

    assert caught.value.where == "--survive"
    assert "--survive node:80%" in str(caught.value.hint)


@pytest.mark.parametrize(("gpus", "survive"), [("8xL40S", "node"), ("16xL40S", "2"), ("16xL40S", "5")])
def test_not_all_nodes_may_be_lost(gpus: str, survive: str):
    with pytest.raises(InputError, match="nothing is left"):
        planned(gpus, survive)


def test_chains_and_profiles_are_not_planned_for_lost_nodes():
    with pytest.raises(InputError, match="chains of nodes are not planned"):
        planned("16xL40S", "node", engine="chains")
    with pytest.raises(InputError, match="a profile's replicas are not planned"):
        planned("16xL40S", "node", engine="any", profile=REPO / "docs/examples/profile.csv")


def test_a_rate_that_the_rest_cannot_serve_is_told_with_what_can_be():
    nodes = resolve(Cluster(nodes=[Node(name="n", device="l40s", gpus_per_node=2, count=2)]))

    def served(survive: str, rate: float) -> Plan:
        return api.plan(nodes, "llama-3.1-8b", survive=survive, rate=rate, objective="gpus", **QUICK)

    with pytest.raises(Infeasible) as caught:
        served("node", 1000.0)
    most = re.search(r"at most ([\d.]+) req/s", caught.value.message)
    assert "after the loss of any one node" in caught.value.message
    assert most
    assert "node:" not in str(caught.value.hint)  # too many for all nodes, too

    asked = 1.5 * float(most[1])
    with pytest.raises(Infeasible) as caught:
        served("node", asked)
    share = re.search(r"node:\d+%", str(caught.value.hint))
    assert share
    assert served(share[0], asked).survives


def test_the_terminal_says_what_is_left_and_what_it_costs(capsys: pytest.CaptureFixture[str]):
    commands = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        program, *args = shlex.split(command)
        assert program == "meshwright"
        assert (command, app.run([*args, "--details"])) == (command, 0)
        said = " ".join(capsys.readouterr().out.split())

        assert "Without any" in said
        assert "within the limits" in said
        assert "It costs" in said
