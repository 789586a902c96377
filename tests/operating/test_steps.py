"""Steps at the tokens that they carry: by hand, against true steps, and there and back between batch and
rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node
from model_zoo.catalog import find
from planner.cost.attention import Load
from planner.cost.host import HostStage
from planner.cost.model import CostModel
from planner.cost.offload import OffloadModel
from planner.designs.precision import precisions
from planner.designs.shape import designs_of, like
from planner.operating.requests import Requests, Terms
from planner.operating.steps import (
    batch_at,
    batch_of,
    carried,
    decoding_steps,
    for_role,
    prompt_steps,
    rate_of,
)
from planner.operating.times import arriving, watts
from planner.predict.predictions import usual_node
from planner.queueing import work_s

CARD = find("llama-3.1-8b")[0]
MODEL = CostModel(CARD, usual_node("h100-sxm"), "vllm", precisions(CARD))
PIPES = like(2, 1, np.array([1, 4]))
BUDGET = 8192.0


def asked(
    isl: float = 1000.0, osl: float = 200.0, new: float | None = None, emitted: float = 1.0
) -> Requests:
    """One bucket."""
    one = np.ones((1, 1))
    return Requests((isl if new is None else new) * one, isl * one, osl * one, one, emitted)


def test_a_step_with_prompts_carries_those_that_meet_in_it():
    """By hand: 2 of 1,000 tokens come to a step on average; those that have any carry 2 / (1 - e^-2) of
    them."""
    assert carried(1000.0, 2.0, BUDGET) == pytest.approx(2000 / (1 - np.exp(-2)))


@pytest.mark.parametrize("i", [0, 1])
def test_steps_are_linear_through_none_and_what_all_stages_carry(i):
    """64 sequences of 199 steps: 64 / 199 prompts come to a step, a quarter of them to each of four
    stages."""
    pp = float(PIPES.pp[i])
    tokens = pp * carried(1000.0, 64 / 199 / pp, BUDGET)
    step = decoding_steps(MODEL, PIPES, asked(), np.full(2, 64.0), BUDGET)
    pairs = step.prefill_s_per_pair * tokens * (1000 + 200 / 2) / 2
    linear = step.t0_s + 64 * (step.sequence_s + 1100 * step.context_s_per_token)

    none = MODEL.step_s(PIPES, Load.of(64.0, 1100.0))
    full = MODEL.step_s(PIPES, Load.of(64.0, 1100.0, tokens, 1100.0 / 2))
    assert linear[i] == pytest.approx(none[i])
    assert (linear + step.prefill_s_per_token * tokens + pairs)[i] == pytest.approx(full[i])


SHORT = 16.0
"""Tokens of a prompt whose kernels take less than launching them."""


def mean_s(model, designs, requests, sequences=16.0, role="mixed"):
    """A mean step by the linear form, with the prompts that come."""
    b = np.array([sequences])
    step = decoding_steps(model, designs, requests, b, BUDGET)
    step = for_role(role, step, model, designs, requests, b, BUDGET)
    keys = requests.context / 2
    prompts = (
        sequences / requests.decodes * SHORT * (step.prefill_s_per_token + keys * step.prefill_s_per_pair)
    )
    own = step.sequence_s + requests.in_steps.context * step.context_s_per_token
    return float((step.t0_s + sequences * own + prompts)[0])


def launched_s(model, designs, requests, sequences=16.0):
    """A step without prompts, and what launching one with a few tokens adds."""
    none, some = (
        model.step_s(designs, Load.of(sequences, requests.context, tokens)) for tokens in (0.0, SHORT)
    )
    return float(none[0]), float((some - none)[0])


def test_prompts_that_are_looked_for_every_thirtieth_step_are_launched_together():
    """By hand: 16 sequences of 199 steps have 16 / 199 prompts a step, so 1 - e^-2.41 of the steps in which
    the engine looks have some, however many launched once."""
    one, requests = like(1, 1, np.array([1])), asked(SHORT)
    none, launching = launched_s(MODEL, one, requests)

    assert mean_s(MODEL, one, requests) == pytest.approx(none + (1 - np.exp(-16 / 199)) * launching, rel=1e-3)
    every = 30 * 16 / 199
    gathered = mean_s(MODEL, one, replace(requests, receive_steps=30.0))
    assert gathered == pytest.approx(none + (1 - np.exp(-every)) * launching / 30, rel=1e-3)


@pytest.mark.parametrize(
    ("engine", "role", "ranks"), [("vllm", "mixed", 8), ("vllm", "decode", 1), ("trtllm", "mixed", 1)]
)
def test_attention_ranks_wait_for_each_others_launches_unless_they_have_their_prompts_together(
    engine, role, ranks
):
    """By hand: any of eight ranks has one in 1 - e^(-8 x 16 / 199) of their steps. Nothing is launched for
    others where prompts are computed elsewhere."""
    card = find("deepseek-v3")[0]
    model = CostModel(card, usual_node("h200-sxm"), engine, precisions(card))
    eight = replace(like(1, 1, np.array([1])), attn_dp=np.array([8]), ep=np.array([8]))
    none, launching = launched_s(model, eight, asked(SHORT))

    expected = none + (1 - np.exp(-ranks * 16 / 199)) * launching
    assert launching > none / 4
    assert mean_s(model, eight, asked(SHORT), role=role) == pytest.approx(expected, rel=0.03)


def test_a_lone_prompt_takes_no_less_where_its_experts_are_copied_to_the_gpu():
    """Two short prompts ask for many of the same experts: twice one is more than both. Answers of two tokens
    let 1.6 prompts meet in a step on average, which must not make one of them quicker."""
    card = find("kimi-k2-0905")[0]
    host = Host(memory_gb=4096, gb_per_s=40, tflops=2, pcie_gb_per_s=55)
    node = resolve(Cluster(nodes=[Node(device="rtx-5080", gpus_per_node=1, host=host)])).classes[0]
    stagings = [(HostStage("rtx-5080", 1, (0, 61), 60),)]
    model = OffloadModel(card, node, stagings, "sglang", precisions(card))
    designs = designs_of(stagings)
    lone, sequences = asked(128.0, 2.0), np.ones(1)
    keys = lone.context / 2

    step = decoding_steps(model, designs, lone, sequences, BUDGET)
    linear = step.t0_s + step.sequence_s + lone.context * step.context_s_per_token
    linear = linear + 128 * (step.prefill_s_per_token + keys * step.prefill_s_per_pair)

    true = model.step_s(designs, Load.of(sequences, lone.context, 128.0, keys))
    two = model.step_s(designs, Load.of(sequences, lone.context, 256.0, keys))
    assert two < 1.8 * true
    assert linear == pytest.approx(true)


def test_prompts_take_what_a_lone_one_does_and_a_full_round():
    """Of four stages a round has a prompt in each, or a budget."""
    step = prompt_steps(MODEL, PIPES, asked(), BUDGET)
    for tokens in (1000.0, BUDGET):
        true = MODEL.step_s(PIPES, Load.of(0.0, 1000.0, PIPES.pp * tokens, 1000.0 / 2))
        pairs = step.prefill_s_per_pair * PIPES.pp * tokens * 1000 / 2
        said = step.t0_s + step.prefill_s_per_token * PIPES.pp * tokens + pairs
        assert said == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("role", ["mixed", "decode"])
def test_batch_and_rate_belong_together(role):
    """There and back: the steps of the batch that a rate leads to take that rate."""
    rate = np.array([2.0, 6.0])
    batch = batch_of(MODEL, PIPES, asked(), rate, Terms(role, BUDGET))
    step = decoding_steps(MODEL, PIPES, asked(), batch, BUDGET)

    assert rate_of(step, asked(), batch, role) == pytest.approx(rate, rel=2e-3)
    assert batch_at(step, asked(), rate, role) == pytest.approx(batch, rel=5e-3)
    assert batch_at(step, asked(), rate_of(step, asked(), batch, role), role) == pytest.approx(batch)


def test_a_decoding_server_makes_its_rate_by_hand():
    """B sequences, a step of t0 + B w for each of a request's K steps: X = B / (K t0 + B E[work])."""
    step = decoding_steps(MODEL, PIPES, asked(), np.full(2, 64.0), BUDGET)
    work = work_s(step, *(np.full((1, 1), x) for x in (1000.0, 1000.0, 200.0)))[:, 0]

    assert rate_of(step, asked(), np.full(2, 64.0), "mixed") == pytest.approx(
        64 / (199 * step.t0_s + 64 * work)
    )


