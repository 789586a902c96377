"""How long a replica keeps idle KV cache, and where: levels that candidates are offered at.

Engines keep every block as long as there is room (least recently used goes first), so a level is one time to
live T with what it finds of each prompt (`planner.cost.idle_cache`). What it holds is linear in the rate, by
Little's law, as running sequences are: one more share of a row of the fleet's program, whatever the load.

- In GPU memory: running sequences and idle blocks share the cache's room.
- In a place beside it (host memory, NVMe, remote): all idle blocks are there, as engines write them through;
  what GPU memory holds of them, too, is not counted. What is found is all loaded from there and all that is
  computed is written there, at the rate of the place; a prompt waits for its blocks.

Shared beginnings have room of their own in GPU memory, once on every attention-dp rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cluster_configs.schema import NodeClass
from model_zoo.schema import Attention, ModelCard
from planner.cost.host import USABLE, host_of, shared
from planner.cost.idle_cache import Resting
from planner.designs.shape import Floats
from planner.engines import named

Where = Literal["hbm", "host", "nvme", "remote"]
"""Where idle cache lies: GPU memory, and what a node class has beside it."""

MOST_LEVELS = 12
"""In all places together: each costs as much as all candidates without."""

NEARLY = 0.98
"""Share of all that ever returns that the longest time to live finds: the last returns are years away."""

COPIED = 0.8
"""Share of a link's rate that copies of cache reach, as those of weights do (docs/offload.md)."""


@dataclass(frozen=True, eq=False)
class Keep:
    """One level. Of each bucket (w,): tokens `found` of a prompt, `token_s` token-seconds that requests
    leave, `shared` tokens of its prompt that lie in shared beginnings, `fixed_tokens` in all. `place`: where,
    "hbm" for GPU memory; `number` tells levels apart."""

    number: int
    place: Where
    keep_s: float
    found: Floats
    token_s: Floats
    shared: Floats
    fixed_tokens: float

    @property
    def name(self) -> str:
        """In ids of candidates."""
        return f"{self.place} {self.keep_s:.4g} s"


@dataclass(frozen=True)
class Place:
    """Room for idle cache beside one GPU, and the rates at which that GPU alone may use it while all do."""

    name: Where
    bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float


def levels(resting: Resting, share: Floats, names: Sequence[Where]) -> list[Keep]:
    """Levels in each place of `names`, evenly by what they find; `share` of the requests by bucket."""
    ever, each = float(share @ (resting.hits.sum(axis=1))), MOST_LEVELS // len(names)
    found = [NEARLY * ever * i / each for i in range(1, each + 1)] if ever > 0 else []
    times = dict.fromkeys(_time_for(resting, share, tokens) for tokens in found)
    first = [_level(resting, 1, "hbm", 0.0)] if resting.fixed_tokens else []
    rest = [(place, keep_s) for place in names for keep_s in times]
    return first + [_level(resting, 2 + i, place, keep_s) for i, (place, keep_s) in enumerate(rest)]


def _level(resting: Resting, number: int, place: Where, keep_s: float) -> Keep:
    found, token_s = resting.hit_tokens(keep_s), resting.token_s(keep_s)
    return Keep(number, place, keep_s, found, token_s, resting.shared, resting.fixed_tokens)


def _time_for(resting: Resting, share: Floats, tokens: float) -> float:
    """The time to live that finds so many tokens of the mean prompt."""
    found = np.concatenate([[0.0], np.cumsum(share @ resting.hits)])
    return float(np.interp(tokens * (1 - 1e-12), found, np.concatenate([[0.0], resting.ages_s])))


def places(node: NodeClass, engine: str, card: ModelCard) -> list[Place]:
    """Where the engine can keep idle cache of the model beside the GPUs of a class."""
    host = _host(node) if _copies(engine, card) else None
    if host is None or (engine == "sglang" and host.bytes < node.device.memory_gb * 1e9):
        return []  # HiCache's host memory must be larger than the cache on the GPU
    storage = [_tier(node, "nvme"), _tier(node, "remote")] if engine == "sglang" else []
    return [place for place in (host, *storage) if place is not None]


def _copies(engine: str, card: ModelCard) -> bool:
    """Engines that keep such cache in host memory: vLLM's offloading takes plain attention alone, SGLang's
    HiCache and TensorRT-LLM MLA, too; llama.cpp keeps whole prompts, whatever they are of."""
    mixers = {type(layer.mixer) for layer in card.stack}
    windows = any(isinstance(x.mixer, Attention) and x.mixer.window for x in card.stack)
    kept = named(engine).keeps_idle
    return kept is None or ({mixer.__name__ for mixer in mixers} <= kept and not windows)


def _host(node: NodeClass) -> Place | None:
    host = host_of(node, node.gpus_per_node, node.gpus_per_node)
    if host is None or host.pcie_bytes_per_s <= 0 or node.device.unified_memory:
        return None
    rate = COPIED * min(host.pcie_bytes_per_s, host.bytes_per_s) / node.gpus_per_node
    return Place("host", USABLE * host.memory_bytes / node.gpus_per_node, rate, rate)


def _tier(node: NodeClass, kind: Where) -> Place | None:
    own = shared(node, kind, 1)
    if not own.bytes:
        return None
    return Place(kind, own.bytes, own.read_bytes_per_s, own.write_bytes_per_s)
