"""Contexts: which share of one long prompt each group of ranks takes, where groups are unlike.

Sets       g in G  groups, in the order of their ring; g+1 is the next, after the last the first
Data       tokens            of the prompt                                              [token]
           fixed[g]          group g's seconds whatever its share: weights read, steps  [s]
           each[g]           its seconds a token, in the layers and in attention        [s/token]
           pass[g]           to send the keys and values of all tokens to g+1           [s]
           held[g] [byte/token]   room[g] [byte]   of the cache, on its fullest GPU
Choose     x[g]  real >= 0   tokens of group g
           work, ring  >= 0  seconds of the slowest group, and of the slowest link
minimise   work + ring
all        sum(g) x[g]                                   == tokens
busy[g]    fixed[g] + each[g] * x[g]                     <= work
pass[g]    pass[g] * (1 - x[g+1] / tokens)               <= ring      (g+1 has its own)
fit[g]     held[g] * x[g]                                <= room[g]

Tokens are dealt in zig-zag, early and late ones alike, so that causal attention is in proportion to them:
of N^2/2 pairs of queries and keys group g has x[g] N/2. The dual price of fit[g] is what a byte of room is
worth in seconds.

Source     ring: Liu et al. 2023 (arXiv:2310.01889); zig-zag: Brandon et al. 2023 (Striped Attention,
           arXiv:2311.09431). Unlike shares are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solvers.linear import Limits, Linear, Outcome, Undecided, Var, total


@dataclass(frozen=True)
class Group:
    """Numbers of one group; units are in the module docstring."""

    name: str
    fixed_s: float
    each_s: float
    pass_s: float
    held_bytes: float
    room_bytes: float

    @property
    def most_tokens(self) -> float:
        """That its room holds."""
        return self.room_bytes / self.held_bytes if self.held_bytes > 0 else float("inf")


@dataclass(frozen=True)
class Problem:
    """`groups` in the order of their ring, at least one, each with its own name."""

    tokens: float
    groups: Sequence[Group]

    def seconds(self, shares: Mapping[str, float]) -> float:
        """Seconds of the prompt with these tokens by group."""
        x = [shares.get(g.name, 0.0) for g in self.groups]
        work = max(g.fixed_s + g.each_s * own for g, own in zip(self.groups, x, strict=True))
        after = [*x[1:], x[0]]
        ring = max(g.pass_s * (1 - own / self.tokens) for g, own in zip(self.groups, after, strict=True))
        return work + (ring if len(x) > 1 else 0.0)


@dataclass(frozen=True)
class Solution:
    """Tokens by group and their seconds; `bound` by the duals; and what a byte of room is worth. None where
    the room is too small."""

    tokens: Mapping[str, float]
    seconds: float
    bound: float
    second_per_byte: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """The model, in units of `unit_s` and of the prompt: x = 1 is all of its tokens."""

    model: Linear
    x: Mapping[str, Var]
    unit_s: float


def solve(p: Problem) -> Solution | None:
    """The shares that are through first; None where the cache finds no room, or none were found in time.
    Raises KeyboardInterrupt."""
    built = build(p)
    return extract(p, built, built.model.relax(Limits()))


def build(p: Problem) -> Built:
    """Write the model: one statement for each line of the docstring, in its order."""
    m = Linear("contexts")
    x = m.reals("x", [g.name for g in p.groups])
    time = m.reals("time", ["work", "ring"])
    unit = max(g.fixed_s + g.each_s * p.tokens for g in p.groups)
    following = [*p.groups[1:], p.groups[0]]

    m.minimise([time["work"] * 1.0, time["ring"] * 1.0])
    m.add("all", "", total(x.values()).equals(1.0))
    for g in p.groups:
        row = total([x[g.name] * (g.each_s * p.tokens / unit), time["work"] * -1.0])
        m.add("busy", g.name, row <= -g.fixed_s / unit)
    for g, after in zip(p.groups, following, strict=True):
        sent = g.pass_s / unit if len(p.groups) > 1 else 0.0
        m.add("pass", g.name, total([x[after.name] * -sent, time["ring"] * -1.0]) <= -sent)
    for g in p.groups:
        m.add("fit", g.name, x[g.name] * 1.0 <= min(g.most_tokens / p.tokens, 2.0))
    return Built(m, x, unit)


def extract(p: Problem, built: Built, outcome: Outcome) -> Solution | None:
    """Recompute the seconds from the shares: the solver's own figure is not trusted."""
    try:
        if outcome.refuted:
            return None
    except Undecided:
        return None
    found = outcome.of(built.x)
    whole = sum(found.values())
    tokens = {name: share / whole * p.tokens for name, share in found.items()}
    price = {g.name: max(-outcome.duals["fit", g.name], 0.0) * built.unit_s for g in p.groups}
    return Solution(
        tokens,
        p.seconds(tokens),
        (outcome.bound or 0.0) * built.unit_s,
        {g.name: price[g.name] / (g.held_bytes * p.tokens) for g in p.groups if g.held_bytes > 0},
    )
