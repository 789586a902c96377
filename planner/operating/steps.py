"""Steps of a server at the tokens that they really carry: where everything that states a time begins.

A step is linear near one operating point (`StepTimes`); this page says which. Candidates, the load of a plan,
`predict`, the fit and `calibrate` all take their steps from here.

*Decoding servers* (mixed or decode), B sequences at once. Each leaves after K = E[osl - 1] steps on average
and another one's prompt comes, so a micro-batch of a pipeline of s stages meets a = B / (K s) new prompts,
at random: those that meet any carry

    q = E[tokens | any] = min(budget, p a / (1 - exp(-a)))                                              (1)

prompt tokens, p those of the mean prompt. The step is linear through 0 and s q tokens a round: at a share
1 - exp(-a) of such steps that is the mean of true steps, so no rate is beyond what the hardware computes
(times are convex in the tokens: they first hide behind the reading of weights).

*Prefill servers*: the line through a round of lone prompts, one in each stage's micro-batch, and a full
round of s budgets. A lone prompt then takes just what one alone does, a busy server just what full rounds
do; between them the line is above the convex truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.cost.model import CostModel
from planner.cost.shape import Designs, Floats, StepTimes


def carried(prompt: Floats | float, prompts: Floats | float, budget: Floats | float) -> Floats:
    """Prompt tokens of a micro-batch that has any, (1): `prompts` of `prompt` tokens come to one on average.

    >>> [round(float(carried(1000.0, a, 8192.0))) for a in (0.0, 1.0, 4.0, 100.0)]
    [1000, 1582, 4075, 8192]
    """
    a = np.maximum(np.asarray(prompts, dtype=np.float64), 1e-9)
    return np.asarray(np.minimum(prompt * a / -np.expm1(-a), budget))


def decoding_steps(
    model: CostModel,
    designs: Designs,
    sequences: Floats,
    context: Floats | float,
    prompt: Floats | float,
    decodes: Floats | float,
    budget: Floats | float,
) -> StepTimes:
    """Steps (n,) of servers that decode `sequences` at once at mean `context`, each for `decodes` steps,
    while prompts of `prompt` new tokens come; `budget`: tokens of a micro-batch. A step that is made has a
    sequence in it, of one of the attention-dp ranks at least."""
    sequences, stages = np.maximum(sequences, 1 / designs.attn_dp), model.concurrent(designs)
    prompts = sequences / np.maximum(decodes, 1.0) / stages
    return model.step_times(designs, sequences, context, stages * carried(prompt, prompts, budget))


def prompt_steps(
    model: CostModel, designs: Designs, prompt: Floats | float, isl: Floats | float, budget: Floats | float
) -> StepTimes:
    """Steps (n,) of servers that only compute prompts of `prompt` new tokens of `isl`, on average."""
    stages, none = model.concurrent(designs), np.zeros(len(designs))
    least, most = stages * np.minimum(prompt, budget), stages * np.asarray(budget, dtype=np.float64)
    lone, full = (model.step_times(designs, none, none + isl, tokens + none) for tokens in (least, most))
    return _through(lone, least + none, full, most + none)


def _through(a: StepTimes, at: Floats, b: StepTimes, to: Floats) -> StepTimes:
    """The line through two steps of `at` and `to` prompt tokens, (n,); `b` where they are the same."""
    first, second = a.t0_s + a.prefill_s_per_token * at, b.t0_s + b.prefill_s_per_token * to
    slope = np.clip((second - first) / np.maximum(to - at, 1e-9), 0.0, second / to)
    slope = np.where(to > at, slope, b.prefill_s_per_token)
    return replace(b, t0_s=second - slope * to, prefill_s_per_token=slope)
