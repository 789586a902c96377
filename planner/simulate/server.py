"""One server of a replay: continuous batching with chunked prefill, in jumps while nothing changes.

All decoding sequences make one token a step. So a sequence that joins after step k with m tokens made has
made m + (s - k) after step s, whatever happens: it is stored as its `origin` k - m and ends after step origin
+ osl. A heap of those ends, the number of decoding sequences and the sum of their contexts are the whole
state, and a step costs O(1) however many sequences decode. While no prompt is in work and nothing enters or
ends, k steps last

    k·(t0 + sequence_s·n + context_s·context) + context_s·n·k·(k - 1)/2

because each adds n tokens of context, and are taken at once. A jump ends before the step in which a
sequence ends or the cache overflows (`due_s`); what comes before cuts it short at the end of a step. So
servers that nothing comes to cost nothing, however often something comes to others. With speculation a step
gives each sequence `emitted` tokens: `osl` counts steps then, cache and context grow by so much.

The rules in words, and others, one step at a time: `benchmarks.replays`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from planner.simulate.caches import PrefixCache
from planner.simulate.requests import (
    NO_JUMP,
    Clock,
    Ledger,
    Role,
    Settings,
    StepCosts,
    prompt_work,
    steps_s,
    steps_to_reach,
)


@dataclass(slots=True)
class Server(Clock):
    """A server, its queue and its batch."""

    costs: StepCosts
    rules: Settings
    ledger: Ledger
    role: Role = "mixed"
    emitted: float = 1.0
    cache: PrefixCache | None = None
    sequence_seconds: float = 0.0  # integral over time of the sequences in the batch
    in_step: tuple[int, float] = (0, 0)  # requests and KV tokens of the last step, with those that it ended
    decoding: int = 0  # sequences, and
    context: float = 0  # their tokens
    waiting: deque[int] = field(default_factory=deque)
    batch: dict[int, None] = field(default_factory=dict)  # requests in order of entry
    prompts: deque[list[int]] = field(
        default_factory=deque
    )  # [request, tokens left, tokens there], in order of entry
    origin: dict[int, int] = field(default_factory=dict)  # of decoding requests
    ends: list[tuple[int, int]] = field(default_factory=list)  # heap of (last step, request); may be stale
    kept: dict[int, int] = field(default_factory=dict)  # preempted request -> steps made before
    drain_s: dict[int, float] = field(default_factory=dict)  # time through the later pipeline stages
    blocked: bool = False  # the head of the queue has no room, until something leaves
    jump: tuple[int, float, float] = (0, 0.0, 0.0)  # steps until `due_s`, the first's seconds, growth
    grows: bool = True  # room is taken token by token
    round_tokens: int = 0  # of a round: a micro-batch of `token_budget` for each stage

    def __post_init__(self) -> None:
        self.grows = self.rules.reserved_osl is None
        self.round_tokens = int(self.rules.token_budget * self.costs.stages)

    @property
    def has_work(self) -> bool:
        return bool(self.batch or self.waiting)

    @property
    def queue(self) -> int:
        """Requests that wait."""
        return len(self.waiting)

    def seen(self, at_s: float) -> tuple[int, float]:
        """Requests in work and tokens held at that second, which is not after the next event."""
        self._advance(at_s)
        return self.in_step if self.now_s > at_s else (len(self.batch), self.held)

    def take(self, request: int, at_s: float) -> None:
        """A request arrives; an idle server wakes up. Whoever sends it counts it in `inside`."""
        if not self.has_work:
            self.now_s = max(self.now_s, at_s)
        if not (self.waiting and self.blocked):
            self._advance(at_s)
            self.jump, self.due_s = NO_JUMP, self.now_s
        self.waiting.append(request)

    def leave_all(self) -> list[int]:
        """The server fails: the requests that it had."""
        lost = [*self.batch, *self.waiting]
        for each in (self.waiting, self.batch, self.prompts, self.origin, self.ends):
            each.clear()
        self.inside, self.decoding, self.context, self.held, self.due_s = 0, 0, 0, 0, math.inf
        return lost

    def step(self) -> list[int]:
        """The step that begins at `due_s`; the requests that it finishes."""
        if self.jump[0]:
            self._advance(self.due_s)
        if self.waiting and not self.blocked:
            self._admit()
        costs, finished = self.costs, list[int]()
        if self.prompts:
            budget = self.round_tokens - self.decoding
            work_s, done = prompt_work(self.prompts, costs, budget, self.rules.token_budget, self.role)
            seconds = costs.t0_s + costs.sequence_s * self.decoding + costs.context_s * self.context
            self._pass(1, seconds + work_s)
            self._end(finished)
            for request, drain_s in done:
                self._prompt_done(request, drain_s, finished)
        else:
            self._pass(1, self._alone_s())
            self._end(finished)
        if self.held > self.held_peak:
            self.held_peak = self.held
        while self.held > self.rules.kv_tokens and len(self.batch) > 1:
            self._preempt()
        if self.prompts or (self.waiting and not self.blocked):
            self.jump, self.due_s = NO_JUMP, self.now_s
        else:
            self._look_ahead()
        return finished

    def _advance(self, to_s: float) -> None:
        """Those steps of the jump that begin before `to_s`."""
        count, first_s, growth_s = self.jump
        if not count or to_s <= self.now_s:
            return
        made = (
            min(count, steps_to_reach(to_s - self.now_s, first_s, growth_s)) if to_s < self.due_s else count
        )
        if made == count:
            self._pass(made, self.due_s - self.now_s)
            self.now_s = self.due_s  # to the last digit: it is what the loop knows
        else:
            self._pass(made, steps_s(made, first_s, growth_s))
        self.jump = (count - made, first_s + made * growth_s, growth_s)

    def _alone_s(self) -> float:
        """Seconds of a step without prompts."""
        costs, n = self.costs, self.decoding
        base_s = costs.alone_s[n] if costs.alone_s else costs.t0_s + costs.sequence_s * n
        return base_s + costs.context_s * self.context

    def _look_ahead(self) -> None:
        """How many steps go by until a sequence ends or the cache overflows: the last of them is due."""
        n = self.decoding
        if not n:
            self.jump, self.due_s = NO_JUMP, math.inf
            return
        costs, grow = self.costs, n * self.emitted
        count = self.ends[0][0] - self.steps
        if self.grows and (self.rules.kv_tokens - self.held) < count * grow:
            count = int((self.rules.kv_tokens - self.held) // grow) + 1
        if count <= 1:
            self.jump, self.due_s = NO_JUMP, self.now_s
            return
        count -= 1
        first_s = self._alone_s()
        growth_s = costs.context_s * grow
        self.jump = (count, first_s, growth_s)
        self.due_s = self.now_s + count * first_s + growth_s * count * (count - 1) / 2

    def _admit(self) -> None:
        """Waiting requests enter in order of arrival while batch and KV cache have room; an empty server
        takes any."""
        book, rules, batch, waiting = self.ledger, self.rules, self.batch, self.waiting
        prefill, decode, kept = self.role == "prefill", self.role == "decode", self.kept
        room = self.round_tokens
        while waiting:
            request = waiting[0]
            again = request in kept
            made = kept[request] if again else int(decode)
            need = book.isl[request] + made * self.emitted
            taken = need if self.grows else self._reserved(request)
            if batch and (
                len(batch) >= rules.max_sequences or self.held + max(taken, need + 1) > rules.kv_tokens
            ):
                self.blocked = True
                return
            if self.cache is not None and not again:
                book.new[request] = self.cache.enter(request, rules.kv_tokens - self.held)
            if prefill:  # whole prompts, as many as fit the budget
                room -= book.new[request]
                if batch and room < 0:
                    return
            waiting.popleft()
            batch[request] = None
            self.held += taken
            if book.entry_s[request] != book.entry_s[request]:
                book.entry_s[request] = self.now_s
            if decode and not again:
                self._join(request, made)
            else:
                cached = 0 if again else book.isl[request] - book.new[request]
                self.prompts.append([request, int(need) - cached, cached])

    def _reserved(self, request: int) -> int:
        """Tokens held from entry to end by an engine that reserves."""
        return self.ledger.isl[request] + max(self.rules.reserved_osl or 0, self.ledger.osl[request])

    def _tokens(self, request: int, steps: int) -> float:
        """Of a sequence that has made so many steps."""
        return self.ledger.isl[request] + steps * self.emitted

    def _join(self, request: int, made: int) -> None:
        """A sequence whose prompt is done decodes from the next step on."""
        book, origin = self.ledger, self.steps - made
        self.decoding += 1
        self.context += book.isl[request] + made * self.emitted
        self.origin[request] = origin
        heappush(self.ends, (origin + book.osl[request], request))

    def _pass(self, count: int, seconds: float) -> None:
        """`count` steps go by."""
        inside, grown = len(self.batch), count * self.decoding * self.emitted
        self.steps += count
        self.now_s += seconds
        self.busy_s += seconds
        self.sequence_seconds += seconds * inside
        self.context += grown
        if self.grows:
            self.held += grown
        self.in_step = inside, self.held

    def _end(self, finished: list[int]) -> None:
        """After a step: sequences that have made their last token."""
        ends, origin, osl = self.ends, self.origin, self.ledger.osl
        while ends and ends[0][0] <= self.steps:
            last, request = heappop(ends)
            made = osl[request]
            if origin.get(request) == last - made:
                del origin[request]
                self.decoding -= 1
                self.context -= self.ledger.isl[request] + made * self.emitted
                finished.append(self._leave(request, made))

    def _prompt_done(self, request: int, drain_s: float, finished: list[int]) -> None:
        """After a step: the first token of a prompt that it finished."""
        book = self.ledger
        self.prompts.popleft()
        made = self.kept.pop(request, 0) + 1
        if self.grows:
            self.held += self.emitted
        if self.cache is not None:
            self.cache.done(request, self.rules.kv_tokens - self.held)
        if book.first_s[request] != book.first_s[request]:
            book.first_s[request] = self.now_s + drain_s
            if drain_s:
                self.drain_s[request] = drain_s
        if self.role == "prefill" or made >= book.osl[request]:
            finished.append(self._leave(request, made))
        else:
            self._join(request, made)

    def _leave(self, request: int, made: int) -> int:
        """The request ends here; its KV is freed."""
        book = self.ledger
        del self.batch[request]
        self.inside -= 1
        self.blocked = False
        if self.cache is not None:
            self.cache.left(request)
        self.held -= book.isl[request] + made * self.emitted if self.grows else self._reserved(request)
        end_s = self.now_s
        if self.drain_s:
            end_s += self.drain_s.pop(request, 0.0)
        book.end_s[request] = end_s
        if not self.batch:
            self.held, self.context = 0, 0  # what rounding has left
        return request

    def _preempt(self) -> None:
        """Put the sequence that entered last back at the head of the queue, to recompute its prompt and
        tokens made."""
        request, _ = self.batch.popitem()
        if self.cache is not None:
            self.cache.left(request)
        origin = self.origin.pop(request, None)
        if origin is None:  # its prompt is still in work: the last one of the line
            self.prompts.pop()
        else:
            self.decoding -= 1
            self.context -= self._tokens(request, self.steps - origin)
            self.kept[request] = self.steps - origin
        self.held -= self._tokens(request, self.kept.get(request, 0))
        self.waiting.appendleft(request)
        self.blocked = False
        self.preemptions += 1
        self.ledger.preempted[request] += 1
