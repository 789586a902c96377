"""What a server at given steps answers, and what it draws: for plans and for rows of `predict` alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.cost.attention import Load
from planner.cost.efficiency.reading import Chip
from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats, StepTimes
from planner.operating.requests import Requests, Terms
from planner.queueing import Estimate, estimate


def arriving(
    model: CostModel,
    step: StepTimes,
    asked: Requests,
    rate: Floats,
    by: Terms,
    places: Floats | float = np.inf,
) -> Estimate:
    """TTFT and TPOT of servers at `rate` (n, w) requests/s, the engine's own seconds a request included, and
    the wait for one of their `places` (n,)."""
    lengths, how = (asked.new, asked.isl, asked.in_steps.osl), (by.percentile, by.loop, by.role)
    e = estimate(step, *lengths, rate, by.token_budget, *how, computed=by.computed, places=places)
    started = 0.0 if by.role == "decode" else model.tuning.started_s(asked.isl)
    tpot, mean = e.tpot_s / asked.emitted, e.mean_tpot_s / asked.emitted
    return replace(e, ttft_s=e.ttft_s + started, tpot_s=tpot, mean_tpot_s=mean)


def watts(
    model: CostModel, designs: Designs, asked: Requests, by: Terms, batch: Floats, busy: Floats
) -> Floats:
    """Watts of a replica (n,) in its mean step.

    A server that decodes `batch` sequences makes steps all the time; with each that leaves after its decode
    steps another one's prompt comes, and its tokens are spread over those steps, as many as fit them. One
    that only computes prompts makes steps a share `busy` of the time, a prompt or a budget in each stage.
    """
    stages, none = model.concurrent(designs).astype(np.float64), 0.0 * batch
    if by.role == "prefill":
        chunk = np.minimum(asked.prompt, by.token_budget)
        return model.watts(designs, Load.of(none, none, stages * chunk, asked.keys), busy)
    comes = asked.prompt if by.role == "mixed" else none
    tokens = np.minimum(comes * batch / np.maximum(asked.decodes, 1.0), stages * by.token_budget)
    return model.watts(designs, Load.of(batch, asked.context, tokens, asked.keys), 1.0)


def peak_share(model: CostModel, designs: Designs, asked: Requests, by: Terms, rate: Floats) -> Floats:
    """Share of the time (n,) that the FLOPs of `rate` (n,) requests/s take on the fullest stage, at the best
    rates of products that were measured on its device.

    A step of few sequences hides its arithmetic behind the reading of weights, so a line through it leaves
    that out. The LM head counts on the fullest stage, at the slower rate of bf16.
    """
    decodes, prompt = (
        (0.0 if by.role == "prefill" else asked.decodes),
        (0.0 if by.role == "decode" else asked.prompt),
    )
    compute_s = model.peaks_s(designs, Load.of(decodes, asked.context, prompt, asked.keys), reached=True)[0]
    flops = 2.0 * model.card.vocab * model.card.hidden * decodes * by.computed
    slowest = min(Chip.of(node.device).most("bf16") for node, _ in model.by_class(designs))
    return np.asarray(rate * (compute_s + flops / designs.tp / slowest))
