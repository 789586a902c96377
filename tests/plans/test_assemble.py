"""A solved fleet in the Plan's form: batches, cache, proof, idle GPUs and the space, counted again."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from planner.candidates.ask import LONG
from planner.engines import named
from planner.errors import MeshwrightError
from planner.plans import verified
from planner.plans.assemble import idle, proof, replica
from planner.plans.experts import experts_of
from planner.plans.found import groups
from planner.plans.operation import index_of
from planner.plans.placement import place
from planner.plans.schema import OUT_OF_TIME, Cap, Space
from planner.plans.space import space_of, words
from solvers.linear import Limits
from tests.beside.solved import solved

SPACE = Space(considered=1, kept=1, complete=True, what="all")


def fleet(gpus="2xH100", model="llama-3.1-8b", **asked):
    """What was asked, and its best fleet."""
    posed, _, found = solved(gpus, model, tpot_ms=50, **asked)
    return posed, found


def shown(found, g, after=()):
    nodes = {n.id: n for n in found.cluster.classes}
    on = place(found.cluster.classes, {g.candidate.id: g.count}, found.candidates)
    osl = np.array([b.osl for b in found.workload.buckets], dtype=float)
    return replica(g, nodes, on, osl, 7.0, None, after)


def test_a_replica_says_where_it_stands_and_what_it_runs():
    found = fleet()[1]
    g = groups(found)[0]
    r, d = shown(found, g), g.candidate.design

    assert (r.id, r.count, r.role, r.engine, r.watts) == (g.id, g.count, g.candidate.role, "vllm", 7.0)
    assert (r.tp, r.pp, r.attn_dp, r.ep) == (d.tp, d.pp, d.attn_dp, d.ep)
    assert sum(stage.gpus for stage in r.stages) == g.candidate.gpus
    assert r.stages[0].layers[0] == 0
    assert r.stages[-1].layers[1] == 32
    assert r.utilisation == g.operation.used
    assert r.step.decode_s == g.operation.decode_s


def test_the_engines_share_of_a_server_of_prompts_is_of_no_sequences():
    """Thousands of prompts may be in flight there, none of them decodes (odd problems, seed 3411, no. 71)."""
    found = fleet()[1]
    g = groups(found)[0]
    prompts = replace(g, candidate=replace(g.candidate, role="prefill"))
    none, many = (
        float(g.setup.model.engine_s(g.setup.designs, np.array([n]))[0]) for n in (0.0, g.operation.sequences)
    )

    assert none < many
    assert shown(found, prompts).step.engine_s == pytest.approx(none)
    assert shown(found, g).step.engine_s == pytest.approx(many)


def test_a_batch_in_a_closed_loop_is_all_in_flight_and_in_an_open_one_a_burst_more():
    """Little's law: rate x (TTFT + 255 TPOT); at random three deviations more, of a number that varies
    by n / (1 - busy)."""
    for asked in ({"loop": "closed"}, {"rate": 3.0}):
        found = fleet("1xH100", ttft_ms=300, **asked)[1]
        g = groups(found)[0]
        op = g.operation
        held = float(op.rate[0] * (op.ttft_s[0] + 255 * op.tpot_s[0])) * g.candidate.design.attn_dp
        burst = held if "loop" in asked else held + 3 * sqrt(max(held, 1.0) / (1 - op.busy))
        assert g.setup.promise.loop == asked.get("loop", "open")
        assert shown(found, g).max_batch == ceil(burst - 1e-6)


def test_a_server_that_decodes_for_others_has_room_for_those_that_come_together():
    """Prompts end when they end, in a closed loop, too: with the mean alone let in, the next ones wait. Here
    the cache holds fewer than a burst."""
    found = fleet(ttft_ms=300, engine="sglang", loop="closed")[1]
    mixed = groups(found)[0]
    g = replace(mixed, candidate=replace(mixed.candidate, role="decode"))
    held = float(g.operation.rate[0] * 255 * g.operation.tpot_s[0]) * g.candidate.design.attn_dp

    assert g.setup.promise.loop == "closed"
    s, index = g.setup, index_of(g.setup, g.candidate)
    most = floor(s.memory.kv_bytes[index] / s.held_bytes[index, 0])
    assert held < most < held + 3 * sqrt(held / (1 - g.operation.busy))
    assert shown(found, g).max_batch == most


def test_a_batch_is_for_what_is_left_after_a_loss_too():
    found = fleet("1xH100", ttft_ms=300, loop="closed")[1]
    g = groups(found)[0]
    op = g.operation
    more = replace(g, operation=replace(op, rate=2 * op.rate))

    assert shown(found, g, [more]).max_batch == pytest.approx(2 * shown(found, g).max_batch, abs=1)


def test_cache_is_tokens_of_the_mean_context_in_blocks():
    found = fleet()[1]
    g = groups(found)[0]
    r, s = shown(found, g), g.setup
    at = next(i for i in range(len(s.designs)) if s.designs.tp[i] == r.tp and s.designs.pp[i] == r.pp)
    each = s.model.cache_bytes(
        s.designs.take(np.array([at])), np.array([s.mix.context]), s.memory.stage[[at]]
    )

    assert r.kv_tokens == pytest.approx(s.memory.kv_bytes[at] / each[0, 0] * s.mix.context, rel=1e-3)
    assert r.cache.tokens_per_gpu == pytest.approx(r.kv_tokens / g.candidate.gpus)
    assert r.cache.block_tokens == named("vllm").block_tokens
    assert r.cache.block_waste == pytest.approx(s.unfilled / s.held_tokens)
    assert 0 < r.cache.used <= 1


def test_each_gpu_has_its_part_of_the_tokens():
    found = fleet("8xH100", "llama-3.1-70b")[1]
    g = next(g for g in groups(found) if g.candidate.role != "prefill")
    r = shown(found, g)

    assert g.candidate.gpus > 1
    assert r.cache.tokens_per_gpu == pytest.approx(r.kv_tokens / g.candidate.gpus)


def test_a_step_is_told_where_the_engine_would_take_another():
    found = fleet()[1]
    g = groups(found)[0]

    assert shown(found, g).max_batched_tokens is None
    other = replace(g, setup=replace(g.setup, token_budget=4096))
    assert shown(found, other).max_batched_tokens == 4096
    told = replace(g, candidate=replace(g.candidate, key=replace(g.candidate.key, chunk=2048)))
    nodes = {n.id: n for n in found.cluster.classes}
    on = place(found.cluster.classes, {g.candidate.id: g.count}, found.candidates)
    assert replica(told, nodes, on, np.array([256.0]), 7.0, None, ()).max_batched_tokens == 2048


def test_the_proof_is_of_the_best_and_says_what_the_chosen_gives_up():
    """By hand: 10 at best, at most 10.5, and 9 chosen: a tenth given up for fewer kinds."""
    found = fleet()[1]
    best = replace(found, solution=replace(found.solution, objective=10.0, bound=10.5, status="within_gap"))
    chosen = replace(best, solution=replace(best.solution, objective=9.0))
    p = proof(best, chosen, [(1, 9.0), (2, 10.0)], 1.5, 3, SPACE)

    assert (p.objective, p.bound, p.status, p.sense, p.unit) == (10.0, 10.5, "within_gap", "max", "req/s")
    assert p.gap == pytest.approx(0.05)
    assert (p.chosen, p.given_up) == (9.0, pytest.approx(0.1))
    assert [(k.kinds, k.objective) for k in p.kinds] == [(1, 9.0), (2, 10.0)]
    exact = replace(best, solution=replace(best.solution, status="optimal"))
    assert proof(exact, exact, [], 1.5, 3, SPACE).bound == 10.0
    odd = replace(best, solution=replace(best.solution, status="infeasible"), unclosed="")
    assert proof(odd, odd, [], 1.5, 3, SPACE).status == "time_limit"


@pytest.mark.parametrize(
    ("ended", "status", "why", "code"),
    [("time_limit", "not_closed", "columns are coarse", 4), ("within_gap", "within_gap", "", 0)],
)
def test_a_gap_that_no_time_would_close_is_said_with_its_reason(ended, status, why, code):
    found = fleet()[1]
    solution = replace(found.solution, objective=10.0, bound=10.5, status=ended)
    best = replace(found, solution=solution, unclosed="columns are coarse")
    p = proof(best, best, [], 1.5, 3, SPACE)

    assert (p.status, p.why, p.exit_code) == (status, why, code)
    assert p.model_dump().get("why", "") == why


@pytest.mark.parametrize("status", ["optimal", "within_gap"])
def test_what_is_best_of_a_space_that_time_cut_short_is_not_proven(status):
    found = fleet()[1]
    best = replace(found, solution=replace(found.solution, objective=10.0, bound=10.0, status=status))
    late = Cap(what=f"{OUT_OF_TIME} (none of vllm on l4)", value=9, binds=True)
    p = proof(best, best, [], 1.5, 3, SPACE.model_copy(update={"complete": False, "caps": [late]}))

    assert (p.status, p.exit_code, p.why) == ("time_limit", 4, "")
    assert proof(best, best, [], 1.5, 3, SPACE).status == status


def test_a_class_that_there_was_no_time_for_is_idle_for_that_reason():
    found = fleet()[1]
    none = replace(found.pool, candidates=(), late=True, unseen=(("h100-sxm", "sglang"),))
    (note,) = idle(replace(found, pool=none), [], 0.0)

    assert note.message.endswith(
        "idle: the time was over before all that could run on this class was looked at"
    )


def test_a_cheapest_fleet_is_the_smallest():
    found = fleet(rate=3.0, objective="cost")[1]
    p = proof(found, found, [], 1.0, 0, SPACE)

    assert (p.sense, p.unit, p.given_up) == ("min", "USD/h", 0.0)


@pytest.mark.parametrize(
    ("asked", "given_up", "reason"),
    [
        ({"rate": 1.0, "objective": "gpus"}, 0.1, "the load is served without them"),
        ({"budget": "gpus=1"}, 0.0, "a budget is spent"),
        ({}, 0.0, "no fleet was found that serves more by using them"),
        ({}, 0.02, "a simpler fleet without them serves nearly as much"),
    ],
)
def test_gpus_that_no_replica_uses_are_told_with_the_reason(asked, given_up, reason):
    found = fleet(**asked)[1]
    made = groups(found)
    busy = [replace(g, count=0) for g in made] if not asked else made
    (note,) = idle(found, busy, given_up)
    used = sum(g.count * g.candidate.gpus for g in busy)

    assert note.message == f"{2 - used} of 2 h100-sxm idle: {reason}"


def test_gpus_fewer_than_any_replica_are_told_so():
    found = fleet("8xH100", "llama-3.1-70b")[1]
    large = replace(found.pool, candidates=tuple(c for c in found.pool.candidates if c.gpus >= 4))
    made = [replace(groups(found)[0], count=1, candidate=next(c for c in large.candidates if c.gpus == 4))]
    five = replace(made[0], candidate=replace(made[0].candidate, gpus=5))
    (note,) = idle(replace(found, pool=large), [five], 0.0)

    assert note.message == "3 of 8 h100-sxm idle: the smallest replica that keeps the SLO takes 4"
    assert idle(found, [replace(made[0], count=2)], 0.0) == []
    (room,) = idle(replace(found, pool=large), made, 0.0)
    assert room.message == "4 of 8 h100-sxm idle: no fleet was found that serves more by using them"


def test_a_model_without_experts_has_no_map_and_one_with_has_one_a_group():
    assert experts_of(groups(fleet()[1]), Limits(seconds=2)) is None
    made = groups(fleet("8xH100", "qwen3-30b-a3b")[1])
    made = [*made, replace(made[0], id="twin")]
    told = experts_of(made, Limits(seconds=2))

    assert [e.replica for e in told.replicas] == [g.id for g in made]
    for e, g in zip(told.replicas, made, strict=True):
        d = g.candidate.design
        assert (e.ep, e.redundant) == (d.ep, d.redundant)
        assert e.slots_per_rank * d.ep >= 128 + d.redundant > (e.slots_per_rank - 1) * d.ep
        assert e.placement == ("balancer" if d.redundant else "in order")
        assert e.hottest >= 1


def test_the_space_names_its_caps_and_is_whole_where_none_binds():
    asked, found = fleet()
    space = space_of(asked, found)
    caps = {cap.what.split(" (")[0]: cap for cap in space.caps}

    assert space.considered == found.pool.considered
    assert space.kept == len(found.space.columns)
    assert space.complete == (not any(cap.binds for cap in space.caps))
    assert not caps["GPUs of a replica"].binds
    usual = caps["designs of usual sizes"]
    assert usual.considered == usual.value + usual.left_out
    assert caps["sequences of a server"].binds == any(c.batch >= 4095 for c in found.pool.candidates)
    assert words(asked, found).startswith("all vllm-valid tp x pp")
    assert not any("long prompt" in cap.what for cap in space.caps)


def test_caps_of_long_prompts_and_of_many_buckets_are_named_where_they_hold():
    asked, found = fleet()
    long = asked.workload.model_copy(
        update={"buckets": [b.model_copy(update={"isl": LONG}) for b in asked.workload.buckets] * 5}
    )
    said = [cap.what for cap in space_of(replace(asked, workload=long), found).caps if cap.binds]

    assert "sizes of a long prompt's chunks" in said
    assert "buckets whose servers are looked at almost alone" in said


def test_a_plan_that_fails_its_check_is_called_a_mistake_of_the_planner(monkeypatch):
    monkeypatch.setattr(verified, "check", lambda plan: [])
    verified.verified(None)
    monkeypatch.setattr(verified, "check", lambda plan: [SimpleNamespace(message="too full", where="r1")] * 2)
    with pytest.raises(MeshwrightError, match="the plan failed its own check: too full") as caught:
        verified.verified(None)
    assert "not in your input" in str(caught.value.hint)
