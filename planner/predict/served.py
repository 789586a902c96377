"""What servers answer under the loads of `planner/predict/loads.py`, as arrays of rows.

A closed loop: N requests are always in flight, a new one starts as soon as one ends, and those that find no
room in the KV cache wait. A benchmark's has a first wave, in which all come at once: `together` says how many
of all requests are of it. Of a crowd of M, of which g fit one step, a prompt has its first token when its
step ends: after (M + g) / 2 prompts on average, each of which takes a g-th of a step that g fill, as the host
launches a step once for all of them. Its TTFT is longer by what its TPOT is shorter, as the crowd decodes
without meeting prompts later on.

Where lengths are alike and the engine computes prompts before it decodes, all stay one crowd for ever: nobody
decodes before the last prompt is done, so all end at once. Where it computes them beside decode steps, all
end one step after another, and each one's successor finds the prompt of the last one's successor in work:
that of one other is waited for. A row may say that it means the steady state, as plans do: then nobody comes
in a first wave. An open loop: requests come at random, so many a second.

Where a decode step emits e tokens of a sequence (speculative decoding), a request takes (osl - 1) / e of them
at the same contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Floats, StepTimes
from planner.operating.requests import Terms
from planner.operating.steps import batch_at, batch_of, decoding_steps, prompt_steps
from planner.operating.times import arriving
from planner.predict.loads import Places, Rows
from planner.queueing import Estimate, closed_loop, decode_s, prefill_s
from planner.queueing.load import column

ROUNDS = 12
"""At most, of finding the batch at which the step is made linear."""

SETTLED = 1e-4
"""Relative change of that batch at which the search ends: nearer changes no time that is read."""

SHORTEST = 0.3
"""Share of the mean TPOT that is left where all others' prompts are done before the first token."""


@dataclass(frozen=True)
class Host:
    """The figures of `Tuning` that act beside the step, shape (n,) or scalars."""

    request_s: Floats | float
    text_token_s: Floats | float
    arrival_s: Floats | float
    together: Floats | float

    def started_s(self, isl: Floats) -> Floats:
        """Seconds (n, w) that the host adds to the first token of prompts of `isl` tokens (n, w)."""
        return column(self.request_s) + column(self.text_token_s) * isl


@dataclass(frozen=True)
class Operated:
    """What a server answers, and the sequences (n,) at which its step was made linear."""

    estimate: Estimate
    batch: Floats


def operate(cost: CostModel, load: Rows, places: Places, by: Terms) -> Operated:
    """What comes of each row's load: the step is made linear at the batch that results."""
    if by.loop == "open":
        return _open(cost, load, by)
    own = cost.tuning
    host = Host(*(getattr(own, field.name) for field in fields(Host)))
    batch = np.minimum(load.sequences, places.capacity)
    for _ in range(ROUNDS):
        work = Work.of(cost, load, places, batch, by)
        at = looped(work, load, places, by, host)
        before, batch = batch, next_batch(at, work.step, batch, load, by)
        if np.allclose(batch, before, rtol=SETTLED):
            break
    return Operated(at, before)


def _open(cost: CostModel, load: Rows, by: Terms) -> Operated:
    """Requests that come at random: as a plan asks at the rate that it gives a replica."""
    batch = 0.0 * load.rate
    if by.role != "prefill":
        batch = batch_of(cost, load.designs, load.asked, load.rate, by)
    step = steps_of(cost, load, batch, by)
    rate = load.rate[:, None] * load.asked.share
    return Operated(arriving(cost, step, load.asked, rate, by), batch)


def steps_of(cost: CostModel, load: Rows, batch: Floats, by: Terms) -> StepTimes:
    """Step times (n,) where `batch` sequences decode."""
    if by.role == "prefill":
        return prompt_steps(cost, load.designs, load.asked, by.token_budget)
    return decoding_steps(cost, load.designs, load.asked, batch, by.token_budget)


