"""Steps of a plan's servers keep the plan's own level: at its load its own seconds, twice them where they are
twice as long, the cost model's shape off it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Designs, StepTimes
from planner.operating.requests import Requests
from planner.operating.steps import prompt_steps
from planner.plans.schema import Replica
from planner.simulate.groups import Servers
from planner.simulate.steps import Leveled, alone_s, leveled
from tests.simulate.test_answer import golden

DECODING = (("percentile", "r1"), ("gb200-nvl72", "d1"), ("latency", "d1"), ("two-4090-384gb", "r1"))
"""Golden plans and groups of theirs that decode: whole requests, sides of pairs, weights in host memory."""

PREFILLING = (("gb200-nvl72", "p1"), ("latency", "p1"))


@dataclass(frozen=True)
class Case:
    """A group of a plan with what its steps are made from."""

    replica: Replica
    model: CostModel
    designs: Designs
    asked: Requests
    rate: float
    budget: int

    def with_step(self, **changes: float) -> Case:
        step = self.replica.step.model_copy(update=changes)
        return replace(self, replica=self.replica.model_copy(update={"step": step}))

    def leveled(self) -> Leveled:
        rate = self.rate * self.asked.share[0]
        return leveled(self.replica, self.model, self.designs, self.asked, rate, self.budget)

    @property
    def prompt_s(self) -> float:
        """Seconds that the mean prompt takes beside what its steps take anyway, of this server's own step."""
        step = self.leveled().step
        tokens = self.asked.new * (step.prefill_s_per_token + step.prefill_s_per_pair * self.asked.keys)
        return float(self.asked.mean(tokens)[0])


@cache
def case(plan: str, group: str) -> Case:
    servers = Servers(golden(plan))
    r = next(r for r in servers.plan.replicas if r.id == group)
    own, (model, designs) = servers.own_step(r), servers.model(r)
    rate = float(servers.rates[group].sum()) / (r.count * r.attn_dp)
    return Case(r, model, designs, own.asked, rate, own.budget)


def alone(step: StepTimes, batch: float, context: float) -> float:
    """Seconds of a step without prompts."""
    each = step.sequence_s + step.context_s_per_token * context
    return float((step.t0_s + batch * each)[0])


@pytest.mark.parametrize(("plan", "group"), DECODING)
def test_at_the_plans_load_a_step_without_prompts_takes_the_plans_own_seconds(plan: str, group: str) -> None:
    """With as many sequences as the clock sees: more than rate x steps x mean step, as long steps last."""
    c = case(plan, group)
    found = c.leveled()

    assert found.sequences >= c.rate * float(c.asked.decodes[0]) * found.mean_s * (1 - 1e-6)
    assert alone(found.step, found.sequences, float(c.asked.context[0])) == pytest.approx(
        c.replica.step.decode_s, rel=2e-3
    )


@pytest.mark.parametrize(("plan", "group"), DECODING)
def test_the_mean_step_is_longer_by_the_prompts_that_come_beside(plan: str, group: str) -> None:
    c = case(plan, group)
    found = c.leveled()
    busy = c.rate * c.prompt_s if c.replica.role == "mixed" else 0.0
    batch = c.rate * float(c.asked.decodes[0]) * found.mean_s

    own_s = alone(found.step, batch, float(c.asked.context[0]))
    assert found.mean_s == pytest.approx(own_s / (1 - busy), rel=2e-3)


@pytest.mark.parametrize(("plan", "group"), [*DECODING, *PREFILLING])
def test_a_plan_twice_as_slow_at_half_the_load_has_steps_twice_as_long(plan: str, group: str) -> None:
    c = case(plan, group)
    slow = c.with_step(decode_s=2 * c.replica.step.decode_s, prefill_s=2 * c.replica.step.prefill_s)
    found, own = replace(slow, rate=c.rate / 2).leveled(), c.leveled()

    assert found.mean_s == pytest.approx(2 * own.mean_s)
    parts = ["t0_s"]
    parts += ["prefill_s_per_token", "prefill_s_per_pair"] if c.replica.role != "decode" else []
    parts += ["sequence_s", "context_s_per_token"] if c.replica.role != "prefill" else []
    for part in parts:
        assert getattr(found.step, part) == pytest.approx(2 * getattr(own.step, part))
    assert found.decode_level == pytest.approx((2 if own.mean_s else 1) * own.decode_level)


