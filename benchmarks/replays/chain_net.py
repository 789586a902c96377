"""What goes into a replay on chains of nodes and what comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.designs.shape import Floats
from planner.errors import InputError

Curve = Sequence[tuple[float, float]]
"""(number, seconds of one layer), numbers rising, constant beyond the last."""


@dataclass(frozen=True)
class Node:
    """`copies` equal servers that hold `layers` (half-open) layers each, and what one of them does."""

    name: str
    layers: int
    decode: Curve  # over tokens in a pass
    prompt: Curve  # over prompt tokens
    pass_s: float = 0.0
    places: float = math.inf
    kv_tokens: float = math.inf
    prompt_tokens: float = 2048
    copies: int = 1


@dataclass(frozen=True)
class Hop:
    """A node (its index), and the layers run there, counted on the node."""

    node: int
    layers: tuple[int, int]


@dataclass(frozen=True)
class Leg:
    """From a hop to the next: the wire (its index), how fast these two ends use it, and the latency."""

    wire: int
    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True)
class Chain:
    """`legs`: one less than hops. `away_s`, `back_s`: to the first node, and from the last."""

    share: float
    hops: Sequence[Hop]
    legs: Sequence[Leg]
    away_s: float = 0.0
    back_s: float = 0.0


@dataclass(frozen=True)
class Net:
    """Nodes, the names of wires, chains, and bytes of a token between nodes.

    `together`: what leaves a pass for the same next node is one message, a tensor, as in the pipelines of
    serving engines; otherwise each request's is its own, as in Helix's simulator. `pause_s`: from a request's
    end to the next one's entry.
    """

    nodes: Sequence[Node]
    wires: Sequence[str]
    chains: Sequence[Chain]
    token_bytes: float
    together: bool = False
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        total = sum(chain.share for chain in self.chains)
        if not math.isclose(total, 1.0, rel_tol=1e-6):
            raise InputError(f"shares of the chains add up to {total:.7g}, not 1", "chains")
        if any(len(chain.legs) != len(chain.hops) - 1 for chain in self.chains):
            raise InputError("a chain has one leg between two hops", "chains")


@dataclass(frozen=True)
class Result:
    """Times of every request, shape (requests,), NaN where it did not come so far; and means over the window
    of `span_s` seconds after the warm-up.

    `tpot_s`: of all tokens but first ones, from the one before (a request counts as often as it has tokens).
    `busy` by node (its copies' mean), `wire_use` by wire: shares of the time. `taken`: requests that entered,
    by chain. `peak`, `kv_peak_tokens`: most requests and cache at once on a copy, by node, warm-up included.
    """

    entry_s: Floats
    first_s: Floats
    end_s: Floats
    made: Floats  # tokens
    span_s: float
    decode_tok_per_s: float  # all but first tokens
    tpot_s: float
    ttft_s: float
    in_flight: float
    busy: Mapping[str, float]
    wire_use: Mapping[str, float]
    taken: Sequence[int]
    peak: Mapping[str, int]
    kv_peak_tokens: Mapping[str, float]
