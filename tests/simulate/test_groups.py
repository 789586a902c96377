"""Servers of a plan, from the Plan alone: its level, its room, its ways; and what cannot be replayed."""

from __future__ import annotations

import numpy as np
import pytest

from planner import api
from planner.cost.attention import Load
from planner.errors import InputError
from planner.plans.schema import Plan
from planner.simulate.answer import Ask, simulate
from planner.simulate.groups import Servers
from planner.simulate.pools import Trouble

ASKED = {
    "open": {"gpus": "2xL4", "model": "qwen3-8b", "rate": 1.0, "ttft_ms": 5000},
    "closed": {"gpus": "2xL4", "model": "qwen3-8b", "loop": "closed"},
    "split": {"gpus": "8xH100", "model": "llama-3.1-70b", "loop": "closed", "simple": 0.0},
    "experts": {"gpus": "8xH100", "model": "qwen3-30b-a3b", "rate": 20.0, "percentile": "p95"},
    "unlike": {"gpus": "2xL4,2xT4", "model": "qwen3-8b", "ttft_ms": "none", "tpot_ms": "none"},
    "kept": {"gpus": "2xL4", "model": "qwen3-8b", "workload": "agent"},
}


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    briefly = {"work_limit": 50, "explain": False, "risk": 0.5}
    return {name: api.plan(None, **asked, **briefly) for name, asked in ASKED.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ASKED)
def test_servers_have_the_plans_own_level(plans: dict[str, Plan], name: str) -> None:
    """A decode step at the plan's load lasts what the plan says, a mean prompt alone, too."""
    servers = Servers(plans[name])
    for r in plans[name].replicas:
        g = servers.group(r)
        rate = servers.rates[r.id] / g.servers
        isl, osl = servers.isl, servers.osl
        new = servers.new(isl, np.arange(len(isl)), r.id)
        assert g.servers == r.count * r.attn_dp
        assert g.rps == pytest.approx(rate.sum() * g.servers)
        assert g.rules.kv_tokens == pytest.approx(r.kv_tokens / r.attn_dp)
        reads = 0.0 if r.role == "decode" else servers.own_step(r).model.tuning.started_s(isl[0])
        assert g.started_s(isl[0]) == reads
        if r.role != "decode" and r.pp == 1:
            tokens = float(new @ rate / rate.sum())
            pairs = tokens * float((isl - new / 2) @ rate / rate.sum())
            alone = g.step.t0_s + g.step.token_s * tokens + g.step.pair_s * pairs
            assert alone == pytest.approx(r.step.prefill_s, rel=0.25)
        if r.role != "prefill":
            context = isl + osl / 2
            steps = rate * (osl - 1)
            each = g.step.sequence_s + g.step.context_s * float(context @ steps / steps.sum())
            batch = max((r.step.decode_s - g.step.t0_s) / each, 0.0)
            assert 0 <= batch <= 1.3 * r.max_batch / r.attn_dp


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_serves_what_it_says(plans: dict[str, Plan], name: str) -> None:
    """The replay of the plan's own load: its rate within 6 %, times within 1.7 times their band."""
    plan = plans[name]
    found = simulate(plan, Ask(requests=2500))
    assert found.rps == pytest.approx(plan.predicted.rps.value, rel=0.06)
    percentile = plan.problem.workload["slo"]["percentile"] if plan.problem.workload["rate_rps"] else "mean"
    for times, band in ((found.tpot_ms, plan.predicted.tpot_ms), (found.ttft_ms, plan.predicted.ttft_ms)):
        assert band.low / 1.7 <= times[percentile] <= 1.7 * band.high


def test_steps_without_prompts_are_the_cost_models_own_at_every_batch(plans: dict[str, Plan]) -> None:
    """Of experts they are no straight line; at the plan's batch line and steps meet."""
    plan = plans["experts"]
    servers = Servers(plan)
    for r in (r for r in plan.replicas if r.role != "prefill"):
        g, own = servers.group(r), servers.own_step(r)
        model, designs = servers.model(r)
        context = float(own.asked.context[0])
        for n in (1, 3, int(g.rules.max_sequences)):
            load = Load.of(np.array([float(n)]), context)
            true = own.leveled.decode_level * float(model.step_s(designs, load)[0])
            assert g.step.alone_s[n] + g.step.context_s * n * context == pytest.approx(true, rel=0.01)
        batch = g.rps / g.servers * float(own.asked.decodes[0]) * own.leveled.mean_s
        line = g.step.t0_s + g.step.sequence_s * batch
        assert np.interp(batch, range(len(g.step.alone_s)), g.step.alone_s) == pytest.approx(line, rel=0.02)


def test_what_crosses_between_groups_is_what_the_plan_says(plans: dict[str, Plan]) -> None:
    """Bytes/s at the plan's rate are the plan's own; twice as many where it says twice as many."""
    plan = plans["split"]
    servers = Servers(plan)
    (way,) = (w for w in servers.ways[0] if w.second)
    (route,) = (r for r in plan.routing if r.decode)
    size = float(servers.sent_bytes(way, servers.isl)[0])
    rate = plan.predicted.rps.value * route.share
    assert servers.wire(way).times * size * rate == pytest.approx(1e9 * (route.kv_gb_per_s or 0.0))
    doubled = [r.model_copy(update={"kv_gb_per_s": 2 * (r.kv_gb_per_s or 0.0)}) for r in plan.routing]
    twice = Servers(plan.model_copy(update={"routing": doubled}))
    assert twice.wire(way).times == pytest.approx(2 * servers.wire(way).times)


def test_the_same_seed_gives_the_same_answer_and_another_another(plans: dict[str, Plan]) -> None:
    ask = Ask(requests=300)
    one, again, other = (simulate(plans["open"], a).as_json() for a in (ask, ask, Ask(requests=300, seed=1)))
    assert one == again
    assert one["ttft_ms"] != other["ttft_ms"]


def test_twice_the_rate_waits_longer(plans: dict[str, Plan]) -> None:
    calm, crowd = (simulate(plans["open"], Ask(rate=r, requests=600)) for r in (0.5, 3.0))
    assert crowd.ttft_ms["p95"] > calm.ttft_ms["p95"]
    assert crowd.tpot_ms["mean"] > calm.tpot_ms["mean"]
    assert crowd.attained < calm.attained


def test_trouble_of_a_group_that_is_not_there(plans: dict[str, Plan]) -> None:
    with pytest.raises(InputError, match="no group `r9`"):
        simulate(plans["open"], Ask(trouble=(Trouble("r9", fails_s=1.0),)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicas": []}, "no replicas"),
        ({"problem": {"model": {}}}, "measured"),
    ],
)
def test_what_cannot_be_replayed_says_why(plans: dict[str, Plan], changes: dict, says: str) -> None:
    plan = plans["open"]
    if "problem" in changes:
        plan = plan.model_copy(update={"problem": plan.problem.model_copy(update=changes["problem"])})
    else:
        plan = plan.model_copy(update=changes)
    with pytest.raises(InputError, match=says):
        Servers(plan)
