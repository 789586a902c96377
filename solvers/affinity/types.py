"""What the placement of experts along layers is given, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Status

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AffinityProblem:
    """`tokens` (layers - 1, experts, experts): from an expert to one of the next layer. All GPUs alike.

    A token pays `intra_cost` to another GPU of the node, `inter_cost` to another node.
    """

    tokens: Floats
    gpus: int
    gpus_per_node: int
    intra_cost: float = 1.0
    inter_cost: float = 2.0

    @property
    def layers(self) -> int:
        return len(self.tokens) + 1

    @property
    def experts(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def per_gpu(self) -> int:
        return self.experts // self.gpus

    @property
    def nodes(self) -> int:
        return self.gpus // self.gpus_per_node

    @property
    def distance(self) -> Floats:
        """Cost (gpus, gpus) of a token's way."""
        node = np.arange(self.gpus) // self.gpus_per_node
        far = np.where(node[:, None] == node, self.intra_cost, self.inter_cost)
        return np.asarray(np.where(np.eye(self.gpus, dtype=bool), 0.0, far), dtype=float)

    def cost(self, place: Ints) -> float:
        """Cost of all tokens of a placement (layers, experts) -> GPU."""
        d = self.distance
        ways = zip(place[:-1], place[1:], self.tokens, strict=True)
        return float(sum((m * d[np.ix_(a, b)]).sum() for a, b, m in ways))


@dataclass(frozen=True)
class AffinitySolution:
    """`place` (layers, experts) -> GPU; `objective` and `bound` in tokens times cost."""

    status: Status
    objective: float
    bound: float
    place: Ints


def shortest(first: Floats, between: Iterable[Floats]) -> tuple[float, list[int]]:
    """The cheapest chain of one state a layer, and its cost: `first` (states,) of those of the first layer,
    `between` (states, states) from each layer to the next.

    >>> shortest(np.array([0.0, 1.0]), [np.array([[5.0, 9.0], [1.0, 2.0]])])
    (2.0, [1, 0])
    """
    reach, came = first, list[Ints]()
    for cost in between:
        total = reach[:, None] + cost
        came.append(total.argmin(0))
        reach = total.min(0)
    chain = [int(reach.argmin())]
    for before in reversed(came):
        chain.append(int(before[chain[-1]]))
    return float(reach.min()), chain[::-1]
