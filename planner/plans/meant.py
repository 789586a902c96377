"""A fleet that was solved for a tighter workload than it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.inputs.workload import Workload
from planner.plans.found import Found, Group, groups
from planner.plans.schema import Cap, Replayed, Space
from planner.plans.strain import scaled


@dataclass(frozen=True)
class Meant:
    """The workload that a fleet is for, where it was solved for a tighter one, and the replay that sized
    it."""

    workload: Workload
    replayed: Replayed | None = None

    def fleet(
        self, found: Found, made: Sequence[Group]
    ) -> tuple[Found, Sequence[Group], Mapping[str, list[Group]]]:
        """A fleet and its groups under the traffic that it is for, and by candidate under what it was sized
        for: batches are for that, too."""
        rate, value = self.workload.rate_rps, found.solution.objective
        assert rate is not None
        real = scaled(found, rate / found.solution.rate)
        real = replace(real, workload=self.workload, solution=replace(real.solution, objective=value))
        return real, groups(real), {g.candidate.id: [g] for g in made}


def sized(space: Space, tight: Workload) -> Space:
    """The space of a fleet that a replay sized: the bound is of the `tight` workload, that stands for the
    arrivals."""
    what = "requests/s at random that stand for the arrivals replayed, with limits as tight as they need"
    cap = Cap(what=what, value=tight.rate_rps or 0.0, binds=True)
    return space.model_copy(update={"caps": [cap, *space.caps], "complete": False})
