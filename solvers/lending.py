"""Lending: what a fleet serves where replicas keep part of the cache of other replicas' requests.

Sets       g, h in G  groups of equal servers     w in W  buckets of requests
Data       count[g]                servers                       room[g]  tokens of one's cache      [token]
           context[w]              tokens that a decoding sequence holds                             [token]
           steps[w]                decode steps of a request     share[w] of all requests
           base[g]                 of a step, whatever is in it  pace     that all steps keep        [s]
           seq[g]    [s/sequence]  token[g] [s/token]            prompt[g,w] of a whole prompt       [s]
           message                 queries and outputs of a step of one sequence, a piece away       [byte]
           piece                   least tokens of a sequence lent together                          [token]
           port[g]                 of one server's NICs          link[k]  of all flows together      [byte/s]
           wait                    of a step for others' answers, where anything is lent             [s]
Choose     b[g,w]     real >= 0    sequences of w that decode on g
           own[g,w]   real >= 0    tokens of them there          [token]
           lent[g,w,h] real >= 0   tokens of them on other servers, of h (g's own others, where g has any)
           rate       real >= 0    requests                      [1/s]
maximise   rate
serve[w]   sum(g) b[g,w] / (steps[w] pace)                          == share[w] * rate
hold[g,w]  own[g,w] + sum(h) lent[g,w,h]                            == context[w] * b[g,w]
room[h]    sum(w) own[h,w] + sum(g,w) lent[g,w,h]                   <= count[h] * room[h]
busy[h]    sum(w) (seq[h] + prompt[h,w] / steps[w]) * b[h,w]
           + token[h] * (tokens in h, as in room)                   <= count[h] * (pace - base[h] - wait)
send[g]    sum(w,h) lent[g,w,h] * message / min(piece, context[w])  <= count[g] * port[g] * pace
take[h]    the same of all that is lent to h                        <= count[h] * port[h] * pace
over[k]    the same of all that is lent over link k                 <= link[k] * pace
whole[g]   alone: sum(w) b[g,w] / floor(room[g] / context[w])       <= count[g],  nothing lent

Alone a request fits a server whole or not at all; with lending it fits if the fleet has room. Attention on
lent tokens is their keeper's work; a query and its partial output cross in each layer.

Source     Infinite-LLM (arXiv:2401.02669); the program is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from solvers.linear import INF, Limits, Linear, Outcome, Term, Undecided, Var, total

Lent = tuple[str, str, str]
"""(borrower, bucket, lender)."""


@dataclass(frozen=True)
class Servers:
    """A group; units are in the module docstring."""

    count: int
    room: float
    base_s: float
    sequence_s: float
    token_s: float
    prompt_s: Mapping[str, float]
    port_bytes_per_s: float


@dataclass(frozen=True)
class Bucket:
    """Requests of one kind; units are in the module docstring."""

    context: float
    steps: float
    share: float


@dataclass(frozen=True)
class Problem:
    """`over[g, h]`: names of the links between two groups; absent where nothing joins them."""

    servers: Mapping[str, Servers]
    buckets: Mapping[str, Bucket]
    pace_s: float
    message_bytes: float
    piece: float
    wait_s: float = 0.0
    over: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    link_bytes_per_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def ways(self) -> list[Lent]:
        """Who may lend to whom: joined groups, and a group of several servers among themselves."""
        able = [k for k in self.over if k[0] != k[1] or self.servers[k[0]].count > 1]
        return [(g, w, h) for g, h in able for w in self.buckets]


@dataclass(frozen=True)
class Solution:
    """Requests/s, `bound` by the duals, and tokens lent by borrower, bucket and lender."""

    rate: float
    bound: float
    lent: Mapping[Lent, float]


@dataclass(frozen=True)
class Built:
    """The model, to minimise -rate."""

    model: Linear
    b: Mapping[tuple[str, str], Var]
    lent: Mapping[Lent, Var]


def solve(p: Problem, alone: bool = False) -> Solution:
    """The most requests/s; 0 where a bucket fits nowhere, without a bound where the time ended first. Raises
    KeyboardInterrupt. `alone`: nothing is lent."""
    built = build(p, alone)
    return extract(p, built, built.model.relax(Limits()))


def build(p: Problem, alone: bool = False) -> Built:
    """Write the model: one statement for each line of the docstring, in its order."""
    m = Linear("lending")
    pairs = [(g, w) for g in p.servers for w in p.buckets]
    b, own = m.reals("b", pairs), m.reals("own", pairs)
    lent = m.reals("lent", [] if alone else p.ways)
    rate = m.reals("rate", [""])[""]
    kept = {h: [v * 1.0 for (g, _), v in own.items() if g == h] for h in p.servers}
    for (_, _, h), v in lent.items():
        kept[h].append(v * 1.0)

    m.minimise([rate * -1.0])
    for w, k in p.buckets.items():
        served = [b[g, w] * (1 / (k.steps * p.pace_s)) for g in p.servers]
        m.add("serve", w, total([*served, rate * -k.share]).equals(0.0))
    for g, w in pairs:
        away = [v * 1.0 for (of, v_w, _), v in lent.items() if (of, v_w) == (g, w)]
        row = [own[g, w] * 1.0, *away, b[g, w] * -p.buckets[w].context]
        m.add("hold", (g, w), total(row).equals(0.0))
    for h, s in p.servers.items():
        m.add("room", h, total(kept[h]) <= s.count * s.room)
    for h, s in p.servers.items():
        each = [b[h, w] * (s.sequence_s + s.prompt_s[w] / k.steps) for w, k in p.buckets.items()]
        read = [Term(i, c * s.token_s) for i, c in kept[h]]
        left = p.pace_s - s.base_s - (0.0 if alone else p.wait_s)
        m.add("busy", h, total([*each, *read]) <= s.count * left)
    _messages(p, m, lent)
    for g, s in p.servers.items() if alone else ():
        fits = {w: floor(s.room / k.context) for w, k in p.buckets.items()}
        for w in (w for w, n in fits.items() if n == 0):
            m.fix(b[g, w], 0.0)
        m.add("whole", g, total(b[g, w] * (1 / n) for w, n in fits.items() if n) <= float(s.count))
    return Built(m, b, lent)


def _messages(p: Problem, m: Linear, lent: Mapping[Lent, Var]) -> None:
    """Rows send, take, over."""
    sent = {key: v * (p.message_bytes / min(p.piece, p.buckets[key[1]].context)) for key, v in lent.items()}
    for g, s in p.servers.items():
        most = s.count * s.port_bytes_per_s * p.pace_s
        m.add("send", g, total(t for (of, _, _), t in sent.items() if of == g) <= most)
        m.add("take", g, total(t for (_, _, h), t in sent.items() if h == g) <= most)
    for k, bytes_per_s in p.link_bytes_per_s.items():
        across = total(t for (g, _, h), t in sent.items() if k in p.over[g, h])
        m.add("over", k, across <= bytes_per_s * p.pace_s)


def extract(p: Problem, built: Built, outcome: Outcome) -> Solution:
    """Recompute the rate from the sequences: the solver's own figure is not trusted."""
    try:
        if outcome.refuted:
            return Solution(0.0, 0.0, {})
    except Undecided:
        return Solution(0.0, INF, {})
    sequences = outcome.of(built.b)
    rates = []
    for w, k in p.buckets.items():
        served = sum(sequences.get((g, w), 0.0) for g in p.servers) / (k.steps * p.pace_s)
        rates += [served / k.share] if k.share > 0 else []
    bound = INF if outcome.bound is None else -outcome.bound
    return Solution(min(rates, default=0.0), bound, outcome.of(built.lent))
