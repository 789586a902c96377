"""A document of several models: placed together, GPUs and ports of their own, prices, proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner.objectives import COST, GPUS, THROUGHPUT
from planner.plans.placement import Placed
from planner.plans.schema import Cap, Plan, PlanWarning
from planner.plans.verified import Unsound
from planner.several import finish
from planner.several.joint import Fleets
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits
from tests.exporters.samples import made as plan_of
from tests.exporters.samples import replica
from tests.reports.samples import ONE_NODE, band

NODES = [
    {"name": "h", "device": "h100-sxm", "count": 4, "gpus_per_node": 8, "price_usd_per_hour": 24.0},
    {"name": "l", "device": "l40s", "count": 2, "gpus_per_node": 8, "price_usd_per_hour": 8.0},
]
CLUSTER = resolve(Cluster.model_validate({"name": "lab", "nodes": NODES}))


@dataclass(frozen=True)
class Candidate:
    """A replica of so many GPUs of one class."""

    id: str
    node_class: str
    gpus: int
    joined: bool = False

    @property
    def design(self) -> Any:
        return SimpleNamespace(pp=1, stages=(), on_nodes=(), offloads=False)

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return ((self.node_class, self.gpus),)

    def gpus_on(self, node_class: str) -> int:
        return self.gpus if node_class == self.node_class else 0


@dataclass(frozen=True)
class Solved:
    """What is looked at of one model's fleet."""

    objective: Any
    candidates: Mapping[str, Candidate]
    solution: FleetSolution
    cluster: Any = CLUSTER
    unclosed: str = ""


def solved(part: Mapping[Candidate, int], objective: Any) -> Solved:
    """Six requests a second by these replicas."""
    counts = {c.id: n for c, n in part.items()}
    own = FleetSolution("time_limit", None, 0.0, "none", counts, rate=6.0)
    return Solved(objective, {c.id: c for c in part}, own)


TP2, TP8, L4 = Candidate("tp2", "h", 2), Candidate("tp8", "h", 8), Candidate("tp4", "l", 4)


def fleets(
    *parts: Mapping[Candidate, int], objective: Any = COST, solution: FleetSolution | None = None
) -> Fleets:
    """A fleet of one model a part, by candidate; weights are alike."""
    made = [[SimpleNamespace(candidate=c, count=n) for c, n in part.items()] for part in parts]
    models = [SimpleNamespace(name=f"model-{i}", weight=1 / len(parts)) for i in range(len(parts))]
    joint = SimpleNamespace(models=models, objective=objective)
    whole = solution or FleetSolution("within_gap", 100.0, 90.0, "none")
    program = SimpleNamespace(columns=dict.fromkeys(range(7)))
    found = tuple(solved(part, objective) for part in parts)
    return Fleets(joint, program, whole, found, tuple(made))  # type: ignore[arg-type]


def test_models_are_placed_at_once_each_with_its_own_part_of_it() -> None:
    """Two of four GPUs' room on the second node are the other model's, under the same name of its own."""
    each, used = finish.place(fleets({TP8: 1, TP2: 1}, {TP2: 2, L4: 1}))

    assert used == {"h": 2, "l": 1}
    first, second = each
    assert (first.stages, second.stages) == ({"tp8": [[0]], "tp2": [[1]]}, {"tp2": [[1]], "tp4": [[0]]})
    assert (first.standing, second.standing) == (
        {("h", 0): {"tp8": 1}, ("h", 1): {"tp2": 1}}, {("h", 1): {"tp2": 2}, ("l", 0): {"tp4": 1}},
    )  # fmt: skip
    assert (first.used, second.used) == ({"h": 2, "l": 0}, {"h": 1, "l": 1})


def test_fleets_that_find_no_room_together_are_unsound() -> None:
    with pytest.raises(Unsound, match="finds no room"):
        finish.place(fleets({TP8: 3}, {TP8: 2}))


