"""Steps of a server at the tokens that they really carry: where everything that states a time begins.

A step is linear near one operating point (`StepTimes`); this page says which. Candidates, the load of a plan,
`predict`, the fit and `calibrate` all take their steps from here.

*Decoding servers* (mixed or decode), B sequences at once. Each leaves after K = E[osl - 1] steps on average
and another one's prompt comes, so a micro-batch of a pipeline of s stages meets a = B / (K s) new prompts,
at random: those that meet any carry

    q = E[tokens | any] = min(budget, p a / (1 - exp(-a)))                                              (1)

prompt tokens, p those of the mean prompt. The step is linear through 0 and s q tokens a round: at a share
1 - exp(-a) of such steps that is the mean of true steps, so no rate is beyond what the hardware computes
(times are convex in the tokens: they first hide behind the reading of weights). Where experts are read from
beside the GPUs times may be concave, as two prompts ask for many of the same ones: there the steps go through
q = min(budget, p), a lone prompt, where that is steeper, as none takes less.

An engine that computes prompts first makes two steps of one with prompts, one after the other: their sum is
the step here (`CostModel._round_s`).

An engine that looks at new requests every g-th step takes the prompts of g steps at once, so a is g times
that, in every g-th step. Attention-dp ranks step together: a step in which any of R ranks has a prompt is
launched with it on all. With R a prompts of p / R tokens in (1) such a step is as long as those of a prompts
of p tokens where kernels are what takes time, but where launching does all ranks wait for each rank's: what
it is longer by counts in every step of servers that compute prompts (`for_role`). Ranks that wait for each
other's prompts have them in the same steps.

*Prefill servers*: the line through a round of lone prompts, one in each stage's micro-batch, and a full
round of s budgets. A lone prompt then takes just what one alone does, a busy server just what full rounds
do; between them the line is above the convex truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats, StepTimes
from planner.operating.known import once
from planner.operating.requests import Requests, Terms
from planner.queueing import Role, work_s


def carried(prompt: Floats | float, prompts: Floats | float, budget: Floats | float) -> Floats:
    """Prompt tokens of a micro-batch that has any, (1): `prompts` of `prompt` tokens come to one on average.

    >>> [round(float(carried(1000.0, a, 8192.0))) for a in (0.0, 1.0, 4.0, 100.0)]
    [1000, 1582, 4075, 8192]
    """
    a = np.maximum(np.asarray(prompts, dtype=np.float64), 1e-9)
    return np.asarray(np.minimum(prompt * a / -np.expm1(-a), budget))


@once
def decoding_steps(
    model: CostModel, designs: Designs, asked: Requests, sequences: Floats, budget: Floats | float
) -> StepTimes:
    """Steps (n,) of servers that decode `sequences` at once while prompts come; `budget`: tokens of a
    micro-batch. A step that is made has a sequence in it, of one of the attention-dp ranks at least.

    Where a step gives a sequence several tokens, the queueing formulas see so many fewer of them at contexts
    that are as long: what those lack is a sequence's own."""
    sequences, stages, prompts = _met(model, designs, asked, sequences)

    def through(prompts: Floats | float) -> StepTimes:
        tokens = stages * carried(asked.prompt, prompts, budget)
        return model.step_times(designs, Load.of(sequences, asked.context, tokens))

    step = through(prompts)
    if model.fewer_alike:
        step = _steeper(step, through(0.0), asked.context / 2)
    beyond = asked.context - asked.in_steps.context
    return replace(step, sequence_s=step.sequence_s + step.context_s_per_token * beyond)


def for_role(
    role: Role,
    step: StepTimes,
    model: CostModel,
    designs: Designs,
    asked: Requests,
    sequences: Floats,
    budget: Floats | float,
) -> StepTimes:
    """The `decoding_steps` of servers that compute prompts as well: those of attention-dp ranks are longer by
    what these wait for launches of each other's."""
    at = np.flatnonzero(designs.attn_dp > 1)
    if role != "mixed" or model.ranks_gather or not len(at):
        return step
    lengths = (asked.context, asked.prompt, budget, asked.receive_steps)
    every = (*_met(model, designs, asked, sequences), *lengths)
    b, stages, a, context, prompt, most, looks = (np.broadcast_to(x, len(designs))[at] for x in every)
    ranks, none = designs.attn_dp[at], np.zeros(len(at))
    tokens = (carried(prompt, a, most), carried(prompt / ranks, a * ranks, most), none)
    load = Load.of(np.tile(b, 3), np.tile(context, 3), np.tile(stages, 3) * np.concatenate(tokens))
    own_s, any_s, none_s = model.step_s(designs.take(np.tile(at, 3)), load).reshape(3, -1)
    own_s, any_s = (-np.expm1(-x) * (s - none_s) for x, s in ((a, own_s), (a * ranks, any_s)))
    longer_s = np.zeros(len(designs))
    longer_s[at] = np.maximum(any_s - own_s, 0.0) / looks
    return replace(step, t0_s=step.t0_s + longer_s)


