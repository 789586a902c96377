"""What is offered of one engine on one node class under one workload: the mix of requests, the promise, the
designs with the room of each, and what all points of theirs share. Shapes: n designs x w buckets.
`Made`: a setup and what is offered of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from planner.candidates.cache import ROUNDING, SPREADS, lengths_of
from planner.candidates.candidate import Key
from planner.candidates.idle_cache import Keep, Place
from planner.candidates.mix import Mix, Promise
from planner.cost.bands import of_role
from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats, Ints, StepTimes
from planner.operating import times
from planner.operating.requests import Terms
from planner.operating.room import held_tokens, unfilled_tokens
from planner.operating.steps import prompt_steps
from planner.queueing import Estimate
from planner.queueing.spare import deviations

Role = Literal["mixed", "prefill", "decode"]

BUSIEST = 0.98
"""Share of its time that a server which only prefills is busy at most, unless told: a rule of operation."""


@dataclass(frozen=True)
class Setup:
    """Designs of one engine on one node class under one workload, with the KV room of each (bytes per GPU).

    `risk_z`: deviations that --risk asks for, 0 at the median.
    """

    model: CostModel
    designs: Designs
    memory: Memory
    mix: Mix
    promise: Promise
    token_budget: int
    reserves: bool  # the engine reserves KV for the longest output
    risk_z: float = 0.0
    keep: Keep | None = None
    place: Place | None = None  # beside each GPU, of `keep`
    left_out: int = 0  # designs that the engine accepts and that are not offered
    busiest: float = BUSIEST  # share of its time that a server which only prefills is busy at most
    most_sequences: float = np.inf  # that decode at once on one server, where its engine is told
    queue_z: float | None = None  # deviations by which queues are kept; None: as many as of all else

    def only(self, index: Ints, share: Floats | None = None) -> Setup:
        """This setup with the designs of `index` alone, under the mix of `share` (w,) where it is given."""
        mix = self.mix if share is None else replace(self.mix, share=share)
        return replace(self, designs=self.designs.take(index), memory=self.memory.take(index), mix=mix)

    def one(self, i: int, share: Floats) -> Setup:
        """This setup with design `i` alone, under the mix of `share` (w,): made once, for all the loads that
        it is asked for."""
        key = i, share.tobytes()
        if key not in self._ones:
            self._ones[key] = self.only(np.array([i]), share)
        return self._ones[key]

    @cached_property
    def _ones(self) -> dict[tuple[int, bytes], Setup]:
        return {}

    @cached_property
    def sent_bytes(self) -> Floats:
        """Bytes of a prompt's cache that go from prefill to decode, (w,)."""
        return self.model.transfer_bytes(self.mix.isl)

    @cached_property
    def prefills(self) -> PrefillParts:
        """Steps and work of all designs as servers that only prefill."""
        return prefill_parts(self, np.arange(len(self.designs)))

    def does(self, role: Role) -> Role:
        """What a server in a role spends its time on: answers of one token leave nothing to decode."""
        return "prefill" if self.mix.steps == 0 else role

    def terms(self, role: Role) -> Terms:
        """How servers in a role are asked for their times."""
        budget, promise = float(self.token_budget), self.promise
        return Terms(role, budget, promise.percentile, promise.loop, self.model.computed)

    @property
    def decoded(self) -> Floats:
        """Tokens that the decode steps of a request compute, drafted ones with them, (w,)."""
        return self.mix.decodes * self.model.computed

    def caution(self, role: Role) -> Floats:
        """Factors on predicted TTFT and TPOT of each design in a role, shape (2, n)."""
        return self._cautions[self.does(role)]

    @cached_property
    def _cautions(self) -> dict[Role, Floats]:
        sigmas, roles = self.model.sigmas(self.designs), get_args(Role)
        return {role: np.exp(self.risk_z * of_role(sigmas, role)) for role in roles}

    @cached_property
    def slowest(self) -> Floats:
        """Times as long as predicted that prompts take at the edge of the risk, (n,)."""
        z = self.risk_z if self.queue_z is None else self.queue_z
        return np.asarray(np.exp(z * self.model.sigma_prompts(self.designs)))

    @cached_property
    def prompt_bytes(self) -> Floats:
        """KV cache of a whole prompt of each bucket on the fullest stage of each design, (n, w)."""
        return self._cache_bytes(self.mix.own)

    @cached_property
    def held_bytes(self) -> Floats:
        """KV cache of a decoding sequence, (n, w): its prompt and half of its output; all it could need where
        the engine reserves."""
        return self._cache_bytes(self.held_each)

    @cached_property
    def grown_bytes(self) -> Floats:
        """What a sequence holds more at its end than at its start, (n, w); nothing where the engine
        reserves."""
        if self.reserves:
            return np.zeros_like(self.held_bytes)
        return self._cache_bytes(self.mix.own + self.mix.osl) - self.prompt_bytes

    @cached_property
    def holds(self) -> dict[Role, NDArray[np.bool_]]:
        """Whether a design has room for one whole request of each bucket, its shared prefix included, (n, w);
        for its prompt where it only prefills."""
        mix, room = self.mix, (self.memory.kv_bytes - self.shared_bytes)[:, None] * (1 + ROUNDING)
        isl = mix.isl if self.keep is None else mix.own
        prompt = self._cache_bytes(isl) <= room
        whole = self._cache_bytes(isl + (mix.held if self.reserves else mix.osl)) <= room
        return {"prefill": prompt, "mixed": whole, "decode": whole}

    @cached_property
    def fitting(self) -> Ints:
        """Designs with room for a prompt of some bucket."""
        return np.flatnonzero(self.holds["prefill"].any(axis=1)).astype(np.int64)

    @cached_property
    def held_each(self) -> Floats:
        """Tokens of `held_bytes`, (w,), with those that the last block leaves empty."""
        return held_tokens(self.model.engine, self.mix.own, self.mix.osl, self.mix.held)

    @property
    def unfilled(self) -> float:
        """Tokens that the last block of a sequence leaves empty on average."""
        return unfilled_tokens(self.model.engine)

    @cached_property
    def held_tokens(self) -> float:
        """Mean tokens of cache that a decoding sequence holds."""
        weight = self.mix.share * np.maximum(self.mix.osl - 1, 1e-9)
        return float(weight @ self.held_each) / float(weight.sum())

    @cached_property
    def deviations(self) -> Floats:
        """How many standard deviations of what is held are left free, at each of SPREADS."""
        return deviations(lengths_of(self), SPREADS, self.promise.loop, self.promise.percentile)

    @cached_property
    def idle_byte_s(self) -> Floats:
        """Byte-seconds of idle cache on a GPU that one request leaves, (n, w)."""
        if self.keep is None:
            return np.zeros((len(self.designs), len(self.mix.isl)))
        return self.idle_token_bytes * self.keep.token_s

    @cached_property
    def idle_token_bytes(self) -> Floats:
        """Bytes on a GPU of a token of a whole context, (n, w)."""
        whole = self.mix.isl + self.mix.osl
        return self._cache_bytes(whole) / whole

    @cached_property
    def shared_bytes(self) -> Floats:
        """Shared beginnings on a GPU, (n,)."""
        if self.keep is None or not self.keep.fixed_tokens:
            return np.zeros(len(self.designs))
        return np.asarray(self.keep.fixed_tokens * self.idle_token_bytes.max(axis=1))

    @cached_property
    def loading_s(self) -> Floats:
        """Seconds that a prompt waits for what is found of it, (n, w)."""
        if self.keep is None or self.place is None:
            return np.zeros((len(self.designs), len(self.mix.isl)))
        found = self.keep.found - np.minimum(self.keep.found, self.keep.shared)
        return np.asarray(self.idle_token_bytes * found / self.place.read_bytes_per_s)

    @cached_property
    def beside(self) -> Floats:
        """Shares of the place beside a GPU that one request/s fills: of its room, of its reading and of its
        writing, (3, n, w); none without a place."""
        if self.keep is None or self.place is None:
            return np.zeros((0, len(self.designs), len(self.mix.isl)))
        written = self.idle_token_bytes * (self.mix.new + self.mix.osl) / self.place.write_bytes_per_s
        return np.stack([self.idle_byte_s / self.place.bytes, self.loading_s, written])

    def _cache_bytes(self, tokens: Floats) -> Floats:
        return self.model.cache_bytes(self.designs, tokens, self.memory.stage)


