"""What the planner knows of a serving engine: a frozen description, one file an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Literal

from planner.designs.shape import Designs, Floats

GIB: Final = 2.0**30
MIB: Final = 2.0**20

VISIBLE_SHARE: Final = 0.99
"""Share of the memory on the label that a process can allocate: vLLM logs 79.2 of 80 GiB on A100 and H100
(pull 10511)."""

CONTEXT_BYTES: Final = 0.5 * GIB
"""CUDA or HIP context and loaded kernels of one process."""

Generations = AbstractSet[str]
Version = tuple[int, int, int]
FIRST: Final[Version] = (0, 0, 0)
NEVER: Final[Version] = (99, 0, 0)
USUAL_ROUTER: Final = "MiniMaxM2ForCausalLM"
"""Whose routers in 32 bits are like those of a card that names no architecture."""


@dataclass(frozen=True)
class Offloads:
    """What an engine may keep in host memory, and how it uses several GPUs of a node then. `layers`: whole
    layers; `popular`: the same number of experts of every layer stay on the GPU; `streams`: weights of
    whole layers, which every step copies to the GPU; cache and all compute stay there."""

    split: Literal["tp", "pp"]
    layers: bool
    popular: bool
    streams: bool = False


@dataclass(frozen=True)
class Reserving:
    """What an engine's own rule for its memory looks at: bytes of a device, designs (n,), tokens of a step;
    weights, activations, graphs and communication buffers in bytes a GPU, each (n, stages) or (n, 1);
    `share` of memory that it is told, as it means it, 0 for its own."""

    device_bytes: float
    designs: Designs
    tokens_per_step: int
    weights: Floats
    activations: Floats
    graphs: Floats
    buffers: Floats
    share: float = 0.0

    @property
    def visible(self) -> float:
        return VISIBLE_SHARE * self.device_bytes

    @property
    def used(self) -> Floats:
        return self.weights + self.activations


@dataclass(frozen=True)
class Replaying:
    """What an engine's own rule for captured prompts looks at: a model's name, whether it has latent
    attention and whether a vision tower; the generation that it runs on."""

    model: str
    latent: bool
    sees: bool
    generation: str


def no_graphs(asked: Replaying) -> float:
    """Prompts are never replayed."""
    return 0.0


@dataclass(frozen=True)
class Engine:
    """`generations` that it runs on; those by precision of the weights, of the KV cache, and of experts
    whose copies its balancer keeps (16 bit runs wherever the engine does); those with kernels for attention
    that picks entries of a latent, None where no page names them.

    `block_tokens` of a block of the paged cache; `logit_bytes` a (sequence, vocabulary entry) of sampling;
    `tokens_per_step` by default, of a device's GiB and name; `reserve_bytes` a GPU that
    are neither weights, activations nor KV cache, (n, stages). `admits_whole`: a request is let in where the
    cache has room for its longest answer (TensorRT-LLM: guaranteed no evict). `keeps_idle`: mixers whose
    cache it keeps in host memory between requests, None for all. `drafts`: by kind of drafter
    (planner/drafts/kinds.py) the option that starts it, of {k} tokens a step, by the model
    {name}; HEAD is the checkpoint of a head that was trained for the model.
    `sends_wide`: generations on which tokens go by DeepEP to experts beyond a scale-up domain, two batches
    taking turns (planner/cost/exchange.py). `balance_steps`: that attention-dp ranks of public recipes wait
    for each other's prompts at most; `rank_waits`: by generation, what steps of such ranks take beyond what
    the calibration has. `prompts_first`: while prompts wait, a step has them alone and nobody decodes.
    `decodes_whole`: stages of a pipeline pass on prompts in micro-batches, but all decoding sequences in one.
    `shares_hops`: each rank of a pipeline stage's tp sends a part of a message, which the receivers gather;
    `hop_s`: seconds of its host for each boundary of stages. `past_windows`: share of a
    context whose cache it keeps at least in layers that look back over a window alone (0: the window's).
    `expert_kernels` that plans ask it for, by generation and precision of the
    experts: families (planner/designs/precision.py) of ranks that all have the same tokens, and of
    attention-dp ranks. `graph_tokens`: tokens up to which a step with prompts is replayed from graphs
    captured in pieces, unless it is told otherwise; `graphs_alone`: not so on attention-dp ranks and in
    pipelines. `float_routers`: architectures whose routers of experts it holds in 32 bits (the gates in its
    files of these models), and the versions that multiply them without tensor cores unless told otherwise:
    the first that does and the first that is not known to. `listed`: architectures on its list of models;
    empty where all that a card has are."""

    name: str
    generations: Generations
    weights: Mapping[str, Generations]
    cache: Mapping[str, Generations]
    tokens_per_step: Callable[[float, str], int]
    reserve_bytes: Callable[[Reserving], Floats]
    block_tokens: int
    logit_bytes: float
    sparse: Generations | None = None
    balanced: Mapping[str, Generations] = field(default_factory=dict)
    offloads: Offloads | None = None
    admits_whole: bool = False
    prompts_first: bool = False
    shares_hops: bool = False
    decodes_whole: bool = False
    hop_s: float = 0.0
    past_windows: float = 0.0
    expert_kernels: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    keeps_idle: AbstractSet[str] | None = None
    drafts: Mapping[str, str] = field(default_factory=dict)
    balance_steps: float = 0.0
    rank_waits: Mapping[str, float] = field(default_factory=dict)
    sends_wide: Generations = frozenset()
    graph_tokens: Callable[[Replaying], float] = no_graphs
    graphs_alone: bool = False
    float_routers: Mapping[str, tuple[Version, Version]] = field(default_factory=dict)
    listed: AbstractSet[str] = frozenset()

    def lists(self, architecture: str | None) -> bool:
        """Whether a model's class is on its list, or cannot be looked up there."""
        return not self.listed or architecture is None or architecture in self.listed

    def float_router(self, architecture: str | None) -> tuple[Version, Version] | None:
        """Of `float_routers`; None where it holds the architecture's routers in 16 bits."""
        return self.float_routers.get(architecture or USUAL_ROUTER)

    def families(self, generation: str, precision: str) -> tuple[str, str]:
        """Of `expert_kernels`; blank where plans leave the choice to the engine."""
        return self.expert_kernels.get((generation, precision), ("", ""))
