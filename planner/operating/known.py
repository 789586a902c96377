"""Steps that are asked for again: the batch of a rate is looked for from the same first grid whatever the
rate, and what explains a plan looks at its servers under one load after the other."""

from __future__ import annotations

from dataclasses import fields
from hashlib import blake2b
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats, StepTimes
from planner.operating.requests import Requests

MOST_ROWS = 256
"""Rows up to which steps are kept: of those that are asked for again, nearly all are one such first grid."""

MOST = 512
"""Answers kept of a model, 5 MB at most. Then all are forgotten."""


class Steps(Protocol):
    """Steps (n,) of servers of `designs` that decode `sequences` (n,) at once."""

    def __call__(
        self, model: CostModel, designs: Designs, asked: Requests, sequences: Floats, budget: Floats | float
    ) -> StepTimes: ...


def once(steps: Steps) -> Steps:
    """`steps`, which ask a model once for the same servers under the same load, for as long as it is there. A
    model does not change; what is answered must not, either."""
    known: WeakKeyDictionary[CostModel, dict[bytes, StepTimes]] = WeakKeyDictionary()

    def found(
        model: CostModel, designs: Designs, asked: Requests, sequences: Floats, budget: Floats | float
    ) -> StepTimes:
        if len(designs) > MOST_ROWS:
            return steps(model, designs, asked, sequences, budget)
        own = known.setdefault(model, {})
        key = _digest(designs, asked, sequences, budget)
        if key in own:
            return own[key]
        if len(own) >= MOST:
            own.clear()
        answer = own[key] = steps(model, designs, asked, sequences, budget)
        for part in vars(answer).values():
            np.asarray(part).setflags(write=False)
        return answer

    return found


def _digest(designs: Designs, asked: Requests, sequences: Floats, budget: Floats | float) -> bytes:
    """What the steps of a model hang on, in a few bytes."""
    told = blake2b(digest_size=16)
    of_both = (getattr(x, f.name) for x in (designs, asked) for f in fields(x))
    for part in (*of_both, sequences, budget):
        array = np.asarray(part)
        told.update(repr((array.shape, array.dtype.char)).encode())
        told.update(array.tobytes())
    return told.digest()
