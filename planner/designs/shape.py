"""What is priced: replica designs as arrays, and what a step of one takes as five numbers.

A **design** is (tp, pp, attn_dp, moe_tp, ep, redundant, cp) on one node class with one engine and one set of
precisions; tp * attn_dp * cp = moe_tp * ep = GPUs of one stage, and a replica has pp times as many. Each of
its ep ranks holds (experts + redundant) / ep experts of a layer, the `redundant` ones copies. Context
parallelism: the tokens of one prompt, and of every cache, are divided over cp groups of tp ranks.

A **server** is one attention-dp rank of a replica with all its pipeline stages: it owns 1/attn_dp of the
replica's
requests and KV. Queueing happens at servers; a replica is attn_dp of them in lock step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Precisions:
    """Weights of attention and dense layers, of experts, of embedding and LM head, and the KV cache; what the
    routers of experts are computed in ("fp32": without tensor cores), and the experts' kernels where a launch
    line names them."""

    gemm: str
    experts: str
    embedding: str
    kv: str
    router: str = "bf16"
    kernels: str = ""


@dataclass(frozen=True)
class Designs:
    """`n` replica designs: integer arrays of shape (n,)."""

    tp: Ints
    pp: Ints
    attn_dp: Ints
    moe_tp: Ints
    ep: Ints
    redundant: Ints
    cp: Ints

    @classmethod
    def plain(cls, tp: Ints, pp: Ints, attn_dp: Ints, moe_tp: Ints, ep: Ints) -> Designs:
        """Designs without copies of experts and context parallelism."""
        return Designs(tp, pp, attn_dp, moe_tp, ep, np.zeros_like(tp), np.ones_like(tp))

    @property
    def gpus(self) -> Ints:
        """GPUs of one replica."""
        return self.tp * self.groups * self.pp

    @property
    def groups(self) -> Ints:
        """Groups of tp ranks in a stage, each with tokens of its own: attn_dp * cp."""
        return self.attn_dp * self.cp

    def __len__(self) -> int:
        return len(self.tp)

    def take(self, index: Ints) -> Designs:
        """The designs at `index` (repeats allowed)."""
        return Designs(
            *(self.tp[index], self.pp[index], self.attn_dp[index]),
            *(self.moe_tp[index], self.ep[index], self.redundant[index], self.cp[index]),
        )


def like(n: int, tp: int | Ints, pp: int | Ints = 1) -> Designs:
    """`n` designs without attention-dp and ep, alike where `tp` and `pp` are numbers."""
    one = np.ones(n, dtype=np.int64)
    return Designs.plain(tp * one, pp * one, one, tp * one, one)


@dataclass(frozen=True)
class Stage:
    """Layers `layers` (half-open) on `tp` GPUs of one node class."""

    node_class: str
    tp: int
    layers: tuple[int, int]

    @property
    def where(self) -> str:
        """Class and tp in words."""
        return f"{self.node_class} tp{self.tp}" if self.tp > 1 else self.node_class

    @property
    def part(self) -> str:
        """What of the model it has, in words: so many layers."""
        return str(self.layers[1] - self.layers[0])


Staging = tuple[Stage, ...]


@dataclass(frozen=True)
class StagedDesigns(Designs):
    """`which` staging each is, and GPUs of all its stages; `tp` and `moe_tp` are those of its first stage."""

    which: Ints
    sizes: Ints

    @property
    def gpus(self) -> Ints:
        return self.sizes

    def take(self, index: Ints) -> StagedDesigns:
        return StagedDesigns(*(part[index] for part in vars(self).values()))


def which(designs: Designs) -> Ints:
    """The staging of each design."""
    assert isinstance(designs, StagedDesigns)
    return designs.which


def designs_of(stagings: Sequence[Staging]) -> StagedDesigns:
    """One design a staging."""
    one = np.ones(len(stagings), dtype=np.int64)
    tp = np.array([staging[0].tp for staging in stagings], dtype=np.int64)
    pp = np.array([len(staging) for staging in stagings], dtype=np.int64)
    sizes = np.array([sum(stage.tp for stage in staging) for staging in stagings], dtype=np.int64)
    which = np.arange(len(stagings), dtype=np.int64)
    return StagedDesigns(tp, pp, one, tp, one, 0 * one, one, which, sizes)


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step (engine iteration, one token for every decoding sequence) of a server, linear near
    an operating point:

    step_s = t0_s + prefill_s_per_token * prompt tokens in the step
                  + prefill_s_per_pair * (query, key) pairs of those prompt tokens
                  + sequence_s * decoding sequences + context_s_per_token * their cached tokens

    Sequences and tokens are the server's. With pp stages a step is one round of all pp micro-batches: work
    counts the
    busiest stage once, so a lone prompt takes `stages` times its work to come out (fewer when it is cut into
    chunks).
    All fields have shape (n,) or are scalars.
    """

    t0_s: Floats
    prefill_s_per_token: Floats
    prefill_s_per_pair: Floats
    sequence_s: Floats
    context_s_per_token: Floats
    stages: Floats


def distinct(sizes: Ints) -> list[int]:
    """The sizes that occur, smallest first. (`np.unique` imports masked arrays: 10 ms of every plan.)

    >>> distinct(np.array([4, 1, 4]))
    [1, 4]
    """
    return sorted(set(sizes.tolist()))