@pytest.mark.parametrize(("plan", "group"), PREFILLING)
def test_a_lone_prompt_takes_the_plans_own_seconds_and_nobody_decodes(plan: str, group: str) -> None:
    """A round of a pipeline has one in each of its stages, and lasts as long as each takes through all."""
    c = case(plan, group)
    found = c.leveled()

    assert (found.mean_s, found.decode_level) == (0.0, 1.0)
    round_s = float(found.step.t0_s[0]) + c.replica.pp * c.prompt_s
    assert round_s == pytest.approx(c.replica.step.prefill_s, rel=1e-3)


@pytest.mark.parametrize(("plan", "group"), PREFILLING)
def test_without_seconds_of_a_prompt_the_cost_models_own_are_taken(plan: str, group: str) -> None:
    c = case(plan, group)
    own = prompt_steps(c.model, c.designs, c.asked, c.budget)
    found = c.with_step(prefill_s=0.0).leveled().step

    assert found.t0_s == pytest.approx(own.t0_s)
    assert found.prefill_s_per_token == pytest.approx(own.prefill_s_per_token)


@pytest.mark.parametrize(("plan", "group"), DECODING)
def test_a_prompts_seconds_do_not_change_steps_without_prompts(plan: str, group: str) -> None:
    c = case(plan, group)
    if c.replica.role == "mixed":
        c = replace(c, rate=1e-9)  # at a load the mean step would grow with them, and what is in it
    found, own = (x.leveled() for x in (c.with_step(prefill_s=3 * c.replica.step.prefill_s), c))

    assert found.mean_s == pytest.approx(own.mean_s)
    assert alone(found.step, 2.0, 500.0) == pytest.approx(alone(own.step, 2.0, 500.0))
    assert found.step.prefill_s_per_token == pytest.approx(
        (3 if c.replica.step.prefill_s > 0 else 1) * own.step.prefill_s_per_token
    )


def test_answers_of_one_token_leave_nothing_to_decode() -> None:
    c = case("percentile", "r1")
    one = replace(c, asked=replace(c.asked, osl=np.ones_like(c.asked.osl)))
    found = one.leveled()

    assert (found.mean_s, found.decode_level) == (0.0, 1.0)


@pytest.mark.parametrize("rate", [0.0, 1e-12])
def test_an_idle_server_steps_as_fast_as_the_plan_says(rate: float) -> None:
    c = replace(case("percentile", "r1"), rate=rate)

    assert c.leveled().mean_s == pytest.approx(c.replica.step.decode_s, rel=1e-4)


def test_a_load_of_prompts_alone_beyond_all_time_has_steps_with_an_end() -> None:
    found = replace(case("percentile", "r1"), rate=1e3).leveled()

    assert 0 < found.mean_s < math.inf
    assert all(np.isfinite(x).all() for x in vars(found.step).values())
    assert 0 < found.sequences < math.inf


@pytest.mark.parametrize(("plan", "group"), DECODING)
@pytest.mark.parametrize("most", [1.0, 7.3, 300.0])
def test_steps_of_few_sequences_are_the_cost_models_own(plan: str, group: str, most: float) -> None:
    """From none to one more than the most, rounded up; with one and the most, to the last digit."""
    c = case(plan, group)
    own, context = c.leveled(), float(c.asked.context[0])
    found = alone_s(own, c.model, c.designs, c.asked, most)
    top = math.ceil(most) + 1

    assert len(found) == top + 1
    assert all(a <= b + 1e-12 for a, b in pairwise(found))
    for n in (1, top):
        whole: Any = own.decode_level * c.model.step_s(c.designs, Load.of(np.array([float(n)]), context))
        beyond = n * context * float(own.step.context_s_per_token[0])
        assert found[n] == pytest.approx(max(float(whole[0]) - beyond, 0.0), rel=1e-9)
