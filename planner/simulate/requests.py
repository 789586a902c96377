"""What goes into a replay and what comes out: requests, the rules of a server, the times of each request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from planner.designs.shape import Floats, Ints, StepTimes
from planner.errors import InputError

Routing = Literal["round_robin", "least_requests"]


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
    """Rules of one server and how many equal ones there are. `concurrency`: a closed loop of that many
    requests over all replicas, each replica keeping its equal share (None: the requests come at their arrival
    times). `reserved_osl`: output tokens that a request holds room for from its entry, at least its own
    (None: room is taken token by token)."""

    token_budget: int = 2048  # tokens of one step: one for each decoding sequence, the rest for prompts
    max_sequences: float = math.inf
    kv_tokens: float = math.inf
    replicas: int = 1
    routing: Routing = "round_robin"
    concurrency: int | None = None
    reserved_osl: int | None = None

    def __post_init__(self) -> None:
        least = {
            "token_budget": self.token_budget,
            "max_sequences": self.max_sequences,
            "replicas": self.replicas,
            "reserved_osl": 1 if self.reserved_osl is None else self.reserved_osl,
        }
        for name, value in least.items():
            if not value >= 1:
                raise InputError(f"`{name}` must be at least 1, got {value}", f"settings.{name}")
        if not self.kv_tokens > 0:
            raise InputError(f"`kv_tokens` must be positive, got {self.kv_tokens}", "settings.kv_tokens")
        if self.routing not in ("round_robin", "least_requests"):
            raise InputError(
                f"unknown routing `{self.routing}`", "settings.routing", "round_robin | least_requests"
            )
        if self.concurrency is not None and self.concurrency < self.replicas:
            raise InputError("a closed loop needs at least one request a replica", "settings.concurrency")


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


@dataclass(frozen=True)
class Result:
    """Times of every request, shape (requests,), and sums over all servers of the replay.

    `ttft_s` arrival to first token · `tpot_s` (end - first token) / (osl - 1), NaN where osl is 1 · `e2e_s`
    arrival to end · `queue_s` arrival to first entry into the batch · `end_s` when it ended · `preempted` how
    often it was put back into the queue. `span_s`: first
    arrival to last end. `busy`: share of that time, per server, in which a step ran; `utilisation`: the same
    without each step's t0 (the formula's ρ). `mean_sequences`: time average of sequences in the batch, per
    server."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    queue_s: Floats
    end_s: Floats
    preempted: Ints
    span_s: float
    steps: int
    preemptions: int
    busy: float
    utilisation: float
    mean_sequences: float
    kv_peak_tokens: float

    @property
    def rate_rps(self) -> float:
        """Requests finished a second."""
        return len(self.end_s) / self.span_s
