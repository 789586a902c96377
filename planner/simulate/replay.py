"""Replay of requests on one deployment: the truth that `planner.cost.queueing` is tested against.

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
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from planner.cost.shape import StepTimes
from planner.simulate.requests import Requests, Result, Settings, StepCosts
from planner.simulate.server import Ledger, Role, Server


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
    return _Run(requests, [_Pool(step, settings, "mixed", requests)], None).result()


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
    pools = [_Pool(*prefill, "prefill", requests), _Pool(*decode, "decode", requests)]
    return _Run(requests, pools, transfer).result()


def replay_prefill(step: StepTimes, requests: Requests, settings: Settings) -> Result:
    """Replay on prefill servers alone: every request ends with its first token."""
    return _Run(requests, [_Pool(step, settings, "prefill", requests)], None).result()


class _Pool:
    """Equal servers of one role, their ledger and their routing."""

    def __init__(self, step: StepTimes, settings: Settings, role: Role, requests: Requests) -> None:
        isl, osl, new = ([int(x) for x in a] for a in (requests.isl, requests.osl, requests.computed))
        self.ledger = Ledger(isl, osl, new)
        self.settings = settings
        costs = StepCosts.of(step)
        self.t0_s = costs.t0_s
        self.servers = [Server(costs, settings, self.ledger, role) for _ in range(settings.replicas)]
        self.dealt = 0

    def route(self) -> Server:
        """The server that the next request goes to."""
        if self.settings.routing == "least_requests" and len(self.servers) > 1:
            return min(self.servers, key=lambda s: s.unfinished)
        self.dealt += 1
        return self.servers[(self.dealt - 1) % len(self.servers)]


class _Run:
    """The event loop: whichever comes first, an arrival or the beginning of a server's next step."""

    def __init__(self, requests: Requests, pools: Sequence[_Pool], transfer: Transfer | None) -> None:
        self.requests, self.pools, self.transfer = requests, pools, transfer
        self.concurrency = pools[0].settings.concurrency
        self.arrival_s = [math.nan] * len(requests)
        self.coming: list[
            tuple[float, int, int, Server | None]
        ] = []  # heap of (time, request, pool, server if known)
        self.sent = 0
        for _ in range(min(len(requests), self.concurrency or len(requests))):
            self._send(0.0 if self.concurrency else float(requests.arrival_s[self.sent]), None)
        self.servers = [server for pool in pools for server in pool.servers]
        self.feeds_back = len(self.servers) > 1 and (self.concurrency is not None or len(pools) > 1)
        self._loop()

    def _send(self, at_s: float, server: Server | None) -> None:
        """The next request of the list arrives at `at_s`."""
        self.arrival_s[self.sent] = at_s
        heappush(self.coming, (at_s, self.sent, 0, server))
        self.sent += 1

    def _loop(self) -> None:
        while True:
            busy = [s for s in self.servers if s.has_work]
            if not busy and not self.coming:
                return
            server = min(busy, key=lambda s: s.now_s) if len(busy) > 1 else (busy[0] if busy else None)
            next_s = self.coming[0][0] if self.coming else math.inf
            if server is None or next_s <= server.now_s:
                at_s, request, index, known = heappop(self.coming)
                (known or self.pools[index].route()).take(request, at_s)
                continue
            until_s = next_s
            if (
                self.feeds_back
            ):  # what another server finishes may arrive here, but not before its next step begins
                until_s = min([next_s, *(s.now_s for s in busy if s is not server)])
            self._pass_on(server, server.run(until_s))

    def _pass_on(self, server: Server, finished: list[int]) -> None:
        """Finished prompts travel to the decode servers; in a closed loop each finished request lets one
        in."""
        for request in finished:
            if server.role == "prefill" and self.transfer and self.pools[1].ledger.osl[request] > 1:
                arrives_s = self.pools[0].ledger.end_s[request] + self.transfer.seconds(
                    int(self.requests.isl[request])
                )
                heappush(self.coming, (arrives_s, request, 1, None))
            elif self.concurrency and self.sent < len(self.requests):
                self._send(server.now_s, server if server.role != "decode" else None)

    def result(self) -> Result:
        """Times by request and sums over the servers of the last pool."""
        first, last = self.pools[0].ledger, self.pools[-1]
        arrival, first_s = np.array(self.arrival_s), np.array(first.first_s)
        end_s = np.array(last.ledger.end_s)
        end_s = np.where(
            np.isnan(end_s), np.array(first.end_s), end_s
        )  # one token: ended by the prefill server
        more = np.where(np.asarray(self.requests.osl) > 1, np.asarray(self.requests.osl) - 1.0, np.nan)
        servers, span_s = last.servers, float(end_s.max() - arrival.min())
        busy_s, steps = sum(s.busy_s for s in servers), sum(s.steps for s in servers)
        return Result(
            ttft_s=first_s - arrival,
            tpot_s=(end_s - first_s) / more,
            e2e_s=end_s - arrival,
            queue_s=np.array(first.entry_s) - arrival,
            end_s=end_s,
            preempted=np.array(last.ledger.preempted),
            span_s=span_s,
            steps=steps,
            preemptions=sum(s.preemptions for s in servers),
            busy=busy_s / span_s / len(servers),
            utilisation=(busy_s - steps * last.t0_s) / span_s / len(servers),
            mean_sequences=sum(s.sequence_seconds for s in servers) / span_s / len(servers),
            kv_peak_tokens=max(s.held_peak for s in servers),
        )
