"""KV cache under random lengths: how many requests it holds, who waits for room, who is preempted.

A request of isl prompt and osl output tokens enters with `need` tokens, in order of arrival, when they fit
beside what is held. An engine that takes room on demand (vLLM, SGLang, llama.cpp) holds one token more for
each it makes, and where a step ends above the room K the request that entered last goes back to the head of
the queue. One that reserves (TensorRT-LLM) needs and holds isl + the longest output, and preempts nobody.

*Held.* At a random time a request in the server holds X tokens: isl while its prompt is in work (`first_s`),
then isl + a uniform part of osl (`decode_s`), each request as often as it is there for long. n requests hold
S_n, taken as normal with mean n E[X] and variance n Var[X]. Of a full cache E[need²] / 2 E[need] tokens are
free: what the head of the queue just does not fit into (age of a renewal process).

*Concurrency.* Of N requests those inside are as many as fit: n = N - E[(S_N - K')⁺] / E[X], K' = K less that
free part. A request meets the N - 1 others: it is delayed with the chance P(S_(N-1) + need > K).

*Preemption.* Entry is first come first served and preemption takes the last one in, so entering and going
back are one renewal process of needs, passed forth and back by the room that all earlier requests leave. Per
token of growth that room falls by 1 and rises by L = isl + osl at rate 1/E[osl]: a risk process, ruined from
a distance z with chance C exp(-R z), where R E[osl] = 1 - E[exp(-R L)]. A request that waited enters at the
ladder height of that process above its own needs; with the Wiener-Hopf factors

    caught = C² (1 - E[L exp(-R L)] / E[osl]) E[osl] / E[isl]

of those that waited are preempted at least once. Of those that did not, as many as growth carries S across
K, E[osl] tokens a request: C E[osl] f(K), f the density of S (Rice's formula). C = x / (exp(x) - 1) with
x = R · (sequences decoding): room is looked at once a step, at a random time in it.

*Crowding.* In a full cache a request of X tokens has (X - E[X]) / E[X] fewer beside it than the mean one, so
its steps, of which the others make the share ρ, are shorter and it leaves earlier: those inside hold
E[X] - ρ Var[X] / (n E[X]) on average, and K' is larger by ρ Var[X] / E[X] (`Held.gained`).

*Open loop.* Total number N, births at the rate of arrival, deaths at the rate of the closed loop with N
(flow-equivalent server, Chandy, Herzog and Woo 1975); a request arrives as the clock sees the others. Lengths
that come in lumps spread N wider than births and deaths: as in a diffusion the chances are taken to the power
1 / `Stay.lumps`, which makes the mean N without a limit that of the queueing formulas. The full server then
works at its own rate, not at one stretched by the queueing of a half-empty one.

Assumes many requests inside (10 and more), lengths independent of each other, Poisson arrivals. Error against
the replay on the Azure traces: `python -m benchmarks.admission`. Sources: Asmussen and Albrecher, Ruin
Probabilities (2010), III and IV; the argument from renewals is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.cost.normal import density, tail
from planner.designs.shape import Floats

LUMPS = 0.1, 100.0
"""Between these `Stay.lumps` is looked for."""

HALVINGS = 24
"""Times that the interval LUMPS is halved: what is found is known to a millionth of it."""

ROUNDS = 60
"""Halvings for the decay, and for the normal quantile of a chance."""

LONGEST = 100_000
"""Requests in an open loop that are looked at."""

LASTING = 10_000
"""Requests for which a state must last to be met."""


@dataclass(frozen=True)
class Lengths:
    """Requests by kind (w,): prompt tokens that need room, output tokens, share (adds to 1). `reserved`:
    output tokens (w,) that room is held for from the start; None: on demand."""

    isl: Floats
    osl: Floats
    share: Floats
    reserved: Floats | None = None

    @property
    def need(self) -> Floats:
        """Tokens that must be free at entry, (w,)."""
        return self.isl if self.reserved is None else self.isl + self.reserved

    @property
    def need_mean(self) -> float:
        return float(self.share @ self.need)

    @property
    def need_variance(self) -> float:
        return max(float(self.share @ self.need**2) - self.need_mean**2, 0.0)

    @property
    def grown_mean(self) -> float:
        """Tokens that a request takes after its entry."""
        return float(self.share @ self.osl) if self.reserved is None else 0.0

    @property
    def free(self) -> float:
        """Mean tokens that stay free in a full cache: what the next request does not fit into."""
        return float(self.share @ self.need**2) / (2 * self.need_mean)

    @cached_property
    def decay(self) -> float:
        """R [1/token]: of requests z tokens away from preemption exp(-R z) come to it."""
        total, grown = self.isl + self.osl, float(self.share @ self.osl)
        low, high = 0.0, 1 / grown
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            more = (1 - float(self.share @ np.exp(-middle * total))) / grown > middle
            low, high = (middle, high) if more else (low, middle)
        return low

    @cached_property
    def caught(self) -> float:
        """Chance that a request which had to wait for room is preempted later, on demand; but for C²."""
        if self.reserved is not None:
            return 0.0
        total, grown = self.isl + self.osl, float(self.share @ self.osl)
        near = 1 - float(self.share @ (total * np.exp(-self.decay * total))) / grown
        return min(max(near * grown / float(self.share @ self.isl), 0.0), 1.0)


@dataclass(frozen=True)
class Held:
    """Tokens of one request inside at a random time: mean and variance; `decoding` the share of the time."""

    mean: float
    variance: float
    decoding: float
    crowded: float = 0.0

    @property
    def gained(self) -> float:
        """Tokens by which a full cache takes more than the mean says: large requests leave sooner there."""
        return self.crowded * self.variance / self.mean

    @staticmethod
    def of(lengths: Lengths, first_s: Floats, decode_s: Floats, crowded: float = 0.0) -> Held:
        """`first_s`, `decode_s` (w,): seconds from entry to the first token and from there to the last;
        `crowded`: share of a step that the requests inside make, 1 - t0 / step."""
        prompt, decode = lengths.share * first_s, lengths.share * decode_s
        grown = lengths.osl if lengths.reserved is None else 0.0 * lengths.osl
        later = lengths.need + grown / 2
        time = float((prompt + decode).sum())
        mean = float(prompt @ lengths.need + decode @ later) / time
        square = float(prompt @ lengths.need**2 + decode @ (later**2 + grown**2 / 12)) / time
        return Held(mean, max(square - mean**2, 0.0), float(decode.sum()) / time, crowded)


@dataclass(frozen=True)
class Admission:
    """`inside` mean requests that hold room; chances that a request waits for room, and is preempted."""

    inside: float
    delayed: float
    preempted: float


def places(lengths: Lengths, held: Held, kv_tokens: float) -> float:
    """Mean requests inside where there is always one waiting; at least one is let in."""
    return max((kv_tokens - lengths.free + held.gained) / held.mean, 1.0)


def closed_loop(lengths: Lengths, held: Held, kv_tokens: float, count: float) -> Admission:
    """`count` requests in flight at all times.

    >>> one = Lengths(np.array([1000.0]), np.array([200.0]), np.array([1.0]))
    >>> held = Held.of(one, np.array([0.0]), np.array([5.0]))
    >>> [round(closed_loop(one, held, 55_000.0, n).inside, 1) for n in (40.0, 60.0)]
    [40.0, 49.5]
    """
    inside, delayed, preempted = _closed(lengths, held, kv_tokens, np.array([count]))
    return Admission(float(inside[0]), float(delayed[0]), float(preempted[0]))


@dataclass(frozen=True)
class Stay:
    """How long requests stay: with `count[k]` requests inside each stays `each_s[k]` (k, ascending; linear
    between and beyond); each preemption brings `again_s` of work more. `lumps`: how much wider the number
    inside spreads than by births and deaths, in variance."""

    count: Floats
    each_s: Floats
    again_s: float = 0.0
    lumps: float = 1.0

    @staticmethod
    def even(stay_s: float, rate: float, work_s: float) -> Stay:
        """Births and deaths with base_s + n · work_s, from the mean stay without a limit of KV at `rate`: an
        arrival finds rate · stay_s others. A stay may be shorter than its share of the server's work, which
        includes prompts: then as much work counts as leaves a lone request a tenth of it."""
        work_s = min(work_s, stay_s / (rate * stay_s + 0.1))
        base_s = stay_s - (rate * stay_s + 1) * work_s
        count = np.array([1.0, 2.0])
        return Stay(count, base_s + count * work_s)

    @staticmethod
    def of(stay_s: float, rate: float, count: Floats, each_s: Floats, again_s: float = 0.0) -> Stay:
        """`each_s` of closed loops, with the `lumps` that make the mean stay without a limit `stay_s` at
        `rate`."""
        even = Stay(count, each_s, again_s)
        n = np.arange(1.0, min(LONGEST, 12 * rate * stay_s + 100))
        fall = np.concatenate([[0.0], np.cumsum(np.log(rate * even.at(n) / n))])
        low, high = LUMPS
        for _ in range(HALVINGS):
            lumps = (low * high) ** 0.5
            chance = np.exp((fall - fall.max()) / lumps)
            fewer = float(chance[1:] @ n) < rate * stay_s * float(chance.sum())
            low, high = (lumps, high) if fewer else (low, lumps)
        return replace(even, lumps=(low * high) ** 0.5)

    def at(self, inside: Floats, preempted: Floats | float = 0.0) -> Floats:
        """Seconds that each of `inside` stays."""
        slope = (self.each_s[-1] - self.each_s[-2]) / (self.count[-1] - self.count[-2])
        beyond = np.maximum(inside - self.count[-1], 0.0) * slope
        return np.asarray(
            np.interp(inside, self.count, self.each_s) + beyond + inside * preempted * self.again_s
        )


def open_loop(lengths: Lengths, held: Held, kv_tokens: float, rate: float, stay: Stay) -> Admission:
    """Poisson arrivals, `rate` [1/s]. Beyond the capacity: the full cache, where everyone waits.

    Computing again what was preempted makes a full server slower than one with room: there may be a rate that
    only the latter carries. Then what is reached from an empty server is meant where it lasts for LASTING
    requests on average, else the full cache.
    """
    full = closed_loop(lengths, held, kv_tokens, 4 * places(lengths, held, kv_tokens) + 100)
    full_s = float(stay.at(np.array(full.inside), full.preempted))
    tail_of = 20 * stay.lumps / max(1 - rate * full_s / full.inside, 0.01)
    reach = min(LONGEST, int(4 * full.inside + 100 + tail_of))
    inside, delayed, preempted = _closed(lengths, held, kv_tokens, np.arange(1.0, reach + 1))
    served = inside / stay.at(inside, preempted)
    best = int(served.argmax())
    if rate >= served[best]:
        return full
    lost = np.flatnonzero(served[best:] <= rate)
    last = best + int(lost[0]) if len(lost) else reach
    log = np.concatenate([[0.0], np.cumsum(np.log(rate / served[:last]))]) / stay.lumps
    chance = np.exp(log - log.max())
    chance = chance / chance.sum()
    arrivals = float((np.cumsum(chance) / np.maximum(chance, 1e-300)).sum())  # from empty until it is lost
    if len(lost) and arrivals < LASTING:
        return full
    seen = chance[:-1] / chance[:-1].sum()  # an arrival makes one more
    met = (chance[1:] @ inside[:last], seen @ delayed[:last], seen @ preempted[:last])
    return Admission(*(float(x) for x in met))


def _closed(lengths: Lengths, held: Held, kv_tokens: float, count: Floats) -> tuple[Floats, Floats, Floats]:
    """Requests inside and the two chances, each of the shape of `count`."""
    spread = np.sqrt(np.maximum(count * held.variance, 1e-9))
    z = (kv_tokens - lengths.free + held.gained - count * held.mean) / spread
    over = spread * (density(z) - z * tail(z)) / held.mean
    inside = np.clip(count - over, 1.0, count)
    sd = np.sqrt(np.maximum((count - 1) * held.variance + lengths.need_variance, 1e-9))
    a = (kv_tokens - (count - 1) * held.mean - lengths.need_mean) / sd
    delayed = np.where(count > 1, tail(a), 0.0)  # an empty server takes any one
    if lengths.reserved is not None:
        return inside, delayed, np.zeros_like(delayed)
    x = np.clip(lengths.decay * inside * held.decoding, 1e-9, 500.0)
    c = x / np.expm1(x)
    crossed = c * lengths.grown_mean * density(a) / sd
    return inside, delayed, np.minimum(delayed * c**2 * lengths.caught + crossed, 1.0)
