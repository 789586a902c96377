"""First tokens of a benchmark on prefill and decode workers, request by request.

A client keeps so many requests in flight and starts them all at once: the first wave. Where lengths are drawn
from a narrow range, those of a wave end close together, so the next wave's prompts come close together, too:
of answers drawn from 0.8 to 1 of a length, within a fifth of a request's time in the second wave, two fifths
in the third. They meet more of each other than prompts that come evenly, which is what
`benchmarks/queueing_split.py` says of the steady state. Steps are those the model predicts; the client is
what its script says. Nothing is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from planner.designs.shape import Floats

SEED = 1

LEAST = 400
"""Requests that are looked at: of small runs several in a row, as their few lengths are a matter of luck."""


@dataclass(frozen=True)
class Workers:
    """Prefill workers that take up to `prompts` a step of `t0_s` and `token_s` for each of their tokens;
    `handoff_s` from a prompt's end to its first token, `tpot_s` from there on each; `places` of all decode
    workers, or infinite."""

    prefill: int
    prompts: int
    t0_s: float
    token_s: float
    handoff_s: float
    tpot_s: float
    places: float = np.inf


@dataclass(frozen=True)
class Client:
    """`slots` requests in flight, `waves` of each slot, prompts and answers of `isl` and `osl` tokens in the
    mean, drawn evenly from `lowest` of the longest up to it; 1: all alike. The first wave is sent at
    `rate_rps` requests/s."""

    slots: int
    waves: int
    isl: float
    osl: float
    lowest: float = 1.0
    rate_rps: float = np.inf

    def drawn(self, mean: float, chance: np.random.Generator) -> Floats:
        """Lengths of all requests, (slots * waves,)."""
        longest = mean / ((1 + self.lowest) / 2)
        return chance.uniform(self.lowest * longest, longest, self.slots * self.waves)


def mean_ttft_s(workers: Workers, client: Client) -> float:
    """Mean seconds to the first token of all requests of the benchmark.

    >>> alone = Workers(prefill=1, prompts=4, t0_s=0.05, token_s=1e-4, handoff_s=0.1, tpot_s=0.01)
    >>> round(mean_ttft_s(alone, Client(slots=1, waves=5, isl=1000, osl=100)), 3)
    0.25
    """
    chance = np.random.default_rng(SEED)
    runs = max(1, round(LEAST / (client.slots * client.waves)))
    return float(np.mean([_ttft_s(workers, client, chance).mean() for _ in range(runs)]))


def _ttft_s(workers: Workers, client: Client, chance: np.random.Generator) -> Floats:
    """Seconds to the first token of each request, (n,)."""
    isl, osl = client.drawn(client.isl, chance), client.drawn(client.osl, chance)
    found, started = np.zeros(len(isl)), client.slots
    line = [(i / client.rate_rps, i) for i in range(client.slots)]  # requests by when they come
    free = [0.0] * workers.prefill
    ends: list[float] = []  # of answers that hold a place
    heapify(line)
    while line:
        at = max(heappop(free), line[0][0])
        taken = [heappop(line)]
        while line and len(taken) < workers.prompts and line[0][0] <= at:
            taken.append(heappop(line))
        done = at + workers.t0_s + workers.token_s * sum(isl[i] for _, i in taken)
        heappush(free, done)
        for came, i in taken:
            first = done + workers.handoff_s
            if len(ends) >= workers.places:
                first = max(first, heappop(ends))
            end = first + (osl[i] - 1) * workers.tpot_s
            heappush(ends, end)
            found[i] = first - came
            if started < len(isl):
                heappush(line, (end, started))
                started += 1
    return found
