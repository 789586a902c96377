"""Why a fleet is worse than the plan, in the terms of what is asked for, and never against the verdict: a
figure is shown only where it differs the way the objectives do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.beside.limits import binding, label
from planner.candidates.candidate import Candidate
from planner.objectives import Figure
from planner.plans.found import Found, Group, groups, paths

Kind = tuple[str, str, str, str]
"""Role, class, engine and layout of a replica."""

SAME = 0.0005
"""Share of an objective below which two are said to be equal."""

NAMED = 4
"""Replica groups of a fleet that are named."""


@dataclass(frozen=True)
class Fleet:
    """A solved fleet with an objective; `wider`: the bound on fleets of any kinds, of one chosen for few."""

    found: Found
    wider: float | None = None

    @cached_property
    def made(self) -> list[Group]:
        """Groups that serve something, at their real load."""
        return groups(self.found)

    @property
    def objective(self) -> float:
        value = self.found.solution.objective
        assert value is not None
        return value

    @property
    def bound(self) -> float | None:
        return self.found.solution.bound if self.wider is None else self.wider

    @property
    def rate(self) -> float:
        """Requests/s."""
        return self.found.solution.rate

    @cached_property
    def kinds(self) -> dict[Kind, int]:
        """GPUs of each kind of replica."""
        sizes: dict[Kind, int] = {}
        for g in self.made:
            sizes[kind(g.candidate)] = sizes.get(kind(g.candidate), 0) + g.count * g.candidate.gpus
        return sizes

    @cached_property
    def splits(self) -> bool:
        """Whether it prefills and decodes on servers apart."""
        return any(g.candidate.role != "mixed" for g in self.made)

    @cached_property
    def ttft_ms(self) -> float:
        """Mean TTFT of all requests."""
        ways = paths(self.found, self.made)
        return 1e3 * sum(way.rate * way.ttft_s for way in ways) / sum(way.rate for way in ways)

    @cached_property
    def gap_ms(self) -> float:
        """Longest usual time between two tokens of a request."""
        return 1e3 * max(g.operation.gap_s for g in self.made if g.operation.does != "prefill")

    def gain(self, theirs: float) -> float:
        """How much better another objective is, as a share of this one; below 0: worse."""
        return -self.found.objective.loss(self.objective, theirs)


def kind(c: Candidate) -> Kind:
    """What a replica is, however it is loaded."""
    return c.role, c.node_class, c.engine, c.runs


def describe(made: Sequence[Group]) -> str:
    """A fleet in short: "4 x tp2 h100-sxm (vllm)", prefill and decode marked; limited GPUs: "at 490 W"."""
    parts = []
    for g in made[:NAMED]:
        device = "" if g.candidate.design.stages else f" {g.setup.model.node_class.device.name}"
        limit = f" at {watts:.0f} W" if (watts := g.setup.model.limit_watts) else ""
        parts.append(f"{g.count} x {label(g)}{device}{limit} ({g.candidate.engine})")
    return " + ".join(parts) + (" + …" if len(made) > NAMED else "")


def lacking(best: Fleet, rival: Fleet) -> str:
    """The plan's kinds that a fleet lacks, where it is too large to be seen in short; else nothing."""
    less = sorted(best.kinds.keys() - rival.kinds.keys(), key=lambda k: (-best.kinds[k], k))
    named = ", ".join(f"{role} {design} {where} ({engine})" for role, where, engine, design in less)
    return f"without {named}" if len(rival.made) > NAMED else ""


def why(best: Fleet, rival: Fleet) -> str:
    """What makes the difference, in the first figure that speaks for the verdict and shows when rounded; and
    what holds a rival back that is worse."""
    gained = best.gain(rival.objective)
    if abs(gained) < SAME:
        return ""
    terms = best.found.objective.terms
    both = [(t, t.unit * figure(rival, t.figure), t.unit * figure(best, t.figure)) for t in terms]
    told = [(t.words, a, b) for t, a, b in both if (a - b) * (1 if t.more else -1) * gained > 0]
    said = [words.format(a, b) for words, a, b in told if words.format(a, a) != words.format(b, b)]
    held = binding(rival.found, rival.made) if gained < 0 else None
    return "; ".join([*said[:1], *([held] if held else [])])


def figure(fleet: Fleet, what: Figure) -> float:
    """A figure of a fleet that an objective speaks in."""
    gpus, w = sum(fleet.kinds.values()), fleet.found.workload
    if what == "gpus":
        return gpus
    if what == "rate_per_gpu":
        return fleet.rate / gpus
    if what == "rate_per_spent":
        return fleet.rate / fleet.objective
    if what == "per_token":
        osl = sum(b.osl * share for b, share in zip(w.buckets, w.shares, strict=True))
        return fleet.objective / (fleet.rate * osl)
    return _times_s(fleet)[what == "tpot_s"]


def _times_s(fleet: Fleet) -> tuple[float, float]:
    """TTFT and TPOT, mean over requests."""
    ways = paths(fleet.found, fleet.made)
    rate = sum(p.rate for p in ways)
    return sum(p.rate * p.ttft_s for p in ways) / rate, sum(p.rate * p.tpot_s for p in ways) / rate
