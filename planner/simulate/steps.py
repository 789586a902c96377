"""Steps of a plan's servers: the linear ones of the cost model, on the plan's own level.

The shape is the cost model's at the load that the plan gives a server; its decode part is scaled to
`step.decode_s`, its prompt part to `step.prefill_s`. So a plan by another calibration, with weights in host
memory or with drafts keeps its level. The line is through the sequences B = λ K T of the mean step T = t0 /
(1 - ρ), at λ requests/s of K decode steps; `decode_s` is the step of those that decode as the clock sees
them, who are more, as long steps are there for longer: as many as the queueing formulas say of these very
steps.

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
from planner.designs.shape import Designs, Floats, StepTimes
from planner.operating.requests import Requests, Terms
from planner.operating.steps import prompt_steps, steps_for
from planner.operating.times import arriving
from planner.plans.schema import Replica
from planner.queueing import Loop, Role
from planner.queueing import work_s as work_s_of

TRIES = 4
"""Times the batch is put into the step that it follows from: it moves by less than a per cent after that."""

LEVELS, PASSES, LEAST_LEVEL = 33, 4, 1e-3
"""Levels that are tried at once, how often between two of the last ones, and from which share of the highest
on: to 1e-5."""

LEAST_FREE = 1e-3
"""Of a server's time: plans state loads to four digits."""


@dataclass(frozen=True)
class Leveled:
    """A server's step, the seconds of the mean one with the prompts that come beside (0: nobody decodes),
    how many times the cost model's decode part the plan's is, and the sequences that decode as the clock sees
    them."""

    step: StepTimes
    mean_s: float
    decode_level: float = 1.0
    sequences: float = 0.0


def leveled(
    replica: Replica,
    model: CostModel,
    designs: Designs,
    asked: Requests,
    rate: Floats,
    budget: int,
    loop: Loop = "open",
) -> Leveled:
    """The step of one server of `replica`, to which `rate` (w,) requests/s like `asked` come."""
    prompts = _prompt_level(replica, model, designs, asked, budget)
    steps = float(asked.decodes[0])
    if replica.role == "prefill" or steps == 0:
        return Leveled(_scaled(prompt_steps(model, designs, asked, budget), prompts, prompts), 0.0)
    role: Role = "mixed" if replica.role == "mixed" else "decode"
    mean_s = decode_s = replica.step.decode_s
    for _ in range(TRIES):
        batch = np.array([max(float(rate.sum()) * steps * mean_s, 1e-3)])
        own = steps_for(role, model, designs, asked, batch, float(budget))
        server = _Server(model, asked, rate, Terms(role, float(budget), "mean", loop), own, prompts)
        level = server.level(decode_s) if decode_s > 0 else 1.0
        mean_s, sequences = server.at(level)
    return Leveled(_scaled(_as_drafted(own, asked), level, prompts), mean_s, level, sequences)


@dataclass(frozen=True)
class _Server:
    """One server at `rate` (w,), its `own` step by the cost model, and its `prompts` so many times as
    long."""

    model: CostModel
    asked: Requests
    rate: Floats
    terms: Terms
    own: StepTimes
    prompts: float

    def level(self, decode_s: float) -> float:
        """How many times as long its decode part is where a step of those that decode lasts `decode_s`: the
        longer, the more decode at once."""
        high = decode_s / float(self.own.t0_s[0])
        low = LEAST_LEVEL * high
        for _ in range(PASSES):
            tried = np.geomspace(low, high, LEVELS)
            longer = tried * self._alone_s(self._met(tried)) >= decode_s
            first = int(longer.argmax()) if longer.any() else LEVELS - 1
            low, high = float(tried[max(first - 1, 0)]), float(tried[first])
        return float(np.sqrt(low * high))

    def at(self, level: float) -> tuple[float, float]:
        """Seconds of the mean step, and sequences that decode as the clock sees them."""
        step, asked = _scaled(self.own, level, self.prompts), self.asked
        work_s = work_s_of(step, asked.new, asked.isl, asked.in_steps.osl, self.terms.role)
        free = 1 - float(self.rate.sum()) * float(asked.mean(work_s)[0])
        mean_s = float(step.t0_s[0]) / max(free, LEAST_FREE)
        met = float(self._met(np.array([level]))[0])
        return mean_s, met if np.isfinite(met) else float(self.rate.sum() * asked.decodes[0]) * mean_s

    def _met(self, levels: Floats) -> Floats:
        """Sequences that decode, by level, infinite where they are too many."""
        rate = np.broadcast_to(self.rate, (len(levels), len(self.rate)))
        step = _scaled(self.own, levels, self.prompts)
        step = StepTimes(*(np.broadcast_to(x, levels.shape) for x in vars(step).values()))
        return arriving(self.model, step, self.asked, rate, self.terms).sequences

    def _alone_s(self, sequences: Floats) -> Floats:
        """Seconds of a step without prompts, of the cost model's own."""
        each = self.own.sequence_s + self.own.context_s_per_token * self.asked.in_steps.context
        return np.asarray(self.own.t0_s + sequences * each)


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


def _prompt_level(
    replica: Replica, model: CostModel, designs: Designs, asked: Requests, budget: int
) -> float:
    """The plan's seconds of the mean prompt over the cost model's."""
    new = float(asked.prompt[0])
    chunks, pp = np.ceil(new / budget), int(model.concurrent(designs)[0])
    each = model.step_s(designs, Load.of(0.0, 0.0, pp * new / chunks, float(asked.keys[0])))
    alone = float((chunks + pp - 1) / pp * each[0])
    return replica.step.prefill_s / alone if replica.step.prefill_s > 0 else 1.0


def _scaled(step: StepTimes, decode: Floats | float, prompt: float) -> StepTimes:
    """With its decode part and its prompt part so many times as long; t0 goes with the decode part."""
    return replace(
        step,
        t0_s=step.t0_s * decode,
        sequence_s=step.sequence_s * decode,
        context_s_per_token=step.context_s_per_token * decode,
        prefill_s_per_token=step.prefill_s_per_token * prompt,
        prefill_s_per_pair=step.prefill_s_per_pair * prompt,
    )