@pytest.mark.parametrize(
    ("objective", "used", "value"),
    [
        (COST, {"h": 2, "l": 1}, 56.0),
        (GPUS, {"h": 2, "l": 1}, 14.0),
        (THROUGHPUT, {"h": 2, "l": 1}, 100.0),
    ],
)
def test_what_all_take_is_that_of_their_nodes_where_money_or_gpus_are_counted(
    objective: Any, used: dict[str, int], value: float
) -> None:
    """Whole nodes are paid; GPUs are those of replicas: 8 + 2 and 4."""
    found = finish.paid(fleets({TP8: 1, TP2: 1}, {L4: 1}, objective=objective), used)

    assert found.solution.objective == value
    assert found.solution.bound == 90.0


def test_without_prices_the_solved_objective_stays() -> None:
    node = {"name": "h", "device": "rtx-4080", "count": 2, "gpus_per_node": 1}
    free = resolve(Cluster.model_validate({"nodes": [node]}))
    given = fleets({TP2: 1}, {TP2: 1})
    first: Any = replace(given.found[0], cluster=free)

    assert finish.paid(replace(given, found=(first,)), {"h": 2}).solution.objective == 100.0


@pytest.mark.parametrize(
    ("objective", "alone", "value", "bound"),
    [
        (THROUGHPUT, 0.0, 6.0, 45.0),
        (COST, 30.0, 48.0, 30.0),
        (COST, 99.0, 48.0, 48.0),
        (GPUS, 4.0, 10.0, 4.0),
    ],
)
def test_a_model_has_its_own_objective_and_a_bound_that_it_does_not_beat(
    monkeypatch: pytest.MonkeyPatch, objective: Any, alone: float, value: float, bound: float
) -> None:
    """Of requests its part of the bound of all; of money and GPUs what none of it alone beats."""
    monkeypatch.setattr(finish, "alone", lambda model: alone)
    given = fleets({TP8: 1, TP2: 1}, {L4: 1}, objective=objective)
    found = finish._own(given, given.joint.models[0], given.found[0], Placed({}, {"h": 2}, {}))

    assert (found.solution.objective, found.solution.bound) == (value, bound)


def idle_of(left: int, reason: str = "no fleet uses them") -> PlanWarning:
    about = {"code": "idle_gpus", "class": "h", "count": left, "reason": reason}
    return PlanWarning.model_validate({**about, "message": f"{left} of 32 h100-sxm idle: {reason}"})


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, "14 of 32 h100-sxm idle: no fleet uses them"),
        ({"l": 8}, "14 of 32 h100-sxm idle: no fleet uses them"),
        (
            {"h": 8},
            "14 of 32 h100-sxm not used by this model: other models take 8 of them;"
            " 6 idle: no fleet uses them",
        ),
        ({"h": 14}, "14 of 32 h100-sxm not used by this model: other models take 14 of them"),
    ],
)
def test_gpus_that_a_model_leaves_are_idle_but_for_those_of_others(
    others: dict[str, int], message: str
) -> None:
    told = finish._beside(idle_of(14), others)

    assert told.message == message
    assert message.endswith(str(told.reason))


def test_other_warnings_stay_as_they_are() -> None:
    coarse = PlanWarning(code="quantised", message="experts run in mxfp4")

    assert finish._beside(coarse, {"h": 8}) is coarse


@pytest.mark.parametrize(
    ("objective", "reason"),
    [
        (THROUGHPUT, "no fleet was found that serves more of all models by using them"),
        (COST, "the load is served without them"),
    ],
)
def test_gpus_that_no_model_uses_are_told_of_all(objective: Any, reason: str) -> None:
    assert finish._idle(fleets({TP8: 3}, {TP2: 4, L4: 4}, objective=objective)) == []
    some = finish._idle(fleets({TP8: 1}, {TP2: 3, L4: 4}, objective=objective))
    assert [(w.node_class, w.count, w.reason) for w in some] == [("h", 18, reason)]


