"""A candidate: one replica design at one operating point on one node class, with what it can serve. A MILP
column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Literal

from planner.cost.afd_layout import Block, Layout
from planner.cost.host import HostStage
from planner.cost.transfer import Overlap
from planner.designs.shape import Precisions, Staging, StepTimes
from planner.reading.units import sizes_in_words
from planner.rules.pairs import Side

Role = Literal["mixed", "prefill", "decode"]


@dataclass(frozen=True)
class Design:
    """One replica's layout: tp * attn_dp * cp = moe_tp * ep = GPUs of a stage; pp stages.

    `stages`: where they differ in class, tp or layers; then `tp` is the first one's. `redundant`: copies of
    experts in a layer.
    """

    tp: int = 1
    pp: int = 1
    attn_dp: int = 1
    moe_tp: int = 1
    ep: int = 1
    stages: Staging = ()
    redundant: int = 0
    cp: int = 1

    @property
    def gpus(self) -> int:
        return sum(s.tp for s in self.stages) or self.tp * self.attn_dp * self.cp * self.pp

    @property
    def layout(self) -> Layout | None:
        """Where attention and FFNs stand on different GPUs."""
        first = next(iter(self.stages), None)
        return first.layout if isinstance(first, Block) else None

    @property
    def offloads(self) -> bool:
        """Whether a part of it lies in host memory."""
        return any(isinstance(s, HostStage) for s in self.stages)

    @property
    def on_nodes(self) -> list[list[int]]:
        """Indices of the stages on each node, where weights lie in the memory of several nodes, which a
        replica takes whole; the first node, which is the server, comes last, as in the layers' order. Empty
        for all other designs."""
        found: dict[int, list[int]] = {}
        for i, stage in enumerate(self.stages):
            if isinstance(stage, HostStage):
                found.setdefault(stage.node, []).append(i)
        return list(found.values()) if len(found) > 1 else []

    @property
    def sizes(self) -> dict[str, int]:
        """By name."""
        names = ("tp", "pp", "attn_dp", "moe_tp", "ep")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """Only what is not 1: "tp4 pp2", "dp8 ep8"; unlike stages with their layers: "h100 tp2 40+40"."""
        if self.stages:
            return stages_in_words(self.stages)
        moe_tp = self.moe_tp if self.ep > 1 else 1
        sizes = sizes_in_words(tp=self.tp, pp=self.pp, dp=self.attn_dp, cp=self.cp, moe_tp=moe_tp, ep=self.ep)
        copies = f"+{self.redundant} experts" if self.redundant else ""
        return " ".join(filter(None, [sizes, copies])) or "tp1"


def stages_in_words(stages: Staging) -> str:
    """In order, those alike next to each other as one."""
    if isinstance(stages[0], Block):
        return str(stages[0].layout)
    runs = groupby(stages, key=lambda s: s.where)
    return " -> ".join(f"{where} {'+'.join(s.part for s in run)}" for where, run in runs)


@dataclass(frozen=True)
class Key:
    """Names the setup that a candidate is a design of: `where` (a class of nodes; "" where the stages of a
    replica stand on several), the engine, the kind of replica (`planner/replicas`), and what its variants
    (`planner/variants`) say: tokens of a step that the engine is told (0: its default), the level at which
    idle cache is kept (0: none), what drafts how many tokens a step ("": nothing), and watts that each GPU is
    told to draw at most (0: nothing)."""

    where: str = ""
    engine: str = ""
    kind: str = "alike"
    chunk: int = 0
    level: int = 0
    draft: str = ""
    power: float = 0.0


@dataclass(frozen=True, eq=False)
class Candidate:
    """`use[j][w]`: share of one replica's resource j (busy, kv) that one request/s of bucket w fills, in
    seconds; `least` the same in the fleet's favour, for the bound (`columns.py`).

    Buckets absent from `use` cannot be served within the SLO at this operating point. Times are predictions
    at the
    operating point under the workload's own mix: `ttft_s[w]`, and `tpot_s` for every bucket. `batch` counts
    the
    sequences in flight on the replica, `kv_bytes` the KV room of one GPU. `measured` marks a row of the
    user's own table. Where stages stand on several classes `node_class` names their blocks.
    """

    id: str
    role: Role
    node_class: str
    engine: str
    design: Design
    gpus: int
    use: Mapping[str, Mapping[str, float]]
    watts: float
    batch: int = 1
    step: StepTimes | None = None  # one server's, linear at this point; fields of shape (1,)
    tpot_s: float = 0.0
    ttft_s: Mapping[str, float] = field(default_factory=dict)
    precisions: Precisions | None = None
    least: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # its part of a pair's TTFT at most, cautious: the edge at which it stands, of decoding for one token
    late_s: float = 0.0
    side: Side | None = None  # what decides its partners in a pair, and the key of those with the same ones
    pairs_as: str = ""
    # z >= a n + sum(w) b[w] f[w] for each (a, b): what n replicas with f requests/s cost of what is minimised
    tangents: Sequence[tuple[float, Mapping[str, float]]] = ()
    # what grows with the load (watts of a replica, or seconds of each bucket) at shares of it, for dominance
    lighter: tuple[tuple[float, ...], ...] = ()
    # a prompt's KV cache through the NIC of the rank that has most of it, how many copies of it the ranks
    # keep, and what its sending hides behind
    handoff_s: Mapping[str, float] = field(default_factory=dict)
    copies: Mapping[str, float] = field(default_factory=dict)
    overlap: Mapping[str, Overlap] = field(default_factory=dict)
    hop_bytes: Mapping[str, float] = field(default_factory=dict)  # of a request between unlike stages
    joined: bool = False  # spans nodes and needs one scale-up domain
    measured: bool = False
    price_usd_per_hour: float | None = None  # only of measured rows that name one
    busy: float = 0.0  # of a server that only prefills: share of its time
    sequences: float = 0.0  # that one server decodes at once
    label: str = ""
    key: Key = Key()  # of its setup
    emitted: float = 1.0  # of one that decodes for others: tokens that a step gives a sequence

    @property
    def chunk(self) -> int:
        """Prompt tokens of a step that the engine is told; 0: its default."""
        return self.key.chunk

    @property
    def level(self) -> int:
        """The level at which idle cache is kept, 0: none."""
        return self.key.level

    @property
    def draft(self) -> str:
        """What drafts, and how many tokens a step: "mtp 3"."""
        return self.key.draft

    @property
    def bounds(self) -> Mapping[str, Mapping[str, float]]:
        """Shares of a replica that one request/s fills, as the bound's problem has them."""
        return self.least or self.use

    @property
    def runs(self) -> str:
        """The design with what drafts and the limit of its GPUs: "tp8", "tp8 with mtp 3", "tp8 at 490 W"."""
        drafts = f" with {self.draft}" if self.draft else ""
        return f"{self.design}{drafts}" + (f" at {self.key.power:g} W" if self.key.power else "")

    @property
    def kind(self) -> str:
        """What people have to run: a design on a class, with an engine, in a role."""
        return f"{self.role} {self.runs} on {self.node_class} with {self.engine}"

    @cached_property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """(class, GPUs side by side) of each part that stands by itself."""
        stages = self.design.stages
        if nodes := self.design.on_nodes:
            return tuple((stages[own[0]].node_class, sum(stages[i].tp for i in own)) for own in nodes)
        apart = () if self.design.offloads else stages
        return tuple((s.node_class, s.tp) for s in apart) or ((self.node_class, self.gpus),)

    @property
    def home(self) -> tuple[str, int]:
        """Class and GPUs that hold the cache."""
        layout = self.design.layout
        return (layout.attention, layout.attention_gpus) if layout else (self.blocks[0][0], self.gpus)

    def gpus_on(self, node_class: str) -> int:
        """GPUs of one replica on a class."""
        return sum(gpus for name, gpus in self.blocks if name == node_class)
