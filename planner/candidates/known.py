"""Largest loads that are asked for again: a question under another rate, with more money or with other nodes
has mostly the same servers under the same mix and promise, and so have nodes that only differ in price."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import fields
from secrets import token_bytes
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from cluster_configs.schema import NodeClass
from planner.candidates.setup import Setup
from planner.cost.model import CostModel
from planner.designs.shape import Floats, Ints
from planner.operating.known import digest

MOST, MOST_BYTES, MOST_BYTES_IN_ALL = 4096, 8192, 8_000_000
"""Answers kept of a process, bytes of each and of all. Then all are forgotten."""

BESIDE = ("id", "nodes", "zone", "price_usd_per_hour", "power_cap_watts", "spot", "availability", "box")
"""What steps on a class of nodes do not hang on: on their number only where they share tiers, on caps only
by the limits of GPUs, which a model states."""

KNOWN: dict[bytes, tuple[Floats, Floats]] = {}
"""What was answered, by all that it hangs on but the code."""

_BYTES = [0]
"""Of the arrays in `KNOWN`."""

_TOLD: WeakKeyDictionary[CostModel, bytes] = WeakKeyDictionary()

Asked = TypeVar("Asked")
Loads = Callable[[Setup, Ints, Asked], tuple[Floats, Floats]]
"""Largest loads of designs of a setup, from below and from above."""


def once(loads: Loads[Asked]) -> Loads[Asked]:
    """`loads`, which are looked for once for models, designs, mixes and promises that are alike. What is
    answered must not change."""

    def found(s: Setup, index: Ints, asked: Asked) -> tuple[Floats, Floats]:
        own = s.only(index)
        parts = (getattr(own, f.name) for f in fields(s) if f.name not in ("model", "left_out"))
        key = digest(loads.__name__, _told(s.model), *parts, asked)
        if (known := KNOWN.get(key)) is not None:
            return known
        answer = loads(s, index, asked)
        for part in answer:
            part.setflags(write=False)
        size = sum(part.nbytes for part in answer)
        if size <= MOST_BYTES:
            if len(KNOWN) >= MOST or _BYTES[0] + size > MOST_BYTES_IN_ALL:
                KNOWN.clear()
            _BYTES[0] = size + (_BYTES[0] if KNOWN else 0)
            KNOWN[key] = answer
        return answer

    return found


def _steps_of(node: NodeClass, named: bool) -> tuple[type, tuple[Any]]:
    """What steps on a class of nodes hang on, as pickle has it; `named`: stages name it."""
    own = (node.id, node.zone) if named else ()
    told = (getattr(node, f.name) for f in fields(node) if f.name not in BESIDE)
    return tuple, ((own, node.node_count if node.tiers else 0, *told),)


def _told(model: CostModel) -> bytes:
    """All that a model is made of, told once of each; of one that cannot be told, a word of its own."""
    if model not in _TOLD:
        try:
            told, named = io.BytesIO(), hasattr(model, "of_class")
            pickler = pickle.Pickler(told)
            pickler.dispatch_table = {NodeClass: lambda node: _steps_of(node, named)}
            pickler.dump(model)
            _TOLD[model] = digest(told.getvalue())
        except (pickle.PicklingError, AttributeError, TypeError):
            _TOLD[model] = token_bytes(16)
    return _TOLD[model]
