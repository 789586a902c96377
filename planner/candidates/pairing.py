"""Which designs may be a prefill/decode pair, as keys: designs with one key have the same partners, so that
the fleet's program needs a row a key and not one a design (`planner/rules/pairs.py` has the rules)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import ModelCard
from planner.rules.pairs import Cached, Role, Side, no_role, unpaired

PHASES: tuple[Role, Role] = ("prefill", "decode")


@dataclass(frozen=True)
class Pairing:
    """`keys`: of every side that may take the role at all; `joined`: keys of a prefill and of a decode side
    that an engine joins."""

    keys: Mapping[tuple[Role, Side], str] = field(default_factory=dict)
    joined: Collection[tuple[str, str]] = frozenset()

    @staticmethod
    def of(card: ModelCard, sides: Iterable[Side]) -> Pairing:
        """The keys and pairs of all sides that there are."""
        model, every = Cached.of(card), list(dict.fromkeys(sides))
        first, second = ([s for s in every if no_role(role, s, model) is None] for role in PHASES)
        there = _joined(first, second, model)
        keys: dict[tuple[Role, Side], str] = {}
        one_of: list[dict[str, int]] = [{}, {}]
        for phase, (own, partners) in enumerate(((first, there), (second, there.T))):
            named: dict[bytes, str] = {}
            for i, (side, row) in enumerate(zip(own, partners, strict=True)):
                if row.any():
                    key = keys[PHASES[phase], side] = named.setdefault(
                        row.tobytes(), f"{side.engine} {len(named)}"
                    )
                    one_of[phase].setdefault(key, i)
        ends = product(*(few.items() for few in one_of))
        return Pairing(keys, frozenset((p, d) for (p, i), (d, j) in ends if there[i, j]))


def _joined(first: Sequence[Side], second: Sequence[Side], model: Cached) -> NDArray[np.bool_]:
    """Which sides that prefill pair with which that decode; each must be able to have its role."""
    kinds = [[side.as_partner for side in sides] for sides in (first, second)]
    one, two = ({kind: i for i, kind in enumerate(dict.fromkeys(own))} for own in kinds)
    few = np.array([[p.engine == d.engine and unpaired(p, d, model) is None for d in two] for p in one])
    at = [[own[kind] for kind in of] for own, of in zip((one, two), kinds, strict=True)]
    return np.asarray(few[np.ix_(*at)] if few.size else np.zeros((len(first), len(second)), dtype=bool))
