"""Idle KV cache of a replica group at its real load: what is held and found, how long room lasts, what the
best times to live by kind would add, and the price of one more GB of each tier (`solvers.idle_cache`).

All per GPU and server (one attention-dp rank), as rates, links and rooms are shared evenly among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.candidates.idle_cache import Keep, places
from planner.cost.idle_cache import Resting, resting_of
from planner.designs.shape import Floats
from planner.inputs.workload import Workload
from planner.plans import schema
from planner.plans.found import Group
from planner.plans.operation import index_of
from planner.problems import idle_cache as stated
from planner.problems.idle_cache import GB, Tier
from solvers import idle_cache as keeping
from solvers.idle_cache import KeepingProblem, KeepingSolution
from solvers.linear import Limits

LONGEST_S = 1e6
"""Said of what the room holds for ever."""

LIMITS = Limits(seconds=5.0)


@dataclass(frozen=True, eq=False)
class Posed:
    """The program of one group: `tiers` that its engine can use, the first `own` of which the plan uses."""

    group: Group
    keep: Keep
    resting: Resting
    tiers: list[Tier]
    own: list[int]
    token_bytes: Floats  # by bucket

    @property
    def rate(self) -> Floats:
        return self.group.operation.rate

    def problem(self, chosen: list[int] | None = None) -> KeepingProblem:
        """With these tiers, or all."""
        step = self.group.candidate.step
        assert step is not None
        base, pair = float(step.prefill_s_per_token[0]), float(step.prefill_s_per_pair[0])
        some = self.tiers if chosen is None else [self.tiers[i] for i in chosen]
        return stated.state(self.resting, self.rate, self.token_bytes, lambda d: base + pair * d, some)

    @property
    def lasts_s(self) -> float:
        """How long what rests stays, in the slowest tier that the plan uses."""
        room = self.tiers[self.own[-1]].bytes
        return min(self.resting.keep_s(room, self.rate * self.token_bytes), LONGEST_S)


def kept(g: Group, workload: Workload) -> schema.Kept | None:
    """What the group keeps between requests; None where it keeps nothing."""
    s, c, op = g.setup, g.candidate, g.operation
    resting = resting_of(workload)
    if s.keep is None or resting is None:
        return None
    at, gpus, keep = index_of(s, c), c.gpus, s.keep
    prompt = float(op.rate @ s.mix.isl)
    found = np.minimum(keep.found, s.mix.isl - s.mix.new)
    idle = float(op.rate @ s.idle_byte_s[at])
    loads = 0.0 if s.place is None else float(op.rate @ (s.loading_s[at] * s.place.read_bytes_per_s))
    posed = _posed(g, resting, idle)
    best = keeping.solve(posed.problem(posed.own), LIMITS)
    plain = keeping.saved(posed.problem([0]), stated.by_age(resting, [posed.lasts_s]))
    everywhere = keeping.solve(posed.problem(), LIMITS)
    return schema.Kept(
        place=keep.place,
        keep_s=keep.keep_s,
        lasts_s=posed.lasts_s,
        hit=float(op.rate @ found) / prompt,
        found_tokens=found.tolist(),
        bytes=idle * gpus,
        shared_bytes=float(s.shared_bytes[at]) * gpus,
        loads_gb_per_s=loads * gpus / GB,
        best_adds=max(best.saved / plain - 1, 0.0) if plain > 0 else 0.0,
        times=_times(posed, everywhere),
        prices=_prices(posed, everywhere),
    )


def _posed(g: Group, resting: Resting, idle: float) -> Posed:
    """GPU memory that running sequences leave, and what stands beside."""
    s, c, op = g.setup, g.candidate, g.operation
    at, keep = index_of(s, c), s.keep
    assert keep is not None
    room = float(s.memory.kv_bytes[at]) * (1 - op.kv_used) - float(s.shared_bytes[at])
    free = max(room, idle if keep.place == "hbm" else 0.0, 0.0)
    beside = places(s.model.node_class, c.engine, s.model.card)
    tiers = [Tier("hbm", free)]
    tiers += [Tier(p.name, p.bytes, p.read_bytes_per_s, p.write_bytes_per_s) for p in beside]
    own = sorted({0, *(i for i, t in enumerate(tiers) if t.name == keep.place)})
    return Posed(g, keep, resting, tiers, own, s.idle_token_bytes[at])


def _times(posed: Posed, best: KeepingSolution) -> list[schema.KeptTime]:
    """Seconds that each kind of idle cache stays in each tier, by name, kinds that return alone."""
    made: list[schema.KeptTime] = []
    r = posed.resting
    returns = r.back.sum(axis=1) > 0
    seconds = (best.kept * r.widths_s).sum(axis=2)
    for name in dict.fromkeys(n for n, back in zip(r.names, returns, strict=True) if back):
        mine = np.array([n == name for n in r.names]) & (r.tokens > 0)
        if not mine.any():
            continue
        mean = (r.tokens[mine, None] * seconds[mine]).sum(axis=0) / r.tokens[mine].sum()
        stay = {tier.name: float(x) for tier, x in zip(posed.tiers, mean, strict=True)}
        made.append(schema.KeptTime(kind=name, seconds=stay))
    return made


def _prices(posed: Posed, best: KeepingSolution) -> list[schema.Price]:
    """One more GB of each tier for a replica: as output tokens of the time that it saves."""
    op, c, problem = posed.group.operation, posed.group.candidate, posed.problem()
    s = posed.group.setup
    out = float(op.rate @ s.mix.osl) * c.design.attn_dp / max(op.busy, 1e-9)
    more = 1 / c.gpus
    return [
        schema.Price(
            limit=f"{tier.name} of {posed.group.id}",
            one_more="1 GB",
            worth=out * keeping.worth(problem, best, i, more, LIMITS),
            unit="tok/s",
            marginal=out * more * float(best.price[i]),
        )
        for i, tier in enumerate(posed.tiers)
    ]


def tiers(made: Sequence[Group], found: Mapping[str, schema.Kept | None]) -> list[schema.Tiered]:
    """What of it lies beside the GPUs."""
    return [
        schema.Tiered.model_validate(
            {"replica": g.id, "tier": k.place, "what": "cache", "layers": [], "bytes": k.bytes, "way": "pcie"}
        )
        for g in made
        if (k := found.get(g.id)) is not None and k.place != "hbm"
    ]


def routing(found: Mapping[str, schema.Kept | None]) -> list[schema.PlanWarning]:
    """What is kept on one replica is of no use to another."""
    groups = ", ".join(name for name, k in found.items() if k is not None)
    if not groups:
        return []
    message = (
        f"{groups}: what is kept between requests lies on one replica, so the router must send a session "
        "back to it, and what begins alike to the same ones (prefix- or cache-aware routing)"
    )
    return [schema.PlanWarning(code="session_routing", message=message)]
