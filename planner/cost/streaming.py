"""Layers whose weights are copied from host memory to the GPU in every step, ahead of the kernels.

Of every G layers the last N are so, each taking g on the GPU and c to copy, into `AHEAD` buffers that are
refilled in turn. G layers take the longest way through what waits for what, a buffer for its layer and a
layer for its copy:

    max(G g, N c, (G - N) g + 2 g + (N - 2) c)      with AHEAD = 2; the last only for N > 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.cost.host import HostStage
from planner.designs.shape import Floats, Ints

AHEAD = 2
"""Layers whose weights are copied ahead (`--offload-prefetch-step`): with one the copy of the next layer
waits for the one before it to be computed, with two a run of layers copies without a break."""


def streaming_s(computed: Floats, streamed: Floats, copy: Floats, run: Floats | Ints) -> Floats:
    """Seconds of a step that computes for `computed` seconds, `streamed` of them layers whose weights it
    copies in `copy` seconds, `run` of them next to each other: the module's formula over all groups.

    Exact for equal layers in whole groups, step after step.
    """
    behind = (1 - AHEAD / np.maximum(run, AHEAD)) * (copy - streamed)
    return np.asarray(computed + np.maximum(np.maximum(copy - computed, behind), 0.0))


def streams(
    kind: Ints, kinds: int, firsts: Sequence[HostStage], size: Callable[[int], Floats]
) -> tuple[Floats, Floats, Floats]:
    """What is streamed in every placement, named by its first stage: layers by kind that are streamed (m,
    kinds); on one GPU their bytes, and those of the buffers for layers copied ahead (m,). `kind` (L,) of each
    layer; `size(tp)` bytes of a layer of each kind on one of tp GPUs."""
    own = [kind[np.array(stage.streams, dtype=np.int64)] for stage in firsts]
    many = np.array([np.bincount(k, minlength=kinds) for k in own], dtype=np.float64)
    sizes = {tp: size(tp) for tp in {stage.tp for stage in firsts}}
    each = np.array([sizes[stage.tp] for stage in firsts])
    ahead = [AHEAD * sum({*bytes_[own > 0].tolist()}) for bytes_, own in zip(each, many, strict=True)]
    return many, (many * each).sum(axis=1), np.array(ahead)
