"""Which designs may be a prefill/decode pair, as keys: designs with one key have the same partners, so that
the fleet's program needs a row a key and not one a design (`planner/rules/pairs.py` has the rules); and the
shares of the TTFT promise that either side may take: where columns of a pair begin and end.

A pair is in time where TTFT(prefill) + transfer + a decode step is within the promise. Both sides may carry
the more the more of it they take. Columns stand at edges: a prefill server at the largest load with its own
TTFT within t_k, a decode server at the largest batch with its step within s_j. A plan counts them with t_k
and s_j; the bound, whose columns stand for all loads between two edges, with the edges before, t_(k-1) and
s_(j-1). Finer edges bring the two together: `planner.search` adds them where they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import ModelCard
from planner.candidates.deadline import in_time
from planner.candidates.mix import Promise
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
    few = _few(tuple(one), tuple(two), model)
    at = [[own[kind] for kind in of] for own, of in zip((one, two), kinds, strict=True)]
    return np.asarray(few[np.ix_(*at)] if few.size else np.zeros((len(first), len(second)), dtype=bool))


@lru_cache(maxsize=64)
def _few(first: tuple[Side, ...], second: tuple[Side, ...], model: Cached) -> NDArray[np.bool_]:
    """Which kinds pair: a plan that is explained asks for the same ones again."""
    rows = []
    for p in first:
        in_time()
        rows.append([p.engine == d.engine and unpaired(p, d, model) is None for d in second])
    return np.array(rows)


PARTS = (0.5,)
"""Shares of the TTFT promise at which sides that prefill have edges to begin with."""

WIDE = 0.06
"""A decode step that takes less than this share of the TTFT promise has no edges to begin with."""

STEPS = (0.5,)
"""Shares of the longest decode step at which sides that decode have edges to begin with."""


@dataclass(frozen=True)
class Edges:
    """Cautious seconds, ascending, the last the most that either side may take: `prefill` of TTFT, `decode`
    of a step. Infinite where nothing is promised."""

    prefill: tuple[float, ...]
    decode: tuple[float, ...]

    @staticmethod
    def of(promise: Promise) -> Edges:
        """To begin with."""
        whole, step = promise.ttft_s, promise.tpot_s
        if whole == float("inf"):
            return Edges((whole,), (step,))
        longest = min(step, whole)
        steps = tuple(x * longest for x in STEPS) if longest > WIDE * whole else ()
        first = {x * whole for x in PARTS} | {whole - s for s in (*steps, longest) if s < whole}
        return Edges((*sorted(first), whole), (*steps, longest))

    def before(self, seconds: float, role: str) -> float:
        """The edge before: what the bound counts of a column that stands at `seconds`."""
        own = self.prefill if role == "prefill" else self.decode
        below = [e for e in own if e < seconds]
        return below[-1] if below and seconds < float("inf") else 0.0

    def finer(self, prefill: set[float], decode: set[float]) -> Edges:
        """With more of them."""
        return replace(
            self,
            prefill=tuple(sorted({*self.prefill, *prefill})),
            decode=tuple(sorted({*self.decode, *decode})),
        )


NO_EDGES = Edges((), ())
"""Pools without pairs have these."""
