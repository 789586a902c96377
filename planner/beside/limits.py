"""Which limit keeps the servers of a replica group from taking more, read off their operation.

A share of 1 is a limit reached. Times are the cautious ones that the SLO is kept with (`Group.caution`), over
the buckets that the group serves. Next to the promises stand the KV room, the time of a server (of one that
only prefills up to the ceiling of its load), the prompt tokens of a step and the sequences that an engine is
planned with; NICs and links where a prompt's cache goes from one group to another.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.candidates.largest import MOST_SEQUENCES
from planner.plans.found import Found, Group, Pair, busy, paths

AT = 0.97
"""Share of a limit from which on it is what holds a group: batches are whole numbers, loads come in steps."""


def limit(g: Group, first_s: float | None = None) -> tuple[str, float] | None:
    """The limit that a group is nearest to, and its share of it; None where it is at none. `first_s`:
    cautious TTFT [s] of its requests where that is more than the group's own (a pair's: with transfer and
    decode step)."""
    name, share = max(shares(g, first_s).items(), key=lambda item: item[1])
    if share >= AT:
        return name, share
    full = g.operation.sequences * g.candidate.design.attn_dp / g.candidate.batch
    return None if prefills(g) or full < AT else (f"its batch of {g.candidate.batch:,}", full)


def shares(g: Group, first_s: float | None = None) -> dict[str, float]:
    """How much of each limit is used, as a share of it."""
    op, s, role = g.operation, g.setup, g.candidate.role
    served = [int(w) for w, rate in g.served.items() if rate > 0]
    ttft_s = float(op.cautious_ttft_s[served].max()) if first_s is None else first_s
    room = "KV room" if s.place is None else "the room for idle cache"
    used = {
        "the TTFT limit": 0.0 if role == "decode" else ttft_s / s.promise.ttft_s,
        room: op.utilisation if op.utilisation > op.busy else 0.0,  # of its time, or of a fuller resource
    }
    if prefills(g):
        return used | {f"the ceiling of {100 * s.busiest:.0f} % of its time": op.busy / s.busiest}
    decoding = [w for w in served if s.mix.osl[w] > 1]
    tokens = op.rate * (s.decoded + (s.mix.new if role == "mixed" else 0.0))
    return used | {
        "the TPOT limit": float(op.tpot_s[decoding].max(initial=0.0)) * g.caution[1] / s.promise.tpot_s,
        "its time": op.busy,
        f"the {s.token_budget:,} tokens of a step": float(tokens[served] @ op.tpot_s[served])
        / s.token_budget,
        f"the cap of {MOST_SEQUENCES:,} sequences": op.sequences / MOST_SEQUENCES,
    }


def prefills(g: Group) -> bool:
    """Whether a group makes no token after the first."""
    return g.operation.does == "prefill"


def binding(found: Found, made: Sequence[Group]) -> str | None:
    """What holds a fleet back, in words, with the group that it holds; None where nothing does. NICs and
    links come first: where they are full TTFT is late for that."""
    ways, labels = paths(found, made), {g.id: label(g) for g in made}
    pairs = [Pair(p.first, p.second, str(p.bucket), p.rate) for p in ways if p.second]
    (word, name), share = max(busy(found, pairs).items(), key=lambda item: item[1], default=(("", ""), 0.0))
    if share >= AT:
        return (
            f"the link {name} is full" if word == "over" else f"the NICs {word} its {labels[name]} are full"
        )
    held = []
    for g in made:
        first_s = max((p.cautious_ttft_s for p in ways if p.first is g), default=None)
        if (nearest := limit(g, first_s)) is not None:
            held.append((nearest[1], g.count * g.candidate.gpus, f"its {label(g)} is held by {nearest[0]}"))
    return max(held)[-1] if held else None


def label(g: Group) -> str:
    """A group's design, with its role where it has one phase."""
    return g.candidate.label if g.candidate.role == "mixed" else f"{g.candidate.role} {g.candidate.label}"
