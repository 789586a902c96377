"""All candidates of a cluster, and the setups that they are designs of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.candidates.candidate import Candidate, Key
from planner.candidates.pairing import NO_EDGES, Edges, Pairing
from planner.candidates.setup import Made, Setup


@dataclass(frozen=True)
class Pool:
    """`columns`: operating points of designs that were looked at; `edges` of prefill/decode pairs at which
    those stand. `late`: the time was over before all were; `unseen`: then classes with the engines of which
    none was."""

    candidates: tuple[Candidate, ...]
    made: Mapping[Key, Made]
    columns: int = 0
    edges: Edges = NO_EDGES
    pairing: Pairing | None = None
    late: bool = False
    unseen: tuple[tuple[str, str], ...] = ()

    def setup(self, c: Candidate) -> Setup:
        """The setup that `c` is a design of."""
        return self.made[c.key].setup

    @property
    def plain(self) -> list[Made]:
        """Kinds of replica without variants."""
        return [made for made in self.made.values() if made.plain]

    @property
    def bare(self) -> list[Made]:
        """Setups that keep no idle cache and draft nothing."""
        return [made for key, made in self.made.items() if not (key.level or key.draft)]

    @property
    def considered(self) -> int:
        """Designs and operating points that were looked at."""
        return sum(made.considered for made in self.made.values()) + self.columns

    @property
    def fitting(self) -> int:
        """Designs whose weights and one prompt find room."""
        return sum(len(made.setup.fitting) for made in self.plain)

    @property
    def levels(self) -> int:
        """At which idle cache is kept."""
        return max((key.level for key in self.made), default=0)

    @property
    def limits(self) -> int:
        """How many limits the GPUs of a class may be told at most."""
        told: dict[str, set[float]] = {}
        for key in self.made:
            told.setdefault(key.where, set()).update({key.power} - {0.0})
        return max(map(len, told.values()), default=0)

    @property
    def drafts(self) -> list[str]:
        """Ways to draft."""
        return sorted({key.draft for key in self.made if key.draft})