def test_steps_of_several_tokens_see_the_same_contexts():
    """A request of 200 tokens in steps of 4 takes a quarter of the steps, each at contexts as long."""
    several = asked(emitted=4.0)

    assert several.decodes == pytest.approx(199 / 4)
    assert several.context == pytest.approx(asked().context)
    step = decoding_steps(MODEL, PIPES, several, np.full(2, 64.0), BUDGET)
    e = arriving(MODEL, step, several, np.full((2, 1), 60.0), Terms("decode", BUDGET))
    linear = step.t0_s + e.sequences * (step.sequence_s + several.in_steps.context * step.context_s_per_token)
    assert 4 * e.tpot_s[:, 0] == pytest.approx(linear, rel=1e-6)


def test_the_engine_starts_a_request_before_its_first_token():
    step = prompt_steps(MODEL, PIPES, asked(), BUDGET)
    rate = np.full((2, 1), 1e-6)
    e = arriving(MODEL, step, asked(), rate, Terms("prefill", BUDGET, loop="open"))
    alone = (
        step.t0_s
        + work_s(replace(step, t0_s=0 * step.t0_s), *(np.full((1, 1), 1000.0),) * 3, "prefill")[:, 0]
    )

    assert e.ttft_s[0, 0] - alone[0] == pytest.approx(MODEL.tuning.started_s(1000), rel=1e-3)


