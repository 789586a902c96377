"""Which designs may be a prefill/decode pair, as keys: designs with one key have the same partners, so that
the fleet's program needs a row a key and not one a design (`planner/pair_rules.py` has the rules)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

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
        there = {(p, d) for p in first for d in second if p.engine == d.engine and not unpaired(p, d, model)}
        keys: dict[tuple[Role, Side], str] = {}
        sides_of: list[tuple[Role, list[Side], list[Side]]]
        sides_of = [("prefill", first, second), ("decode", second, first)]
        for role, own, other in sides_of:
            named: dict[tuple[int, ...], str] = {}
            for side in own:
                pairs = [(side, o) if role == "prefill" else (o, side) for o in other]
                partners = tuple(i for i, pair in enumerate(pairs) if pair in there)
                if partners:
                    keys[role, side] = named.setdefault(partners, f"{side.engine} {len(named)}")
        return Pairing(keys, frozenset((keys["prefill", p], keys["decode", d]) for p, d in there))