def met(load: Rows, places: Places, by: Terms) -> tuple[Floats, Floats]:
    """Sequences in a server of a closed loop, and prompts that a step takes of a crowd of them (a part of one
    where it takes less), shape (n,) each."""
    inside = np.minimum(load.sequences, places.capacity)
    return inside, np.minimum(by.token_budget / load.asked.prompt, np.maximum(inside, 1.0))


@dataclass(frozen=True)
class Work:
    """Steps of a server, and seconds (n,) that a prompt of a crowd takes, which fills the steps."""

    step: StepTimes
    crowded_s: Floats

    @classmethod
    def of(cls, cost: CostModel, load: Rows, places: Places, batch: Floats, by: Terms) -> Work:
        """Where `batch` sequences decode."""
        step, asked, designs = steps_of(cost, load, batch, by), load.asked, load.designs
        if by.role == "decode":
            return cls(step, np.zeros(len(designs)))
        prompts = met(load, places, by)[1] * cost.concurrent(designs)
        decoding = np.maximum(batch, 1 / designs.attn_dp) if by.role == "mixed" else 0.0
        full = Load.of(decoding, asked.context, prompts * asked.prompt, asked.keys)
        none_s = cost.step_s(designs, replace(full, tokens=0.0 * prompts)) if by.role == "mixed" else 0.0
        return cls(step, (cost.step_s(designs, full) - none_s) / prompts)


def next_batch(at: Estimate, step: StepTimes, batch: Floats, load: Rows, by: Terms) -> Floats:
    """Sequences (n,) that decode at once where that is what comes of steps made linear at `batch`."""
    if by.role == "prefill":
        return batch
    return np.minimum(batch_at(step, load.asked, at.rate, by.role), load.sequences)


def looped(work: Work, load: Rows, places: Places, by: Terms, host: Host) -> Estimate:
    """Times of a closed loop at given step times, the host's share and crowds included."""
    step, capacity = work.step, places.capacity
    asked, single = load.asked, load.asked.in_steps
    emitted, started = np.asarray(asked.emitted), host.started_s(asked.isl)
    lone = 0.0 if by.role == "decode" else np.asarray(asked.mean(started))
    at = closed_loop(
        *(step, asked.new, asked.isl, single.osl, asked.share, load.sequences, by.token_budget),
        role=by.role,
        max_sequences=capacity,
        prompt_places=places.prompt,
        beside_s=lone,
        computed=by.computed,
    )
    if by.role == "decode":
        return replace(at, tpot_s=at.tpot_s / emitted, mean_tpot_s=at.mean_tpot_s / emitted)
    inside, at_once = met(load, places, by)
    one = asked.mean(prefill_s(step, asked.new, asked.isl)) + host.arrival_s
    crowd = (inside + np.maximum(at_once, 1.0)) / 2 * (work.crowded_s + host.arrival_s)
    share = np.asarray(host.together / (1 + np.asarray(host.together))) * load.wave
    waited = (np.maximum(share, load.alike) * np.maximum(crowd - one, 0.0))[:, None]
    tpot = at.tpot_s
    if by.role == "mixed":
        waited = waited + (load.train * one)[:, None]
        steps = np.maximum(single.osl - 1, 1.0)
        decoding = np.clip(batch_at(step, asked, at.rate, by.role), 1.0, np.maximum(inside, 1.0))[:, None]
        bare = step.t0_s[:, None] + decoding * decode_s(step, asked.isl, single.osl) / steps
        tpot = np.maximum(tpot - waited / steps, np.maximum(SHORTEST * tpot, np.minimum(bare, tpot)))
        waited = (at.tpot_s - tpot) * steps
    held_back = load.waits[:, None] * tpot if by.role == "mixed" else 0.0
    ttft = at.ttft_s + started + waited + held_back
    return replace(at, ttft_s=ttft, tpot_s=tpot / emitted, mean_tpot_s=tpot / emitted)
