"""Replay of requests on one deployment: the truth that `planner.queueing` is tested against.

A step of a server lasts what `StepTimes` says. Before each step waiting requests enter in order of arrival
while fewer than `max_sequences` are in the batch and prompt + tokens made + 1 fits in `kv_tokens` beside what
is held (an empty server takes any one); a request holds its whole prompt from entry and one token more for
each token made. In a step every sequence with a finished prompt makes one token; what that leaves of
`token_budget` goes to unfinished prompts in order of entry, cut where needed. The first token appears at the
end of the step that finishes the prompt. If more than `kv_tokens` are held after a step, the sequences that
entered last go back to the head of the queue one by one (prompt and tokens made are computed again, the time
of the first token stays). An engine that reserves (`reserved_osl`) holds prompt and longest output from entry
to end, and preempts nobody. Steps that begin before an arrival do not see it.

Pipeline stages: with `step.stages` > 1 a step is a round, in which each stage has a micro-batch of up to
`token_budget` tokens, and a prompt's first token, and so all its later ones, come (stages - 1)
times its last micro-batch's work later: that still has to pass the other stages. c equal chunks then take
(c + stages - 1)/c times the prompt's work.

Routing: `round_robin` deals requests in turn; `least_requests` to the fewest unfinished ones (what the step
in progress finishes counts as finished), lowest index on ties. In a closed loop the next request goes to the
replica where one just finished.

A prefill-decode pair (`replay_pair`): prefill servers take whole prompts, first come first served, as many as
fit the token budget (at least one); each prompt's KV then travels for `latency_s` + bytes / bandwidth,
transfers beside each other; the decode servers hold prompt + first token from entry and only decode.

Error: none against these rules; the four cases `chunked_*` of tests/simulate come out to the digits
stored. What the rules leave out of a real engine (host work between steps, block-granular KV, speculative
tokens) is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from benchmarks.replays.transfers import Beside
from planner.designs.shape import Floats, Ints, StepTimes
from planner.errors import InputError
from planner.simulate import requests as rules
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.loop import Machine
from planner.simulate.pools import Group, Load, Pool
from planner.simulate.requests import Requests, Role, StepCosts
from planner.simulate.routing import Planned, View, Way
from planner.simulate.server import Server

Routing = Literal["round_robin", "least_requests"]


@dataclass(frozen=True)
class Settings(rules.Settings):
    """Rules of one server and how many equal ones there are. `concurrency`: a closed loop of that many
    requests over all replicas, each replica keeping its equal share (None: the requests come at their arrival
    times)."""

    replicas: int = 1
    routing: Routing = "round_robin"
    concurrency: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.replicas >= 1:
            raise InputError(f"`replicas` must be at least 1, got {self.replicas}", "settings.replicas")
        if self.routing not in ("round_robin", "least_requests"):
            raise InputError(
                f"unknown routing `{self.routing}`", "settings.routing", "round_robin | least_requests"
            )
        if self.concurrency is not None and self.concurrency < self.replicas:
            raise InputError("a closed loop needs at least one request a replica", "settings.concurrency")


class RoundRobin(Planned):
    """Servers of a group in turn."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.dealt: dict[str, int] = {}

    def choose(self, pool: Pool) -> Machine:
        turn = self.dealt.get(pool.group.id, 0)
        self.dealt[pool.group.id] = turn + 1
        return pool.servers[turn % len(pool.servers)]


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


@dataclass(frozen=True)
class Transfer:
    """KV of a prompt from prefill to decode: `latency_s` + prompt tokens · `bytes_per_token` /
    `bytes_per_s`."""

    latency_s: float
    bytes_per_token: float
    bytes_per_s: float

    def seconds(self, prompt_tokens: float) -> float:
        return self.latency_s + prompt_tokens * self.bytes_per_token / self.bytes_per_s


def replay(step: StepTimes, requests: Requests, settings: Settings) -> Result:
    """Replay on equal replicas that do prefill and decode.

    >>> step = StepTimes(*map(np.asarray, (0.01, 1e-4, 0.0, 1e-3, 0.0, 1.0)))
    >>> one = Requests(np.array([0.0]), np.array([100]), np.array([11]))
    >>> result = replay(step, one, Settings())  # by hand: 10 ms + 100 x 0.1 ms, then 10 steps of 11 ms
    >>> round(float(result.ttft_s[0]), 6), round(float(result.tpot_s[0]), 6), round(float(result.e2e_s[0]), 6)
    (0.02, 0.011, 0.13)
    """
    return _alone(step, requests, settings, "mixed")


def replay_pair(
    prefill: tuple[StepTimes, Settings],
    decode: tuple[StepTimes, Settings],
    requests: Requests,
    transfer: Transfer,
) -> Result:
    """Replay on prefill servers and decode servers joined by `transfer`; `prefill[1].concurrency` closes the
    loop.

    The first token is the prefill server's, at the end of its step; figures of utilisation are those of the
    decode servers (replay the prefill side alone for its own)."""
    groups = [_group(*prefill, "prefill"), _group(*decode, "decode")]
    wire = Wire(transfer.bytes_per_s, math.inf, transfer.latency_s)
    sent = np.floor(requests.isl) * transfer.bytes_per_token
    way = Way(1.0, "prefill", "decode")
    site = Site(groups, [[way]], {("prefill", "decode"): wire}, {"prefill": sent}, first_waits=False)
    return _run(site, requests, prefill[1])


def replay_prefill(step: StepTimes, requests: Requests, settings: Settings) -> Result:
    """Replay on prefill servers alone: every request ends with its first token."""
    return _alone(step, requests, settings, "prefill")


def _alone(step: StepTimes, requests: Requests, settings: Settings, role: Role) -> Result:
    return _run(Site([_group(step, settings, role)], [[Way(1.0, role)]], {}, {}), requests, settings)


def _group(step: StepTimes, settings: Settings, role: Role) -> Group:
    return Group(role, role, settings.replicas, StepCosts.of(step), settings)


def _run(site: Site, requests: Requests, settings: Settings) -> Result:
    if settings.concurrency is not None:
        requests = replace(requests, arrival_s=np.zeros(len(requests)))
    load = Load(requests, np.zeros(len(requests), dtype=np.int64), {}, settings.concurrency)
    turns = settings.routing == "round_robin"
    fleet = Fleet(site, load, Rules(router=RoundRobin if turns else Planned, transfers=Beside))
    return _result(fleet, fleet.run())


def _result(fleet: Fleet, out: Outcome) -> Result:
    """Times by request and sums over the servers of the last pool."""
    pools = list(fleet.pools.values())
    servers: Sequence[Server] = [s for s in pools[-1].servers if isinstance(s, Server)]
    span_s = float(out.end_s.max() - out.arrival_s.min())
    busy_s, steps = sum(s.busy_s for s in servers), sum(s.steps for s in servers)
    share = 1 / span_s / len(servers)
    return Result(
        ttft_s=out.ttft_s,
        tpot_s=out.tpot_s,
        e2e_s=out.end_s - out.arrival_s,
        queue_s=np.array(pools[0].ledger.entry_s) - out.arrival_s,
        end_s=out.end_s,
        preempted=np.array(pools[-1].ledger.preempted),
        span_s=span_s,
        steps=steps,
        preemptions=sum(s.preemptions for s in servers),
        busy=busy_s * share,
        utilisation=(busy_s - steps * servers[0].costs.t0_s) * share,
        mean_sequences=sum(s.sequence_seconds for s in servers) * share,
        kv_peak_tokens=max(s.held_peak for s in servers),
    )
