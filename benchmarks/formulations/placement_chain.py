"""Chain: blocks one after another, region after region, that carry a flow through all layers.

Sets       b in B   blocks of one region r(b), of length[b] layers         g in G  groups
           s        signatures: the capacities of the nodes at a block's ends
           q in Q   joints (r, s, m, r', s'): region r, leaving by a block of signature s, hands all to r',
                    entered by one of s'; between them m, a block across both regions, or nothing
Data       length, uses[b,g], uses[m,g] nodes     nodes[g]     layers L
Choose     z[b]     integer >= 0   copies of b
           leave[b], enter[b]  0/1    b stands at the end (start) of its region
           q[.]     0/1            joint taken
           on[r]    0/1  region used      at[r] >= 0  its place in the order
minimise   sum(g) worth[g] * nodes used     (the first plan found is as good as any: the flow is given)
layers     sum(b) length * z + sum(q) length[m] * q        >= L
stock[g]   sum(b) uses[b,g] * z + sum(q) uses[m,g] * q     <= nodes[g]
copies[b]  leave[b] + enter[b]                             <= z[b]
used[r]    sum(b in r) z[b]                                <= nodes of r * on[r]
left[r,s]  sum(q from r, s) q                              <= sum(b in r of s) leave[b]
taken[r,s] sum(q to r, s) q                                <= sum(b in r of s) enter[b]
out[r], in[r]  sum(q from r) q <= 1,  sum(q to r) q <= 1
chain      sum(q) q                                        == sum(r) on[r] - 1
order[r,r'] at[r'] >= at[r] + 1 - R * (1 - sum(q from r to r') q)

A joint is possible where its links, all taken to be as wide as `width[r,r']`, can carry the flow; whether the
links themselves do is found afterwards, on the placement (placement_routing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.formulations.placement_blocks import ROUND, Block
from solvers.linear import Limits, Linear, Term, total
from solvers.placement.types import Network

Ends = tuple[float, ...]
SIGNATURES, ACROSS = 8, 8
"""Signatures a region, and blocks across a pair of regions, that joints are made of: the cheapest."""


@dataclass(frozen=True)
class Joint:
    """Region `a` left by a block with `ends_a`, `b` entered by one with `ends_b`; `across` stands between."""

    a: int
    ends_a: Ends
    across: Block | None
    b: int
    ends_b: Ends


def chain(
    network: Network,
    blocks: Sequence[Block],
    across: Sequence[Block],
    flow: float,
    width: Mapping[tuple[int, int], float],
    limits: Limits,
) -> list[Block] | None:
    """Blocks in the order of their layers, or None where none was found within `limits`."""
    regions = sorted({b.region for b in blocks})
    if not regions:
        return None
    q_keys = _joints(blocks, across, flow, width)
    m = Linear("chain")
    numbers = range(len(blocks))
    z = m.integers("z", numbers)
    leave = m.integers("leave", numbers if q_keys else [], 1)
    enter = m.integers("enter", numbers if q_keys else [], 1)
    q = m.integers("q", range(len(q_keys)), 1)
    on = m.integers("on", regions, 1)
    at = m.reals("at", regions, len(regions))
    m.minimise(
        [z[i] * b.cost for i, b in enumerate(blocks)]
        + [q[i] * j.across.cost for i, j in enumerate(q_keys) if j.across]
    )
    between = [q[i] * j.across.length for i, j in enumerate(q_keys) if j.across]
    m.add("layers", "", total([*(z[i] * b.length for i, b in enumerate(blocks)), *between]) >= network.layers)
    for g, members in network.groups.items():
        taken: list[Term] = [z[i] * b.uses[g] for i, b in enumerate(blocks) if b.uses[g]]
        taken += [q[i] * j.across.uses[g] for i, j in enumerate(q_keys) if j.across and j.across.uses[g]]
        m.add("stock", g, total(taken) <= len(members))
    for i in leave:
        m.add("copies", i, total([leave[i], enter[i], z[i] * -1.0]) <= 0)
    for r in regions:
        mine = [i for i in numbers if blocks[i].region == r]
        m.add("used", r, total([*(z[i] for i in mine), on[r] * -float(network.regions.count(r))]) <= 0)
        m.add("out", r, total(q[i] for i, j in enumerate(q_keys) if j.a == r) <= 1)
        m.add("in", r, total(q[i] for i, j in enumerate(q_keys) if j.b == r) <= 1)
        for s in {j.ends_a for j in q_keys if j.a == r}:
            gone = [q[i] * 1.0 for i, j in enumerate(q_keys) if (j.a, j.ends_a) == (r, s)]
            m.add(
                "left", (r, s), total([*gone, *(leave[i] * -1.0 for i in mine if blocks[i].ends == s)]) <= 0
            )
        for s in {j.ends_b for j in q_keys if j.b == r}:
            come = [q[i] * 1.0 for i, j in enumerate(q_keys) if (j.b, j.ends_b) == (r, s)]
            m.add(
                "taken", (r, s), total([*come, *(enter[i] * -1.0 for i in mine if blocks[i].ends == s)]) <= 0
            )
    m.add("chain", "", total([*q.values(), *(on[r] * -1.0 for r in regions)]).equals(-1.0))
    count = len(regions)
    for a, b in sorted({(j.a, j.b) for j in q_keys}):
        pair = [q[i] * -float(count) for i, j in enumerate(q_keys) if (j.a, j.b) == (a, b)]
        m.add("order", (a, b), total([at[b], at[a] * -1.0, *pair]) >= 1 - count)

    outcome = m.solve(limits)
    if not outcome.has_values:
        return None
    joints = [q_keys[i] for i in outcome.counts(q)]
    copies = {blocks[i]: n for i, n in outcome.counts(z).items()}
    return _in_order(copies, joints)


def _in_order(copies: dict[Block, int], joints: list[Joint]) -> list[Block]:
    """Region after region; in each the block that it is entered by first, the one it is left by last."""
    into, out = {j.b: j for j in joints}, {j.a: j for j in joints}
    region = next(r for r in sorted({b.region for b in copies}) if r not in into)
    order: list[Block] = []
    while True:
        mine = [b for b, n in copies.items() if b.region == region for _ in range(n)]
        first = last = None
        if region in out:
            last = next(b for b in mine if b.ends == out[region].ends_a)
            mine.remove(last)
        if region in into:
            first = next((b for b in mine if b.ends == into[region].ends_b), None)
            if first is not None:
                mine.remove(first)
        order += [*([first] if first else []), *sorted(mine, key=_shape), *([last] if last else [])]
        if region not in out:
            return order
        order += [across] if (across := out[region].across) else []
        region = out[region].b


def _shape(block: Block) -> tuple[object, ...]:
    return (block.length, [(lane.step, lane.nodes) for lane in block.lanes])


def _joints(
    blocks: Sequence[Block], across: Sequence[Block], flow: float, width: Mapping[tuple[int, int], float]
) -> list[Joint]:
    """All joints of the cheapest signatures and crossing blocks that can carry the flow."""
    ends: dict[int, list[Ends]] = {}
    for block in sorted(blocks, key=lambda b: (b.cost - b.length, b.ends)):
        seen = ends.setdefault(block.region, [])
        if block.ends not in seen and len(seen) < SIGNATURES:
            seen.append(block.ends)
    found = []
    for (a, b), u in sorted(width.items()):
        for sa in ends.get(a, []):
            for sb in ends.get(b, []):
                if carried(sa, sb, u) >= flow * ROUND:
                    found.append(Joint(a, sa, None, b, sb))
                if carried(sa, sb, u) >= flow * ROUND:
                    continue  # nothing is gained by a block between
        between = [m for m in across if (m.lanes[0].region, m.lanes[1].region) == (a, b)]
        for m in sorted(between, key=lambda m: m.cost - m.length)[:ACROSS]:
            near, far = m.lanes
            for sa in ends.get(a, []):
                come = min(far.reach, carried(sa, far.capacities, u))
                for sb in ends.get(b, []):
                    stay = min(near.reach, carried(near.capacities, sb, u))
                    if come + stay >= flow * ROUND:
                        found.append(Joint(a, sa, m, b, sb))
    return found


def carried(out: Ends, into: Ends, width: float) -> float:
    """What nodes of capacities `out` can hand to nodes `into` (both falling), each pair over `width`.

    >>> carried((10.0,), (6.0, 3.0), 4.0), carried((5.0, 5.0), (9.0,), 4.0)
    (7.0, 8.0)
    """
    return min(
        sum(out[len(out) - x :]) + sum(into[len(into) - y :]) + width * (len(out) - x) * (len(into) - y)
        for x in range(len(out) + 1)
        for y in range(len(into) + 1)
    )
