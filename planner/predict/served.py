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
from planner.cost.tuning import Tuning
from planner.designs.shape import Floats, StepTimes
from planner.operating.requests import Terms
from planner.operating.steps import batch_at, batch_of, prompt_steps, steps_for
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

    @classmethod
    def of(cls, tuning: Tuning) -> Host:
        return cls(*(getattr(tuning, field.name) for field in fields(Host)))

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
        return _open(cost, load, places, by)
    loop, host = ClosedLoop(load, places, by), Host.of(cost.tuning)
    batch = np.minimum(load.sequences, places.capacity)
    for _ in range(ROUNDS):
        step = steps_of(cost, load, batch, by)
        at = loop.without_crowds(step, host)
        before, batch = batch, loop.next_batch(at, step, batch)
        if np.allclose(batch, before, rtol=SETTLED):
            break
    return Operated(loop.with_crowds(at, Work(step, loop.crowded_s(cost, step, before)), host), before)


def _open(cost: CostModel, load: Rows, places: Places, by: Terms) -> Operated:
    """Requests that come at random: as a plan asks at the rate that it gives a replica."""
    batch = 0.0 * load.rate
    if by.role != "prefill":
        batch = batch_of(cost, load.designs, load.asked, load.rate, by)
    step = steps_of(cost, load, batch, by)
    rate = load.rate[:, None] * load.asked.share
    return Operated(arriving(cost, step, load.asked, rate, by, places.capacity), batch)


def steps_of(cost: CostModel, load: Rows, batch: Floats, by: Terms) -> StepTimes:
    """Step times (n,) where `batch` sequences decode."""
    if by.role == "prefill":
        return prompt_steps(cost, load.designs, load.asked, by.token_budget)
    return steps_for(by.role, cost, load.designs, load.asked, batch, by.token_budget)


@dataclass(frozen=True)
class Work:
    """Steps of a server, and seconds (n,) that a prompt of a crowd takes, which fills the steps."""

    step: StepTimes
    crowded_s: Floats


@dataclass(frozen=True)
class ClosedLoop:
    """What servers do whose requests in flight are told. Crowds move time from tokens to the first one, so
    neither rates nor batches hang on them."""

    load: Rows
    places: Places
    by: Terms

    @property
    def inside(self) -> Floats:
        """Sequences (n,) in a server."""
        return np.minimum(self.load.sequences, self.places.capacity)

    @property
    def at_once(self) -> Floats:
        """Prompts (n,) that a step takes of a crowd of all inside; a part of one where it takes less."""
        return np.minimum(self.by.token_budget / self.load.asked.prompt, np.maximum(self.inside, 1.0))

    def crowded_s(self, cost: CostModel, step: StepTimes, batch: Floats) -> Floats:
        """Seconds (n,) that a prompt of a crowd adds to `step`, made linear where `batch` sequences decode; 0
        where there is no crowd."""
        asked, designs = self.load.asked, self.load.designs
        decoding, none_s = np.zeros((2, len(designs)))
        if self.by.role == "decode" or not (self.load.wave.any() or self.load.alike.any()):
            return none_s
        if self.by.role == "mixed":
            decoding = np.maximum(batch, 1 / designs.attn_dp)
            own_s = step.sequence_s + step.context_s_per_token * asked.in_steps.context
            none_s = step.t0_s + decoding * own_s
        prompts = self.at_once * cost.concurrent(designs)
        full = Load.of(decoding, asked.context, prompts * asked.prompt, asked.keys)
        return (cost.step_s(designs, full) - none_s) / prompts

    def without_crowds(self, step: StepTimes, host: Host) -> Estimate:
        """Times in steady state of unlike requests, with the host's share; TPOT is that of a decode step."""
        asked, load = self.load.asked, self.load
        started = host.started_s(asked.isl)
        lengths = (asked.new, asked.isl, asked.in_steps.osl)
        at = closed_loop(
            *(step, *lengths, asked.share, load.sequences, self.by.token_budget),
            role=self.by.role,
            max_sequences=self.places.capacity,
            prompt_places=self.places.prompt,
            beside_s=0.0 if self.by.role == "decode" else np.asarray(asked.mean(started)),
            computed=self.by.computed,
        )
        return at if self.by.role == "decode" else replace(at, ttft_s=at.ttft_s + started)

    def next_batch(self, at: Estimate, step: StepTimes, batch: Floats) -> Floats:
        """Sequences (n,) that decode at once where `at` is what comes of steps made linear at `batch`."""
        if self.by.role == "prefill":
            return batch
        found = batch_at(step, self.load.asked, at.rate, self.by.role)
        return np.minimum(found, self.load.sequences)

    def with_crowds(self, at: Estimate, work: Work, host: Host) -> Estimate:
        """`at` where some come at once or follow each other, and are held back; TPOT is that of a token."""
        load, asked = self.load, self.load.asked
        ttft, tpot = at.ttft_s, at.tpot_s
        if self.by.role != "decode":
            one_s = asked.mean(prefill_s(work.step, asked.new, asked.isl)) + host.arrival_s
            crowd = (self.inside + np.maximum(self.at_once, 1.0)) / 2
            crowd_s = crowd * (work.crowded_s + host.arrival_s)
            wave = load.wave * host.together / (1 + np.asarray(host.together))
            waited = (np.maximum(wave, load.alike) * np.maximum(crowd_s - one_s, 0.0))[:, None]
            if self.by.role == "mixed":
                waited = waited + (load.train * one_s)[:, None]
                tpot, waited = self._moved(at, work.step, waited)
                waited = waited + load.waits[:, None] * tpot
            ttft = ttft + waited
        tpot = tpot / np.asarray(asked.emitted)
        return replace(at, ttft_s=ttft, tpot_s=tpot, mean_tpot_s=tpot)

    def _moved(self, at: Estimate, step: StepTimes, waited: Floats) -> tuple[Floats, Floats]:
        """TPOT, and what is waited for the first token, (n, w) each: as much of `waited` as tokens have that
        meet no prompts, a share `SHORTEST` of their time left."""
        asked, osl = self.load.asked, self.load.asked.in_steps.osl
        steps = np.maximum(osl - 1, 1.0)
        found = batch_at(step, asked, at.rate, self.by.role)
        decoding = np.clip(found, 1.0, np.maximum(self.inside, 1.0))[:, None]
        bare = step.t0_s[:, None] + decoding * decode_s(step, asked.isl, osl) / steps
        least = np.maximum(SHORTEST * at.tpot_s, np.minimum(bare, at.tpot_s))
        tpot = np.maximum(at.tpot_s - waited / steps, least)
        return tpot, (at.tpot_s - tpot) * steps