@dataclass(frozen=True)
class PrefillParts:
    """What prefill servers of the designs `index` (n,) take at any load: their step, and the time that one
    request/s of each bucket alone fills, (n, w)."""

    index: Ints
    step: StepTimes
    work_s: Floats

    def at(self, which: Ints) -> tuple[StepTimes, Floats]:
        """Steps and work of the designs `which` (m,) among these."""
        return StepTimes(*(x[which] for x in vars(self.step).values())), self.work_s[which]


def prefill_parts(s: Setup, index: Ints) -> PrefillParts:
    """Steps and work of servers that only prefill.

    Long prompts take several steps of the token budget: what a request/s of each bucket alone fills is the
    queueing formula's to say.
    """
    step = prompt_steps(s.model, s.designs.take(index), s.mix.requests, s.token_budget)
    one, terms, works = np.ones((len(index), 1)), s.terms("prefill"), dict[tuple[float, float], Floats]()
    prompts = list(zip(s.mix.new.tolist(), s.mix.isl.tolist(), strict=True))
    for w, prompt in enumerate(prompts):
        if prompt not in works:
            works[prompt] = times.arriving(s.model, step, s.mix.requests.only(w), one, terms).utilisation
    return PrefillParts(index, step, np.stack([works[prompt] for prompt in prompts], axis=1))


