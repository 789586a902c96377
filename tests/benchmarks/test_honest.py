"""The benchmark that tries to prove bounds false: what it compares, by hand, and on a model of a server of
its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.honest import limits, relations
from benchmarks.honest.__main__ import Done, report
from benchmarks.honest.answers import Answer, Comparison, Effort, ask, figure
from benchmarks.honest.continuous import Limits, carried, continuous, judged, worth
from benchmarks.honest.fleets import Unit, changed, nodes, of_plan, sampled
from benchmarks.honest.one_model import Design, Judged, Role, of
from benchmarks.honest.problems import FIXED, Problem, random_problem
from benchmarks.honest.told import told_again
from cluster_configs.reading import from_gpus
from cluster_configs.schema import NodeClass
from planner.designs.shape import Floats
from planner.inputs.workload import Bucket, Slo
from planner.plans.schema import Replica

CHAT = Problem(((2, "l4"),), "llama-3.1-8b", (Bucket(isl=1024, osl=256),), Slo(ttft_ms=3000), engine="vllm")
PAID = replace(CHAT, objective="cost", rate=1.0)


def claim(problem: Problem, bound: float) -> Answer:
    plan: Any = SimpleNamespace(proof=SimpleNamespace(bound=bound))
    return Answer(problem, "planned", plan)


@pytest.mark.parametrize(
    ("problem", "value", "excess"),
    [(CHAT, 11.0, 0.1), (CHAT, 9.0, -0.1), (PAID, 9.0, 0.1), (PAID, 11.0, -0.1)],
)
def test_a_fleet_refutes_a_bound_by_being_better_than_it(
    problem: Problem, value: float, excess: float
) -> None:
    (made,) = Comparison.of("kind", claim(problem, 10.0), value, "fleet")

    assert made.excess == pytest.approx(excess)
    assert made.refuted == (excess > 0)


@pytest.mark.parametrize("problem", [CHAT, PAID])
def test_any_fleet_refutes_that_nothing_can(problem: Problem) -> None:
    (made,) = Comparison.of("kind", Answer(problem, "infeasible"), 1.0, "fleet")

    assert math.isinf(made.excess)
    assert made.refuted


def test_who_had_no_time_claims_nothing() -> None:
    assert not list(Comparison.of("kind", Answer(CHAT, "no answer"), 1.0, "fleet"))


@pytest.fixture(scope="module")
def answer() -> Answer:
    found = ask(CHAT, Effort(work=20))
    assert found.plan is not None
    return found


def test_a_plan_keeps_just_the_limits_that_it_reaches(answer: Answer) -> None:
    assert answer.plan is not None
    ttft, tpot = (getattr(answer.plan.predicted, name).value for name in ("ttft_ms", "tpot_ms"))

    assert limits.keeps(answer, Slo(ttft_ms=1.001 * ttft, tpot_ms=1.001 * tpot))
    assert not limits.keeps(answer, Slo(ttft_ms=0.999 * ttft, tpot_ms=None))
    assert not limits.keeps(answer, Slo(ttft_ms=None, tpot_ms=0.999 * tpot))


def test_a_plan_that_the_verifier_refuses_keeps_nothing(answer: Answer) -> None:
    assert answer.plan is not None
    crowded = [r.model_copy(update={"max_batch": 1}) for r in answer.plan.replicas]
    broken = replace(answer, plan=answer.plan.model_copy(update={"replicas": crowded}))

    assert not limits.keeps(broken, Slo(ttft_ms=None, tpot_ms=None))


def test_the_one_model_says_what_the_plan_says(answer: Answer) -> None:
    (made,) = told_again(answer)

    assert not made.refuted
    assert answer.plan is not None
    assert of_plan(of(CHAT), answer.plan)


def test_a_loose_plan_that_keeps_a_tight_limit_refutes_a_bound_below_it(answer: Answer) -> None:
    assert answer.plan is not None
    assert answer.value is not None
    proof = answer.plan.proof.model_copy(update={"bound": 0.9 * answer.value})
    tight = Answer(CHAT.limited(2999.0, None), "planned", answer.plan.model_copy(update={"proof": proof}))
    made = {c.kind: c for c in limits.compared([answer, tight])}

    assert made[limits.KEEPS].excess == pytest.approx(1 / 0.9 - 1)
    assert not made[limits.TIGHTER].refuted


def test_a_loose_plan_that_keeps_a_tight_limit_refutes_that_nothing_does(answer: Answer) -> None:
    (kept,) = limits.compared([answer, Answer(CHAT.limited(2999.0, None), "infeasible")])

    assert kept.kind == limits.CALLED
    assert kept.refuted
    assert not list(limits.compared([answer, Answer(CHAT.limited(1.0, 50.0), "infeasible")]))


def test_a_ladder_leads_down() -> None:
    rungs = limits.ladder(CHAT, Effort(work=20), np.random.default_rng(5), 3)
    tried = [(r.problem.slo.ttft_ms or math.inf, r.problem.slo.tpot_ms or math.inf) for r in rungs]

    assert len(rungs) > 1
    assert all(b[0] <= a[0] and b[1] <= a[1] and a != b for a, b in pairwise(tried))


def test_where_nothing_keeps_the_limits_a_ladder_leads_to_them_from_none() -> None:
    rungs = limits.ladder(CHAT.limited(1.0, 1.0), Effort(work=20), np.random.default_rng(5), 2)

    assert [r.outcome for r in rungs] == ["planned", "planned", "infeasible"]
    assert rungs[0].problem.slo.ttft_ms is None
    assert rungs[-1].problem.slo.ttft_ms == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_harder_problems_ask_for_more_or_have_less(seed: int) -> None:
    easy = replace(random_problem(0, seed), engine="any", objective="gpus", rate=1.0, most_gpus=None)
    rng = np.random.default_rng(seed)
    fewer, engine = relations._fewer(easy, rng), relations._engine(easy, rng)
    budget, traffic = relations._budget(easy, rng), relations._traffic(easy, rng)

    assert engine is not None
    assert engine[1].engine != "any"
    if fewer:
        counts = {device: count for count, device in easy.entries}
        assert all(count <= counts[device] for count, device in fewer[1].entries)
        assert fewer[1].entries != easy.entries
    if budget:
        assert 0 < (budget[1].most_gpus or 0) < sum(count for count, _ in easy.entries)
    assert (traffic is None) == (easy.slo.percentile != "mean")
    assert traffic is None or (traffic[1].rate or 0) > 1.0


def test_problems_are_the_same_each_time_and_say_how_to_ask_again() -> None:
    assert random_problem(3, 17) == random_problem(3, 17) != random_problem(3, 18)
    assert FIXED[0].command == (
        "meshwright plan --gpus 8xh100-sxm --model llama-3.1-70b --ttft-ms 500 --tpot-ms 50 --percentile mean"
        " --objective throughput --engine any --risk 0.5 --gap 0 --isl 1024 --osl 256"
    )


BIG = Design("h", "vllm", 4, (4, 1, 1, 4, 1, 0, 1))
SMALL = Design("h", "vllm", 1, (1, 1, 1, 1, 1, 0, 1))


@dataclass(frozen=True)
class Toy:
    """Servers that carry a request a second for each GPU, prompts in 1 / (1 - load) s and tokens in a
    hundredth of that. Those of four GPUs carry a tenth more each."""

    @cached_property
    def classes(self) -> Mapping[str, NodeClass]:
        return {"h": replace(from_gpus("8xh100-sxm").classes[0], id="h")}

    def designs(self, role: Role) -> tuple[Design, ...]:
        return (SMALL, BIG)

    def judge(self, design: Design, role: Role, load: Floats) -> Judged:
        used = load.sum(axis=1) / (design.gpus * (1.1 if design is BIG else 1.0))
        wait = np.where(used < 1, 1 / np.maximum(1 - used, 1e-9), np.inf)[:, None] + 0 * load
        none = np.zeros_like(load)
        first, later = none if role == "decode" else wait, none if role == "prefill" else wait / 100
        return Judged(first, first, later, used, 0 * used)

    def caution(self, design: Design, role: Role) -> tuple[float, float]:
        return 1.0, 1.0

    def handed_s(
        self, first: Design, second: Design, load: Floats, each: tuple[Floats, Floats]
    ) -> Floats | None:
        return 0.5 + 0 * load

    def design_of(self, replica: Replica) -> Design | None:
        return None


TOY = Toy()
ALONE = (1.0,)


def test_a_unit_carries_the_load_at_which_its_limit_is_reached() -> None:
    """1 / (1 - load) = 4 s at a load of three quarters."""
    assert carried(TOY, Unit(SMALL, 2, ALONE), Limits(4.0, math.inf)) == pytest.approx(1.5, rel=1e-4)
    assert carried(TOY, Unit(SMALL, 2, ALONE), Limits(math.inf, 0.02)) == pytest.approx(1.0, rel=1e-4)
    assert carried(TOY, Unit(SMALL, 2, ALONE), Limits(0.9, math.inf)) == 0.0


def test_a_pair_has_the_transfer_and_a_step_in_its_first_token() -> None:
    """By hand: 1 / (1 - load) (1 + 1 / 100) + 0.5 = 4 s at a load of 0.7114 on either side."""
    unit = Unit(SMALL, 1, ALONE, SMALL, 1)

    assert carried(TOY, unit, Limits(4.0, math.inf)) == pytest.approx(1 - 1.01 / 3.5, rel=1e-4)


def test_units_with_buckets_of_their_own_serve_as_much_as_the_one_that_is_short() -> None:
    """Three quarters of the traffic on one GPU, a quarter on four: the one is full at 0.75 / 0.75 req/s."""
    fleet = (Unit(SMALL, 1, (1.0, 0.0)), Unit(SMALL, 4, (0.0, 1.0)))

    assert worth(TOY, fleet, Limits(4.0, math.inf), (0.75, 0.25)) == pytest.approx(1.0, rel=1e-4)


def test_replicas_stand_where_nodes_have_room() -> None:
    assert nodes(TOY, (Unit(BIG, 1, ALONE, SMALL, 4),)) == {"h": 1}
    assert nodes(TOY, (Unit(BIG, 2, ALONE), Unit(SMALL, 1, ALONE))) is None
    assert nodes(TOY, (Unit(SMALL, 9, ALONE),)) is None


def test_the_best_random_fleet_is_the_best_there_is_and_no_better() -> None:
    """Two of four GPUs at a tenth more each: at 1 / (1 - load) = 4 s they carry 0.75 x 8.8 req/s."""
    problem = replace(CHAT, slo=Slo(ttft_ms=4000, tpot_ms=None))
    found = continuous(TOY, problem, [], np.random.default_rng(0), 40)

    assert found is not None
    assert found.value == pytest.approx(6.6, rel=1e-3)


def test_a_fleet_that_serves_the_rate_is_worth_its_nodes_or_gpus() -> None:
    paid = replace(PAID, slo=Slo(ttft_ms=4000, tpot_ms=None), rate=1.4)
    price = TOY.classes["h"].price_usd_per_hour
    values = [
        judged(TOY, replace(paid, objective=goal), (Unit(SMALL, 2, ALONE),)) for goal in ("cost", "gpus")
    ]

    assert [found and found.value for found in values] == [price, 2.0]
    assert judged(TOY, replace(paid, rate=1.6), (Unit(SMALL, 2, ALONE),)) is None
    assert judged(TOY, replace(paid, most_gpus=1), (Unit(SMALL, 2, ALONE),)) is None


@pytest.mark.parametrize("seed", range(20))
def test_random_fleets_stand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    two = replace(CHAT, buckets=(Bucket(isl=100, osl=10), Bucket(isl=200, osl=20)))
    fleet = sampled(TOY, two, rng)

    for _ in range(5):
        assert not fleet or nodes(TOY, fleet)
        assert all(sum(unit.share) == pytest.approx(1.0) for unit in fleet)
        fleet = changed(TOY, fleet, rng) or fleet if fleet else fleet


def test_what_is_done_is_read_from_the_journal_again_and_counted() -> None:
    made = tuple(Comparison("a kind", x, "bound", "fleet", "words") for x in (math.inf, 0.05, 1e-7, -0.1))
    done = Done(3, made, ("failed",), 1.5)
    table = report([Done.read(done.line), replace(done, number=4)], seed=0)

    assert Done.read(done.line) == done
    assert [cell.strip() for cell in table.splitlines()[2].split("|")[1:-1]] == [
        "a kind",
        "2",
        "8",
        "4",
        "5 %",
        "2",
    ]
    assert "no answer: failed" in table


@pytest.mark.parametrize(("osls", "seconds"), [((100,), 2.18), ((10, 190), 1.7)])
def test_a_latency_is_the_plans_own_where_one_tpot_says_too_little(osls, seconds):
    """Two buckets under a percentile have two TPOTs, a plan states one: 0.2 s + 99 x 20 ms is neither's."""
    predicted = SimpleNamespace(ttft_ms=SimpleNamespace(value=200.0), tpot_ms=SimpleNamespace(value=20.0))
    plan = SimpleNamespace(predicted=predicted, proof=SimpleNamespace(own=1.7))
    buckets = [SimpleNamespace(osl=osl) for osl in osls]

    assert figure(plan, SimpleNamespace(objective="latency", buckets=buckets)) == pytest.approx(seconds)
