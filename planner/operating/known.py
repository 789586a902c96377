"""Steps that are asked for again: the batch of a rate is looked for from the same first grid whatever the
rate, and what explains a plan looks at its servers under one load after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Protocol
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
        key = digest(designs, asked, sequences, budget)
        if key in own:
            return own[key]
        if len(own) >= MOST:
            own.clear()
        answer = own[key] = steps(model, designs, asked, sequences, budget)
        for part in vars(answer).values():
            np.asarray(part).setflags(write=False)
        return answer

    return found


def digest(*parts: Any) -> bytes:
    """Arrays, dataclasses of such and plain values, in a few bytes."""
    told = blake2b(digest_size=16)
    for part in _plain(parts):
        if isinstance(part, np.ndarray):
            told.update(repr((part.shape, part.dtype.char)).encode())
            told.update(part.tobytes())
        else:
            told.update(repr(part).encode())
    return told.digest()


def _plain(parts: Iterable[Any]) -> Iterator[Any]:
    """The parts, of dataclasses their fields."""
    for part in parts:
        names = _fields(type(part))  # type: ignore[arg-type]  # a type is hashable
        if names is None:
            yield part
        else:
            yield from _plain([getattr(part, name) for name in names])


@cache
def _fields(kind: type) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass; None: it is none."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