def steps_for(
    role: Role,
    model: CostModel,
    designs: Designs,
    asked: Requests,
    sequences: Floats,
    budget: Floats | float,
) -> StepTimes:
    """Steps (n,) of servers of a role that decode `sequences` at once."""
    step = decoding_steps(model, designs, asked, sequences, budget)
    return for_role(role, step, model, designs, asked, sequences, budget)


def _met(
    model: CostModel, designs: Designs, asked: Requests, sequences: Floats
) -> tuple[Floats, Floats, Floats]:
    """Sequences (n,) in a step that is made, its micro-batches, and the prompts that come to one of them on
    average between two looks at new requests."""
    sequences = np.maximum(sequences, 1 / designs.attn_dp)
    stages = model.concurrent(designs).astype(np.float64)
    return sequences, stages, asked.receive_steps * sequences / np.maximum(asked.decodes, 1.0) / stages


def _steeper(one: StepTimes, other: StepTimes, keys: Floats) -> StepTimes:
    """The steps (n,) in which a prompt token that attends to `keys` takes longer; all else is alike."""
    a, b = (s.prefill_s_per_token + s.prefill_s_per_pair * keys for s in (one, other))
    both = zip(vars(one).values(), vars(other).values(), strict=True)
    return StepTimes(*(np.where(a >= b, x, y) for x, y in both))


def prompt_steps(model: CostModel, designs: Designs, asked: Requests, budget: Floats | float) -> StepTimes:
    """Steps (n,) of servers that only compute prompts; where one fills the budget, the line through steps of
    a token and full ones."""
    stages, keys = model.concurrent(designs).astype(np.float64), asked.keys
    least, most = stages * np.where(asked.prompt < budget, asked.prompt, 1.0), stages * budget
    lone_s, full_s = (model.step_s(designs, Load.of(0.0, 0.0, tokens, keys)) for tokens in (least, most))
    met_s = np.maximum(full_s - model.step_s(designs, Load.of(0.0, 0.0, most)), 0.0)
    steep = np.clip((full_s - lone_s) / np.maximum(most - least, 1.0), 0.0, full_s / most)
    pair_s, none = np.minimum(met_s / most, steep) / np.maximum(keys, 1.0), 0.0 * full_s
    return StepTimes(full_s - steep * most, steep - pair_s * keys, pair_s, none, none, stages)


TRIES, AT_ONCE = 13, 160
"""Batches tried at once for a server, at least, and for all servers: one pass over many costs little more
than over few."""

NEAR = 1e-3
"""Relative width of the section in which the batch of a rate is found."""

FEWEST, MOST = 1e-3, 1e5
"""Sequences in a server between which the batch of a rate is looked for."""


def batch_of(model: CostModel, designs: Designs, asked: Requests, rate: Floats, by: Terms) -> Floats:
    """Sequences (n,) that servers decode at once where `rate` (n,) requests/s come: as many as those steps do
    that are made linear there; the fewest such, as where almost nobody decodes more sequences may do less."""
    n = len(rate)
    tries = max(TRIES, AT_ONCE // max(n, 1))
    low, high, one = np.full(n, FEWEST), np.full(n, MOST), np.arange(n)
    each = one.repeat(tries)
    tried, many = asked.take(each) if len(asked.new) > 1 else asked, designs.take(each)
    wide = np.broadcast_to(by.token_budget, rate.shape)[each]
    for _ in range(math.ceil(math.log(math.log(MOST / FEWEST) / NEAR) / math.log(tries - 1))):
        batch = np.geomspace(low, high, tries, axis=1)
        step = steps_for(by.role, model, many, tried, batch.ravel(), wide)
        found = rate_of(step, tried, batch.ravel(), by.role).reshape(batch.shape)
        enough = found >= rate[:, None]
        above = np.where(enough.any(axis=1), np.maximum(enough.argmax(axis=1), 1), tries - 1)
        low, high = batch[one, above - 1], batch[one, above]
    less, more = found[one, above - 1], found[one, above]  # nearly a line between them
    return np.asarray(low + np.clip((rate - less) / np.maximum(more - less, 1e-30), 0.0, 1.0) * (high - low))


def rate_of(step: StepTimes, asked: Requests, sequences: Floats, role: Role) -> Floats:
    """Requests/s (n,) that servers with `sequences` decoding take: each step of T = t0 + B E[work] / K takes
    K decode steps of B sequences further, K = E[osl - 1]."""
    return np.asarray(sequences / (asked.decodes * step.t0_s + sequences * _work(step, asked, role)))


def batch_at(step: StepTimes, asked: Requests, rate: Floats, role: Role) -> Floats:
    """Sequences (n,) that decode at once at `rate` (n,) requests/s, below the server's capacity: the inverse
    of `rate_of`."""
    left = np.maximum(1 - rate * _work(step, asked, role), 1e-9)
    return np.asarray(rate * asked.decodes * step.t0_s / left)


def _work(step: StepTimes, asked: Requests, role: Role) -> Floats:
    """Mean seconds (n,) of server time that a request takes beside t0."""
    return asked.mean(work_s(step, asked.new, asked.isl, asked.in_steps.osl, role))
