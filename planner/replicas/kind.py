"""What a kind of replica is: a function from the nodes and what is asked to setups of designs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates.ask import Ask, serving
from planner.candidates.candidate import Candidate
from planner.candidates.setup import Made


@dataclass(frozen=True)
class Space:
    """Where designs are looked for, and what for. `one_more`: also those of one node more than a class has,
    so that the worth of a node is found in the same space. `found`: candidates of the kinds before."""

    classes: Sequence[NodeClass]
    links: Sequence[ClusterLink]
    ask: Ask
    one_more: bool = True
    found: Sequence[Candidate] = ()

    def able(self, engine: str) -> list[NodeClass]:
        """The classes on which an engine serves the model."""
        return [node for node in self.classes if engine in serving(node, self.ask)]


@dataclass(frozen=True)
class Kind:
    """`name`: in keys of candidates. `several`: whether its stages stand on several classes; then it comes
    after all others, and is made again where a pool with less freedom is given."""

    name: str
    makes: Callable[[str, Space], Iterator[Made]]
    several: bool = False

    def made(self, space: Space) -> Iterator[Made]:
        """The setups of this kind in a space."""
        return self.makes(self.name, space)