def predict(s: Setup, step: StepTimes, rate: Floats, role: Role, places: Floats | float = np.inf) -> Estimate:
    """TTFT and TPOT of servers at `rate` (m, w) requests/s, the engine's own seconds a request included, and
    the wait for one of their `places` (m,)."""
    return times.arriving(s.model, step, s.mix.requests, rate, s.terms(role), places)


def cautious_ttft_s(
    s: Setup, index: Ints, step: StepTimes, rate: Floats, ttft_s: Floats, role: Role
) -> Floats:
    """TTFT (m, w) that the limit is kept with: `ttft_s` with its caution, but of servers that only prefill at
    `rate` (m, w) requests/s at random no less than of servers whose prompts take `slowest` times as long.

    All its seconds c times as long are c times those of the server at c times the rate. Near saturation a
    queue grows by far more than prompts do, which no factor on TTFT says: at 98 % of the time prompts that
    take 2 % longer than predicted have a queue without end. So it is this that says how busy a server may be.
    """
    cautious = s.caution(role)[0, index, None] * ttft_s
    if role != "prefill" or s.promise.loop == "closed" or np.isinf(s.promise.ttft_s):
        return np.asarray(cautious)
    slower = s.slowest[index, None]
    return np.maximum(cautious, slower * predict(s, step, slower * rate, role).ttft_s)


@dataclass(frozen=True)
class Made:
    """What a kind of replica (`planner/replicas`) or a variant of one (`planner/variants`) makes: a setup
    under its key, on the class `node` (None: stages on several), and `parts`: indices of designs, each with
    the roles in which these are offered. `considered`: designs that were looked at for it."""

    key: Key
    setup: Setup
    node: NodeClass | None
    parts: tuple[tuple[Ints, Sequence[Role]], ...]
    considered: int = 0

    @staticmethod
    def of(key: Key, s: Setup, node: NodeClass | None, roles: Sequence[Role]) -> Made:
        """All designs of a setup that have room, in `roles`."""
        return Made(key, s, node, ((s.fitting, roles),), len(s.designs))

    def only(self, roles: Sequence[Role]) -> Made:
        """This setup with its parts in those roles alone that are among `roles`."""
        left = ((index, [r for r in own if r in roles]) for index, own in self.parts)
        return replace(self, parts=tuple((index, own) for index, own in left if own))

    @property
    def roles(self) -> Sequence[Role]:
        """Every role that some of its designs are offered in."""
        return list(dict.fromkeys(role for _, own in self.parts for role in own))

    @property
    def plain(self) -> bool:
        """Whether it is what its kind of replica is without variants."""
        return self.key == Key(self.key.where, self.key.engine, self.key.kind)
