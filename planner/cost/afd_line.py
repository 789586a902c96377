"""The line of micro-batches of attention-FFN disaggregation: the formulas are in `afd.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats


@dataclass(frozen=True)
class Parts:
    """Seconds of one micro-batch in a layer of each kind, (n, kinds), and of the LM head, (n,)."""

    attention: Floats
    ffn: Floats
    dispatch: Floats
    combine: Floats
    head: Floats


def line_s(parts: Parts, order: Sequence[int], micro_batches: Sequence[int]) -> Floats:
    """Seconds until the last of m micro-batches is through all layers and the LM head, (choices, n).

    `micro_batches`: m of each choice, ascending; `parts`: of one micro-batch, rows choice by choice; `order`:
    kind of every layer. A resource that a kind of layer does not need (0 everywhere) is not waited for.
    """
    shape = (len(micro_batches), -1)
    ways = (parts.attention, parts.dispatch, parts.ffn, parts.combine)
    visits = [
        [(r, x[:, k].reshape(shape)) for r, x in enumerate(ways) if x[:, k].any()]
        for k in range(parts.attention.shape[1])
    ]
    head = parts.head.reshape(shape)
    free = [np.zeros_like(head) for _ in ways]
    first = [sum(m <= k for m in micro_batches) for k in range(micro_batches[-1])]
    done = [np.zeros_like(head[skip:]) for skip in first]
    for layer in (*(visits[k] for k in order), [(0, head)]):
        for skip, at in zip(first, done, strict=True):
            for r, seconds in layer:
                np.maximum(free[r][skip:], at, out=at)
                at += seconds[skip:]
                free[r][skip:] = at
    return np.stack([done[m - 1][i - first[m - 1]] for i, m in enumerate(micro_batches)])
