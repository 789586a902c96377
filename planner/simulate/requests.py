"""What goes into a replay: requests, the rules of a server, its steps and their seconds, and the ledger that
servers share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from planner.designs.shape import Floats, StepTimes
from planner.errors import InputError


@dataclass(frozen=True)
class Requests:
    """Requests in order of arrival, arrays of shape (requests,). `new`: prompt tokens that are computed, the
    others are in the prefix cache (default: all). In a closed loop `arrival_s` isn't used."""

    arrival_s: Floats
    isl: Floats
    osl: Floats
    new: Floats | None = None

    def __post_init__(self) -> None:
        sizes = {len(a) for a in (self.arrival_s, self.isl, self.osl, self.computed)}
        if len(sizes) != 1:
            raise InputError(f"requests need arrays of one length, got {sorted(sizes)}", "requests")
        if np.any(np.diff(self.arrival_s) < 0):
            raise InputError("requests must be in order of arrival", "requests.arrival_s")
        if np.any(self.isl < 1) or np.any(self.osl < 1):
            raise InputError("a request has at least one prompt token and one output token", "requests")
        if np.any(self.computed < 1) or np.any(self.computed > self.isl):
            raise InputError("`new` must lie between 1 and the prompt's length", "requests.new")

    @property
    def computed(self) -> Floats:
        """Prompt tokens that prefill computes, (requests,)."""
        return self.isl if self.new is None else self.new

    def __len__(self) -> int:
        return len(self.isl)


@dataclass(frozen=True)
class Settings:
    """Rules of one server. `reserved_osl`: output tokens that a request holds room for from its entry, at
    least its own (None: room is taken token by token)."""

    token_budget: int = 2048  # tokens of one step: one for each decoding sequence, the rest for prompts
    max_sequences: float = math.inf
    kv_tokens: float = math.inf
    reserved_osl: int | None = None

    def __post_init__(self) -> None:
        least = {
            "token_budget": self.token_budget,
            "max_sequences": self.max_sequences,
            "reserved_osl": 1 if self.reserved_osl is None else self.reserved_osl,
        }
        for name, value in least.items():
            if not value >= 1:
                raise InputError(f"`{name}` must be at least 1, got {value}", f"settings.{name}")
        if not self.kv_tokens > 0:
            raise InputError(f"`kv_tokens` must be positive, got {self.kv_tokens}", "settings.kv_tokens")


@dataclass(frozen=True)
class StepCosts:
    """`StepTimes` of one server as plain floats: the replay's inner loop has no room for arrays. `alone_s`:
    seconds of a step without prompts, by the sequences that decode, beside their context (none: t0 and
    `sequence_s` each)."""

    t0_s: float
    token_s: float
    pair_s: float
    sequence_s: float
    context_s: float
    stages: float
    alone_s: tuple[float, ...] = ()

    @classmethod
    def of(cls, step: StepTimes) -> StepCosts:
        """From a `StepTimes` whose fields are scalars or have one element."""
        return cls(
            t0_s=_float(step.t0_s),
            token_s=_float(step.prefill_s_per_token),
            pair_s=_float(step.prefill_s_per_pair),
            sequence_s=_float(step.sequence_s),
            context_s=_float(step.context_s_per_token),
            stages=_float(step.stages),
        )


def _float(x: Floats | float) -> float:
    return float(np.asarray(x).reshape(()))


Role = Literal["mixed", "prefill", "decode"]


@dataclass(slots=True, kw_only=True)
class Clock:
    """Where a server of a replay stands. `now_s`: the end of its last step, when the next one may begin;
    `due_s`: when it next has to be looked at (inf: never, by itself); `inside`: requests sent to it and not
    finished, those that the step in progress finishes not among them; `held`: KV tokens."""

    now_s: float = 0.0
    due_s: float = math.inf
    inside: int = 0
    steps: int = 0
    preemptions: int = 0
    busy_s: float = 0.0
    held: float = 0
    held_peak: float = 0


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


def prompt_work(
    prompts: Iterable[list[int]], costs: StepCosts, budget: int, chunk_most: int, role: Role
) -> tuple[float, list[tuple[int, float]]]:
    """Seconds of the prompts in a step, which get `budget` tokens in order of entry; and the requests whose
    prompts it finishes, each with its time through the later pipeline stages. `prompts`: [request, tokens
    left, tokens there], brought up to date. Of prefill servers they are whole; one of more than `chunk_most`
    tokens then takes several steps.

    >>> costs, two = StepCosts(0.01, 1e-4, 0.0, 0.0, 0.0, 1.0), [[7, 100, 0], [8, 100, 0]]
    >>> seconds, done = prompt_work(two, costs, 150, 150, "mixed")
    >>> round(seconds, 6), done, two[1]
    (0.015, [(7, 0.0)], [8, 50, 50])
    """
    whole = role == "prefill"
    seconds, done = 0.0, list[tuple[int, float]]()
    for prompt in prompts:
        if budget <= 0:
            break
        request, left, there = prompt
        chunk = left if whole or left <= budget else budget
        chunk_s = costs.token_s * chunk + costs.pair_s * chunk * (there + (chunk + 1) / 2)
        if whole and chunk > chunk_most:
            rounds = math.ceil(math.ceil(chunk / chunk_most) / costs.stages)  # a chunk for each stage
            chunk_s += costs.t0_s * (max(1, rounds) - 1)
        seconds += chunk_s
        budget -= chunk
        if chunk < left:
            prompt[1], prompt[2] = left - chunk, there + chunk
            continue
        drain_s = 0.0
        if costs.stages > 1:  # the last piece passes the other stages
            drain_s = (costs.stages - 1) * chunk_s / math.ceil(chunk / chunk_most)
        done.append((request, drain_s))
    return seconds, done


NO_JUMP = (0, 0.0, 0.0)
"""Steps ahead, seconds of the first, and how much longer each next one is: none."""


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
