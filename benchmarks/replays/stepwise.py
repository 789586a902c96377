"""A server by any rules, one step at a time: a policy says what is in a step and how long it lasts.

`Server` takes the steps in which nothing changes at once, by the rules that engines have. Here every step is
made, and every rule can be another one: `Chunked` states `Server`'s own as plainly as they can be said (tests
hold both against each other), and other simulators' rules are policies like it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from planner.simulate.requests import Clock, Ledger, Role, Settings, StepCosts


@dataclass(frozen=True)
class Batch:
    """What is in a step: prompts with the tokens of each that are computed, and sequences that make one
    token."""

    prompts: list[tuple[int, int]]
    decodes: list[int]


class Policy(Protocol):
    """Rules of a server."""

    def choose(self, server: Stepwise) -> Batch:
        """The next step; of requests that it lets in, `server.enter` is told."""

    def seconds(self, server: Stepwise, batch: Batch) -> float:
        """How long it lasts."""

    def after(self, server: Stepwise, batch: Batch) -> None:
        """After a step whose finished requests have left: who loses its place."""


@dataclass
class Stepwise(Clock):
    """A server. `waiting`: requests in order of arrival that hold no room. `running`: those that do, in order
    of entry, with the tokens held. `left`: prompt tokens to be computed; `made`: tokens of the answer."""

    policy: Policy
    ledger: Ledger
    role: Role = "mixed"
    waiting: list[int] = field(default_factory=list)
    running: dict[int, float] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)

    @property
    def queue(self) -> int:
        return len(self.waiting)

    def seen(self, at_s: float) -> tuple[int, float]:
        return len(self.running), self.held

    def take(self, request: int, at_s: float) -> None:
        if self.due_s == math.inf:
            self.now_s = self.due_s = max(self.now_s, at_s)
        self.waiting.append(request)
        comes_computed = self.role == "decode" or self.ends_here(request) is None
        self.left[request] = 0 if comes_computed else self.ledger.new[request]
        self.made[request] = int(comes_computed)

    def ends_here(self, request: int) -> bool | None:
        """Whether a request's tokens are made where its prompt is; None: that was computed elsewhere."""
        return self.role == "mixed"

    def leave_all(self) -> list[int]:
        lost = [*self.running, *self.waiting]
        for each in (self.running, self.waiting, self.left, self.made):
            each.clear()
        self.held, self.inside, self.due_s = 0.0, 0, math.inf
        return lost

    def enter(self, request: int, tokens: float) -> None:
        """A waiting request gets room for so many tokens."""
        self.waiting.remove(request)
        self.running[request] = 0.0
        if math.isnan(self.ledger.entry_s[request]):
            self.ledger.entry_s[request] = self.now_s
        self.hold(request, tokens)

    def hold(self, request: int, tokens: float) -> None:
        """So many more."""
        self.running[request] += tokens
        self.held += tokens

    def put_back(self, request: int, left: int) -> None:
        """A running request loses its room and is the first to wait; `left` prompt tokens are to be computed
        again."""
        self.held -= self.running.pop(request)
        self.left[request] = left
        self.waiting.insert(0, request)
        self.preemptions += 1
        self.ledger.preempted[request] += 1

    def step(self) -> list[int]:
        batch = self.policy.choose(self)
        if not batch.prompts and not batch.decodes:
            self.due_s = math.inf  # until something comes
            return []
        seconds = self.policy.seconds(self, batch)
        self.now_s += seconds
        self.busy_s += seconds
        self.steps += 1
        finished = [*self._decoded(batch.decodes), *self._computed(batch.prompts)]
        self.held_peak = max(self.held_peak, self.held)
        self.policy.after(self, batch)
        self.due_s = self.now_s if self.running or self.waiting else math.inf
        return finished

    def _decoded(self, requests: Iterable[int]) -> Iterable[int]:
        for request in requests:
            self.made[request] += 1
            if self.made[request] >= self.ledger.osl[request]:
                yield self._leave(request)

    def _computed(self, prompts: Iterable[tuple[int, int]]) -> Iterable[int]:
        book = self.ledger
        for request, tokens in prompts:
            self.left[request] -= tokens
            if self.left[request]:
                continue
            self.made[request] += 1
            if math.isnan(book.first_s[request]):
                book.first_s[request] = self.now_s
            if not self.ends_here(request) or self.made[request] >= book.osl[request]:
                yield self._leave(request)

    def _leave(self, request: int) -> int:
        self.held -= self.running.pop(request)
        del self.left[request], self.made[request]
        self.inside -= 1
        self.ledger.end_s[request] = self.now_s
        return request


@dataclass(frozen=True)
class Chunked:
    """`Server`'s rules: docstring of `benchmarks.replays.servers`. No pipelines, drafts or reserved room."""

    costs: StepCosts
    rules: Settings

    def choose(self, server: Stepwise) -> Batch:
        book, prefill = server.ledger, server.role == "prefill"
        room = self.rules.token_budget
        while server.waiting and len(server.running) < self.rules.max_sequences:
            request = server.waiting[0]
            need = book.isl[request] + server.made[request]
            if server.running and server.held + need + 1 > self.rules.kv_tokens:
                break
            room -= book.new[request]
            if prefill and server.running and room < 0:
                break
            server.enter(request, need)
        decodes = [i for i in server.running if not server.left[i]]
        budget, prompts = self.rules.token_budget - len(decodes), []
        for request in server.running:
            left = server.left[request]
            if left and budget > 0:
                chunk = left if prefill else min(left, budget)
                prompts.append((request, chunk))
                budget -= chunk
        return Batch(prompts, decodes)

    def seconds(self, server: Stepwise, batch: Batch) -> float:
        c, book = self.costs, server.ledger
        context = sum(book.isl[i] + server.made[i] for i in batch.decodes)
        seconds = c.t0_s + c.sequence_s * len(batch.decodes) + c.context_s * context
        for request, chunk in batch.prompts:
            there = book.isl[request] + server.made[request] - server.left[request]
            seconds += c.token_s * chunk + c.pair_s * chunk * (there + (chunk + 1) / 2)
            if server.role == "prefill":
                seconds += c.t0_s * (math.ceil(chunk / self.rules.token_budget) - 1)
        return seconds

    def after(self, server: Stepwise, batch: Batch) -> None:
        """Everyone that made a token holds one more; who entered last goes where that is too much."""
        made = [*batch.decodes, *(i for i, _ in batch.prompts if not server.left.get(i, 1))]
        for request in made:
            if request in server.running:
                server.hold(request, 1)
        server.held_peak = max(server.held_peak, server.held)
        while server.held > self.rules.kv_tokens and len(server.running) > 1:
            last = next(reversed(server.running))
            whole = server.ledger.isl[last] + server.made[last]
            server.put_back(last, whole)
