"""What serving takes on a network of nodes: memory for requests, seconds of decodes and prompts, latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solvers.linear import Floats
from solvers.placement.types import Network, part, without_links


def seconds_at(batch: float, batches: Floats, seconds: Floats) -> float:
    """Seconds of a layer between knots; beyond the last one as much more for each request as just before it.

    >>> seconds_at(16, np.array([2.0, 8.0]), np.array([1.0, 4.0]))
    8.0
    """
    within = float(np.interp(batch, batches, seconds))
    if batch <= batches[-1] or len(batches) < 2:
        return within
    slope = (seconds[-1] - seconds[-2]) / (batches[-1] - batches[-2])
    return within + float(batch - batches[-1]) * max(float(slope), 0.0)


@dataclass(frozen=True)
class Service:
    """What serving takes. `network` gives links in tokens/s.

    `room[kind][k - 1]` requests that fit on a node of k layers; `decode[kind]` (batch, seconds) of one layer,
    batches rising; `prompt_s[kind]` seconds of a mean prompt in one layer; `prompt`, `output` mean tokens;
    `latency` (nodes, nodes), `from_source` and `to_sink` (nodes,) seconds.
    """

    network: Network
    room: Mapping[str, Sequence[float]]
    decode: Mapping[str, Sequence[tuple[float, float]]]
    prompt_s: Mapping[str, float]
    prompt: float
    output: float
    latency: Floats
    from_source: Floats
    to_sink: Floats

    @cached_property
    def memory(self) -> Network:
        """The same nodes, with requests in place of tokens/s, joined without limit."""
        return replace(without_links(self.network), capacity=self.room)

    @cached_property
    def alone(self) -> dict[int, Network]:
        """`memory` of each region."""
        region = self.network.regions
        return {
            r: part(self.memory, [i for i, q in enumerate(region) if q == r]) for r in sorted(set(region))
        }

    @cached_property
    def knots(self) -> dict[str, tuple[Floats, Floats]]:
        """Batches above one, and the seconds of a layer: a batch of one takes as long as the next."""
        given = {kind: [k for k in knots if k[0] > 1] for kind, knots in self.decode.items()}
        return {kind: (np.array([b for b, _ in k]), np.array([s for _, s in k])) for kind, k in given.items()}

    def decode_s(self, kind: str, batch: float) -> float:
        """Seconds of a layer."""
        return seconds_at(batch, *self.knots[kind])

    def of(self, nodes: Sequence[int]) -> Service:
        """These nodes only."""
        return replace(
            self,
            network=part(self.network, nodes),
            latency=self.latency[np.ix_(nodes, nodes)],
            from_source=self.from_source[nodes],
            to_sink=self.to_sink[nodes],
        )
