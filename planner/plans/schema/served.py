"""Where requests go, and what lies where: routes, chains, experts, tiers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from planner.plans.schema.parts import Count, NonNegative, Part, Share
from planner.reading.names import NodeName


class Route(Part):
    """Share of a bucket served by a replica group, or by a prefill and a decode group with `kv_gb_per_s`
    between them, or, where `chains` says so, by the plan's chains in their own shares."""

    bucket: int
    share: Share
    replica: str | None = None
    prefill: str | None = None
    decode: str | None = None
    kv_gb_per_s: NonNegative | None = None
    chains: bool = False


class Hop(Part):
    """A node that a chain passes, and the layers it runs there (half-open): all or a part of those that the
    node holds as one of the group `replica`."""

    node: NodeName
    replica: str
    layers: tuple[int, int]


class Chain(Part):
    """Nodes that `share` of the requests routed to chains pass in order: together they run every layer once.

    `ttft_s` [s] and `tpot_s` [s] are those of its mean request, queueing included: a prompt passes the nodes
    whole, one after the other, and every further token passes all of them once.
    """

    share: Share
    hops: list[Hop]
    ttft_s: NonNegative
    tpot_s: NonNegative


class ExpertMap(Part):
    """Where the experts of one replica group are, on the ep ranks of a stage.

    `redundant`: copies in each layer, over all ranks. `placement`: "in order" of the checkpoint, "balancer":
    by the engine's own while it serves, "map": `map`, experts in the slots of each rank by layer with
    experts. `hottest`: tokens of the fullest rank over the mean rank's, mean over layers (and steps);
    `in_order` the same without any balancing; `bound`: what no placement by the loads' sum is below.
    """

    replica: str
    ep: Count
    redundant: Annotated[int, Field(ge=0)]
    slots_per_rank: Count
    placement: Literal["in order", "balancer", "map"]
    hottest: Annotated[FiniteFloat, Field(ge=1)]
    in_order: Annotated[FiniteFloat, Field(ge=1)]
    bound: Annotated[FiniteFloat, Field(ge=1)] | None = None
    map: list[list[list[int]]] = []


class Experts(Part):
    """`loads`: where they come from ("assumed": by a law); `tokens` by layer and expert, where recorded."""

    loads: str
    tokens: list[list[NonNegative]] = []
    replicas: list[ExpertMap]


class Tiered(Part):
    """Weights of each replica of a group that lie beside its GPUs: of `layers` (half-open ranges) the routed
    experts, a `share` of them, or all else with its KV cache ("layers": then they come before the first
    stage), or all weights with the cache on the GPUs ("weights": copied in every step); or KV cache that
    rests between requests ("cache", `Replica.kept`; its `layers` are empty). `bytes` of one replica; `way`:
    computed on the CPU in a decode step, or copied to a GPU for it. `stage`: of a replica over several nodes,
    the stage whose node has it, right behind the stage's own layers; without it the last stage's node, which
    is the server, or the only one.
    """

    replica: str
    tier: Literal["host", "cxl", "nvme", "remote"]
    what: Literal["experts", "layers", "weights", "cache"]
    layers: list[tuple[int, int]]
    share: Share = 1.0
    bytes: NonNegative
    way: Literal["cpu", "pcie"] = "cpu"
    stage: int | None = None
