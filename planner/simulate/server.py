"""One server of a replay: continuous batching with chunked prefill, in jumps while nothing changes.

All decoding sequences make one token a step. So a sequence that joins after step k with m tokens made has
made m + (s - k) after step s, whatever happens: it is stored as its `origin` k - m and ends after step origin
+ osl. A heap of those ends, the number of decoding sequences and the sum of their contexts are the whole
state, and a step costs O(1) however many sequences decode. While no prompt is in work and nothing enters or
ends, k steps last

    k·(t0 + sequence_s·n + context_s·context) + context_s·n·k·(k - 1)/2

because each adds n tokens of context, and are taken at once. The rules: docstring of
`planner.simulate.replay`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from planner.simulate.requests import Settings, StepCosts

Role = Literal["mixed", "prefill", "decode"]


@dataclass
class Ledger:
    """Lengths of the requests, which servers read, and their times, which servers write: lists by request."""

    isl: list[int]
    osl: list[int]
    new: list[int]
    entry_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)  # times each request was

    def __post_init__(self) -> None:
        self.entry_s, self.first_s, self.end_s = ([math.nan] * len(self.isl) for _ in range(3))
        self.preempted = [0] * len(self.isl)


@dataclass
class Server:
    """A server, its queue and its batch. `now_s`: the end of its last step, when the next one may begin."""

    step: StepCosts
    rules: Settings
    ledger: Ledger
    role: Role = "mixed"
    now_s: float = 0.0
    steps: int = 0
    preemptions: int = 0
    busy_s: float = 0.0
    sequence_seconds: float = 0.0  # integral over time of the sequences in the batch
    held: int = 0  # KV tokens
    held_peak: int = 0
    decoding: int = 0  # sequences, and
    context: int = 0  # their tokens
    waiting: deque[int] = field(default_factory=deque)
    batch: dict[int, None] = field(default_factory=dict)  # requests in order of entry
    prompts: deque[list[int]] = field(
        default_factory=deque
    )  # [request, tokens left, tokens there], in order of entry
    origin: dict[int, int] = field(default_factory=dict)  # of decoding requests
    ends: list[tuple[int, int]] = field(
        default_factory=list
    )  # heap of (last step, request); stale after preemption
    kept: dict[int, int] = field(default_factory=dict)  # preempted request -> tokens made before
    drain_s: dict[int, float] = field(
        default_factory=dict
    )  # request -> time through the later pipeline stages

    @property
    def has_work(self) -> bool:
        return bool(self.batch or self.waiting)

    @property
    def unfinished(self) -> int:
        """Requests sent here and not finished; those that the step in progress will finish count as
        finished."""
        return len(self.waiting) + len(self.batch)

    def take(self, request: int, at_s: float) -> None:
        """A request arrives; an idle server wakes up."""
        if not self.has_work:
            self.now_s = max(self.now_s, at_s)
        self.waiting.append(request)

    def run(self, until_s: float) -> list[int]:
        """Run one step, and more that begin before `until_s` while nothing changes; return the requests they
        finish."""
        self._admit()
        if self.prompts:
            return self._step_with_prompts()
        return self._decode_only(until_s)

    def _admit(self) -> None:
        """Waiting requests enter in order of arrival while batch and KV cache have room; an empty server
        takes any."""
        book, room = self.ledger, 0 if self.role != "prefill" else self._round_tokens
        while self.waiting and len(self.batch) < self.rules.max_sequences:
            request = self.waiting[0]
            made = self.kept.get(request, int(self.role == "decode"))
            need = book.isl[request] + made
            taken = self._reserved(request) or need
            if self.batch and self.held + max(taken, need + 1) > self.rules.kv_tokens:
                return
            if self.role == "prefill":  # whole prompts, as many as fit the budget
                room -= book.new[request]
                if self.batch and room < 0:
                    return
            self.waiting.popleft()
            self.batch[request] = None
            self.held += taken
            if book.entry_s[request] != book.entry_s[request]:
                book.entry_s[request] = self.now_s
            if self.role == "decode" and request not in self.kept:
                self._join(request, made)
            else:
                cached = 0 if request in self.kept else book.isl[request] - book.new[request]
                self.prompts.append([request, need - cached, cached])

    def _reserved(self, request: int) -> int:
        """Tokens held from entry to end by an engine that reserves; 0: as they come."""
        most = self.rules.reserved_osl
        return 0 if most is None else self.ledger.isl[request] + max(most, self.ledger.osl[request])

    def _join(self, request: int, made: int) -> None:
        """A sequence whose prompt is done decodes from the next step on."""
        self.decoding += 1
        self.context += self.ledger.isl[request] + made
        self.origin[request] = self.steps - made
        heappush(self.ends, (self.steps - made + self.ledger.osl[request], request))

    def _decode_only(self, until_s: float) -> list[int]:
        """Steps until a sequence ends, the KV cache overflows or a step begins at or after `until_s`."""
        n = self.decoding
        first_s = self.step.t0_s + self.step.sequence_s * n + self.step.context_s * self.context
        growth_s = self.step.context_s * n
        count = max(1, self.ends[0][0] - self.steps)
        if n and self.rules.kv_tokens < math.inf and self.rules.reserved_osl is None:
            count = min(count, max(1, int((self.rules.kv_tokens - self.held) // n) + 1))
        seconds = steps_s(count, first_s, growth_s)
        if count > 1 and self.now_s + seconds > until_s:
            count = min(count, steps_to_reach(until_s - self.now_s, first_s, growth_s))
            seconds = steps_s(count, first_s, growth_s)
        self._pass(count, seconds)
        return self._close([])

    def _step_with_prompts(self) -> list[int]:
        """One step: a token for each decoding sequence, what that leaves of the budget for prompts in order
        of entry."""
        step = self.step
        seconds = step.t0_s + step.sequence_s * self.decoding + step.context_s * self.context
        budget = self._round_tokens - self.decoding
        done: list[tuple[int, float]] = []
        for prompt in self.prompts:
            if budget <= 0:
                break
            request, left, there = prompt
            chunk = left if self.role == "prefill" else min(left, budget)
            chunk_s = step.token_s * chunk + step.pair_s * chunk * (there + (chunk + 1) / 2)
            if self.role == "prefill":  # a prompt longer than the budget takes several steps
                chunk_s += step.t0_s * (self._rounds(chunk) - 1)
            seconds += chunk_s
            budget -= chunk
            prompt[1], prompt[2] = left - chunk, there + chunk
            if chunk == left:
                pieces = math.ceil(chunk / self.rules.token_budget)  # the last passes the other stages
                done.append((request, (step.stages - 1) * chunk_s / pieces))
        self._pass(1, seconds)
        return self._close(done)

    @property
    def _round_tokens(self) -> int:
        """Tokens of a round: a micro-batch of `token_budget` for each stage."""
        return int(self.rules.token_budget * self.step.stages)

    def _rounds(self, tokens: int) -> int:
        """Steps of `tokens` prompt tokens: as many as the budget a stage makes."""
        chunks = math.ceil(tokens / self.rules.token_budget)
        return max(1, math.ceil(chunks / self.step.stages))

    def _pass(self, count: int, seconds: float) -> None:
        """`count` steps go by."""
        self.steps += count
        self.now_s += seconds
        self.busy_s += seconds
        self.sequence_seconds += seconds * len(self.batch)
        self.context += count * self.decoding
        if self.rules.reserved_osl is None:
            self.held += count * self.decoding

    def _close(self, prompts_done: list[tuple[int, float]]) -> list[int]:
        """After a step: first tokens of finished prompts, ends of sequences, then preemption where KV
        overflows."""
        book, finished = self.ledger, []
        while self.ends and self.ends[0][0] <= self.steps:
            last, request = heappop(self.ends)
            if self.origin.get(request) == last - book.osl[request]:
                del self.origin[request]
                self.decoding -= 1
                self.context -= book.isl[request] + book.osl[request]
                finished.append(self._leave(request, book.osl[request]))
        for request, drain_s in prompts_done:
            self.prompts.popleft()
            made = self.kept.pop(request, 0) + 1
            self.held += self.rules.reserved_osl is None
            if book.first_s[request] != book.first_s[request]:
                book.first_s[request] = self.now_s + drain_s
                self.drain_s[request] = drain_s
            if self.role == "prefill" or made >= book.osl[request]:
                finished.append(self._leave(request, made))
            else:
                self._join(request, made)
        self.held_peak = max(self.held_peak, self.held)
        while self.held > self.rules.kv_tokens and len(self.batch) > 1:
            self._preempt()
        return finished

    def _leave(self, request: int, made: int) -> int:
        """The request ends here; its KV is freed."""
        del self.batch[request]
        self.held -= self._reserved(request) or self.ledger.isl[request] + made
        self.ledger.end_s[request] = self.now_s + self.drain_s.pop(request, 0.0)
        return request

    def _preempt(self) -> None:
        """Put the sequence that entered last back at the head of the queue, to recompute its prompt and
        tokens made."""
        request, _ = self.batch.popitem()
        origin = self.origin.pop(request, None)
        if origin is None:  # its prompt is still in work: the last one of the line
            self.prompts.pop()
        else:
            self.decoding -= 1
            self.context -= self.ledger.isl[request] + self.steps - origin
            self.kept[request] = self.steps - origin
        self.held -= self.ledger.isl[request] + self.kept.get(request, 0)
        self.waiting.appendleft(request)
        self.preemptions += 1
        self.ledger.preempted[request] += 1


def steps_s(count: float, first_s: float, growth_s: float) -> float:
    """Seconds of `count` steps, the first lasting `first_s` and each next one `growth_s` longer.

    >>> steps_s(3, 1.0, 0.5)
    4.5
    """
    return count * first_s + growth_s * count * (count - 1) / 2


def steps_to_reach(time_s: float, first_s: float, growth_s: float) -> int:
    """The least number of such steps, at least one, that last `time_s` or longer.

    >>> [steps_to_reach(t, 1.0, 0.5) for t in (0.0, 1.0, 1.1, 4.5, 4.6)]
    [1, 1, 2, 3, 4]
    """
    if time_s <= first_s:
        return 1
    half = first_s - growth_s / 2  # growth/2·k² + half·k = time
    count = math.ceil(2 * time_s / (half + math.sqrt(half * half + 2 * growth_s * time_s)))
    while count > 1 and steps_s(count - 1, first_s, growth_s) >= time_s:
        count -= 1
    while steps_s(count, first_s, growth_s) < time_s:
        count += 1
    return count
