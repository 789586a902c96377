"""Which designs may be a prefill/decode pair, as keys: designs with one key have the same partners, so that
the fleet's program needs a row a key and not one a design (`planner/pair_rules.py` has the rules)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from model_zoo.schema import ModelCard
from planner.pair_rules import Cached, Role, Side, no_role, unpaired

PHASES: tuple[Role, Role] = ("prefill", "decode")


@dataclass(frozen=True)
class Pairing:
    """`keys`: of every side that may take the role at all; `joined`: keys of a prefill and of a decode side
    that an engine joins."""

    keys: Mapping[tuple[Role, Side], str] = field(default_factory=dict)
    joined: Collection[tuple[str, str]] = frozenset()

    @staticmethod
    def of(card: ModelCard, sides: Iterable[Side]) -> Pairing:
        """Of all sides that there are."""
        model, every = Cached.of(card), list(dict.fromkeys(sides))
        first, second = ([s for s in every if no_role(role, s, model) is None] for role in PHASES)
        there = np.array(
            [[p.engine == d.engine and unpaired(p, d, model) is None for d in second] for p in first]
        ).reshape(len(first), len(second))
        keys: dict[tuple[Role, Side], str] = {}
        for role, own, partners in ((PHASES[0], first, there), (PHASES[1], second, there.T)):
            named: dict[bytes, str] = {}
            for side, row in zip(own, partners, strict=True):
                if row.any():
                    keys[role, side] = named.setdefault(row.tobytes(), f"{side.engine} {len(named)}")
        pairs = zip(*np.nonzero(there), strict=True)
        joined = frozenset((keys["prefill", first[i]], keys["decode", second[j]]) for i, j in pairs)
        return Pairing(keys, joined)
