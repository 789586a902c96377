"""Steps of a plan's servers: the linear ones of the cost model, on the plan's own level.

The shape is the cost model's at the load that the plan gives a server; its decode part is scaled to
`step.decode_s`, its prompt part to `step.prefill_s`. So a plan by another calibration, with weights in host
memory or with drafts keeps its level. The sequences that `decode_s` stands for follow from the plan, too: at
λ requests/s, each with K decode steps and w seconds of its prompt beside what steps take anyway,

    T = decode_s / (1 - λ w)        B = λ K T

Steps without prompts are the cost model's own at every number of sequences (few read few experts), in steps
with prompts the straight line is kept: those read all experts anyway.
Error: none at the plan's load; off it that of the line in steps with prompts, and in all steps of plans with
drafts or with weights outside the GPUs, whose own shape a plan does not say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Designs, StepTimes
from planner.operating.requests import Requests
from planner.operating.steps import prompt_steps, steps_for
from planner.plans.schema import Replica
from planner.queueing import Role

TRIES = 4
"""Times B is put into the step that it follows from: it moves by less than a per cent after that."""


@dataclass(frozen=True)
class Leveled:
    """A server's step, the seconds of one with the prompts that come beside, T (0: nobody decodes), and how
    many times the cost model's decode part the plan's is."""

    step: StepTimes
    mean_s: float
    decode_level: float = 1.0


def leveled(
    replica: Replica, model: CostModel, designs: Designs, asked: Requests, rate_rps: float, budget: int
) -> Leveled:
    """The step of one server of `replica`, to which `rate_rps` requests/s like `asked` come."""
    level = _prompt_level(replica, model, designs, asked, budget)
    if replica.role == "prefill" or float(asked.decodes[0]) == 0:
        return Leveled(_scaled(prompt_steps(model, designs, asked, budget), level, level), 0.0)
    decode_s, steps = replica.step.decode_s, float(asked.decodes[0])
    role: Role = "mixed" if replica.role == "mixed" else "decode"
    mean_s = decode_s
    for _ in range(TRIES):
        batch = np.array([max(rate_rps * steps * mean_s, 1e-3)])
        step = _as_drafted(steps_for(role, model, designs, asked, batch, float(budget)), asked)
        work_s = level * _prompt_s(step, asked) if replica.role == "mixed" else 0.0
        mean_s = decode_s / max(1 - rate_rps * work_s, 0.05)
    each = step.sequence_s + step.context_s_per_token * asked.context
    alone_s = float((step.t0_s + batch * each)[0])
    decode_level = decode_s / alone_s if decode_s > 0 else 1.0
    return Leveled(_scaled(step, decode_level, level), mean_s, decode_level)


KNOTS = 24
"""Numbers of sequences at which the cost model is asked; between them its steps are nearly straight."""


def alone_s(
    own: Leveled, model: CostModel, designs: Designs, asked: Requests, most: float
) -> tuple[float, ...]:
    """Seconds of steps without prompts with 0, 1, … `most` sequences, without those of their context, which
    are `own.step`'s."""
    top = math.ceil(most) + 1
    knots = np.unique(np.round(np.geomspace(1, top, KNOTS)))
    many, context = designs.take(np.zeros(len(knots), dtype=np.int64)), float(asked.context[0])
    whole_s = own.decode_level * model.step_s(many, Load.of(knots, context))
    base_s = np.maximum(whole_s - float(own.step.context_s_per_token[0]) * knots * context, 0.0)
    return tuple(np.interp(np.arange(top + 1), knots, base_s).tolist())


def _as_drafted(step: StepTimes, asked: Requests) -> StepTimes:
    """Without what `decoding_steps` adds for tokens that formulas do not see: here contexts grow by all."""
    beyond = asked.context - asked.in_steps.context
    return replace(step, sequence_s=np.maximum(step.sequence_s - step.context_s_per_token * beyond, 0.0))


def _prompt_s(step: StepTimes, asked: Requests) -> float:
    """Seconds of the mean prompt beside t0."""
    tokens = asked.mean(asked.new * (step.prefill_s_per_token + step.prefill_s_per_pair * asked.keys))
    return float(tokens[0])


def _prompt_level(
    replica: Replica, model: CostModel, designs: Designs, asked: Requests, budget: int
) -> float:
    """The plan's seconds of the mean prompt over the cost model's."""
    new = float(asked.prompt[0])
    chunks, pp = np.ceil(new / budget), int(model.concurrent(designs)[0])
    each = model.step_s(designs, Load.of(0.0, 0.0, pp * new / chunks, float(asked.keys[0])))
    alone = float((chunks + pp - 1) / pp * each[0])
    return replica.step.prefill_s / alone if replica.step.prefill_s > 0 else 1.0


def _scaled(step: StepTimes, decode: float, prompt: float) -> StepTimes:
    """With its decode part and its prompt part so many times as long; t0 goes with the decode part."""
    return replace(
        step,
        t0_s=step.t0_s * decode,
        sequence_s=step.sequence_s * decode,
        context_s_per_token=step.context_s_per_token * decode,
        prefill_s_per_token=step.prefill_s_per_token * prompt,
        prefill_s_per_pair=step.prefill_s_per_pair * prompt,
    )
