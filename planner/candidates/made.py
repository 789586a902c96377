"""A setup and what is offered of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Key
from planner.candidates.setup import Role, Setup
from planner.designs.shape import Ints


@dataclass(frozen=True)
class Made:
    """What a kind of replica (`planner/replicas`) or a variant of one (`planner/variants`) makes: a setup
    under its key, on the class `node` (None: stages on several), and `parts`: indices of designs, each with
    the roles in which these are offered. `considered`: designs that were looked at for it."""

    key: Key
    setup: Setup
    node: NodeClass | None
    parts: tuple[tuple[Ints, Sequence[Role]], ...]
    considered: int = 0

    @staticmethod
    def of(key: Key, s: Setup, node: NodeClass | None, roles: Sequence[Role]) -> Made:
        """All designs of a setup that have room, in `roles`."""
        return Made(key, s, node, ((s.fitting, roles),), len(s.designs))

    def only(self, roles: Sequence[Role]) -> Made:
        """This setup with its parts in those roles alone that are among `roles`."""
        left = ((index, [r for r in own if r in roles]) for index, own in self.parts)
        return replace(self, parts=tuple((index, own) for index, own in left if own))

    @property
    def roles(self) -> Sequence[Role]:
        """Every role that some of its designs are offered in."""
        return list(dict.fromkeys(role for _, own in self.parts for role in own))

    @property
    def plain(self) -> bool:
        """Whether it is what its kind of replica is without variants."""
        return self.key == Key(self.key.where, self.key.engine, self.key.kind)
