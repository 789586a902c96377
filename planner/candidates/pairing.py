"""Which designs may be a prefill/decode pair, as keys: designs with one key have the same partners, so that
the fleet's program needs a row a key and not one a design (`planner/pair_rules.py` has the rules)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model_zoo.schema import ModelCard
from planner.pair_rules import Cached, Role, Side, no_role, unpaired

PHASES: tuple[Role, Role] = ("prefill", "decode")


@dataclass(frozen=True)
class Pairing:
    """`keys`: of every side that may take the role at all."""

    model: Cached
    keys: Mapping[tuple[Role, Side], str] = field(default_factory=dict)

    @staticmethod
    def of(card: ModelCard, sides: Iterable[Side]) -> Pairing:
        """Of all sides that there are."""
        model, able = Cached.of(card), dict[Role, list[Side]]()
        every = list(dict.fromkeys(sides))
        for role in PHASES:
            able[role] = [s for s in every if no_role(role, s, model) is None]
        keys: dict[tuple[Role, Side], str] = {}
        for role, other in (PHASES, PHASES[::-1]):
            named: dict[tuple[int, ...], str] = {}
            for side in able[role]:
                partners = tuple(
                    i for i, there in enumerate(able[other]) if _joined(role, side, there, model)
                )
                if partners:
                    keys[role, side] = named.setdefault(partners, f"{side.engine} {len(named)}")
        return Pairing(model, keys)

    def why_not(self, prefill: Side, decode: Side) -> str | None:
        """Why the two are no pair."""
        return unpaired(prefill, decode, self.model)


def _joined(role: Role, side: Side, other: Side, model: Cached) -> bool:
    """Whether an engine joins a side in `role` with one in the other role."""
    if side.engine != other.engine:
        return False
    pair = (side, other) if role == "prefill" else (other, side)
    return unpaired(*pair, model) is None