def test_watts_are_those_of_the_mean_step():
    """By hand: 64 sequences of 199 steps let 64 / 199 prompts into a step; on a prefill server each stage has
    a prompt, a share of the time."""
    batch, half = np.full(2, 64.0), np.full(2, 0.5)
    mixed, prefill, decode = (
        watts(MODEL, PIPES, asked(), Terms(role, BUDGET), batch, half)
        for role in ("mixed", "prefill", "decode")
    )

    assert mixed == pytest.approx(MODEL.watts(PIPES, Load.of(64.0, 1100.0, 64 / 199 * 1000, 500.0), 1.0))
    assert prefill == pytest.approx(MODEL.watts(PIPES, Load.of(0.0, 0.0, PIPES.pp * 1000.0, 500.0), 0.5))
    assert decode == pytest.approx(MODEL.watts(PIPES, Load.of(64.0, 1100.0, 0.0, 500.0), 1.0))


def test_steps_of_several_tokens_add_to_the_true_step():
    """Contexts of fewer, longer steps are a sequence's own: nothing of a step without prompts is lost."""
    several, batch = asked(emitted=4.0), np.full(2, 64.0)
    step = decoding_steps(MODEL, PIPES, several, batch, BUDGET)
    linear = step.t0_s + batch * (step.sequence_s + several.in_steps.context * step.context_s_per_token)

    assert linear == pytest.approx(MODEL.step_s(PIPES, Load.of(64.0, several.context)), rel=1e-6)
    assert (several.in_steps.context < several.context).all()


def test_a_step_has_a_sequence_of_one_attention_rank_at_least():
    """Of eight ranks that step together one has one: an eighth of a sequence on average, not fewer."""
    ranks = like(1, 1)
    ranks = replace(ranks, attn_dp=8 * ranks.attn_dp)
    few, eighth, more = (
        decoding_steps(MODEL, ranks, asked(), np.array([x]), BUDGET) for x in (0.01, 1 / 8, 16)
    )

    assert few.t0_s == eighth.t0_s
    assert few.t0_s != more.t0_s