def plans(*rps: float) -> list[Plan]:
    return [
        ONE_NODE.model_copy(
            update={
                "predicted": ONE_NODE.predicted.model_copy(
                    update={"rps": band(x), "out_tok_per_s": band(100 * x)}
                )
            }
        )
        for x in rps
    ]


@pytest.mark.parametrize(("rates", "share"), [([8.0, 4.0], 0.5), ([None, None], None), ([12.0, None], 0.5)])
def test_the_total_is_of_all_and_its_share_of_what_was_asked(
    rates: Sequence[float | None], share: float | None
) -> None:
    total = finish._total(fleets({TP8: 2}, {L4: 1}), plans(4.0, 2.0), {"h": 2, "l": 1}, rates)

    assert (total.rps, total.out_tok_per_s, total.gpus) == (6.0, 600.0, 20)
    assert (total.share, total.usd_per_hour) == (share, 56.0)


def test_the_proof_is_over_the_designs_of_all() -> None:
    first, second = plans(1.0, 2.0)
    space = ONE_NODE.proof.space
    caps = [Cap(what="utilisation", value=0.98, binds=True)]
    second = second.model_copy(
        update={
            "proof": ONE_NODE.proof.model_copy(
                update={"space": space.model_copy(update={"considered": 60, "complete": False, "caps": caps})}
            )
        }
    )
    proof = finish._proof(fleets({TP8: 1}, {L4: 1}), [first, second], 1.5, 3)

    assert (proof.objective, proof.bound, proof.sense, proof.status) == (100.0, 90.0, "min", "within_gap")
    assert (proof.seconds, proof.seed) == (1.5, 3)
    assert (proof.space.considered, proof.space.kept, proof.space.complete) == (1900, 7, False)
    assert proof.space.what == f"all models at once; model-0: {space.what}; model-1: {space.what}"
    assert [(cap.what, cap.binds) for cap in proof.space.caps] == [("model-1: utilisation", True)]


def test_no_two_servers_of_any_model_have_the_same_gpus_or_ports() -> None:
    """Three servers of two GPUs and two of four on nodes of eight, from two plans with the same names."""
    both = [plan_of(replica("r1", "vllm", tp=2, count=3)), plan_of(replica("r1", "vllm", tp=4, count=2))]
    seated = finish.seated(both)

    assert [[(s.replica, s.number) for s in plan.seats] for plan in seated] == [
        [("r1", 0), ("r1", 1), ("r1", 2)], [("r1", 0), ("r1", 1)],
    ]  # fmt: skip
    taken = [(node, g) for plan in seated for s in plan.seats for node, own in s.gpus.items() for g in own]
    assert len(taken) == len(set(taken)) == 14
    heads = [(next(iter(s.gpus)), s.port) for plan in seated for s in plan.seats]
    assert len(set(heads)) == 5
    assert seated[1].router_port == (seated[0].router_port or 0) + 1


def test_servers_that_find_no_room_beside_others_are_unsound() -> None:
    some = replica("r1", "vllm", tp=8, count=1)
    one = some.stages[0].model_copy(update={"nodes": ["h200-sxm-0"]})
    full = plan_of(some.model_copy(update={"stages": [one]}))

    assert len(finish.seated([full])[0].seats) == 1
    with pytest.raises(Unsound, match="find no room"):
        finish.seated([full, full])


def test_a_model_alone_is_bounded_by_its_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[Any, float]]()

    def relaxed(problem: Any, limits: Limits) -> float | None:
        asked.append((problem, limits.seconds))
        return None if problem == "none" else 12.0

    monkeypatch.setattr("solvers.fleet.relaxed", relaxed)
    for name, bound in (("some", 12.0), ("none", 0.0)):
        question = SimpleNamespace(state=lambda pool, side: pool if side == "bound" else "wrong")
        assert finish.alone(SimpleNamespace(question=question, pool=name)) == bound  # type: ignore[arg-type]
    assert asked == [("some", 5.0), ("none", 5.0)]
