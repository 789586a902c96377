"""Feeds: what the GPUs of a rack or zone may draw together (`power_caps_watts` in a cluster file). Energy:
what electricity costs in a zone, in dollars and in carbon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from planner.errors import InputError, nearest
from planner.reading.documents import Document


@dataclass(frozen=True)
class Feed:
    """A zone's name or an entry's, watts of all its GPUs, and the ids of the classes that they are in;
    `where` it is written."""

    name: str
    watts: float
    classes: tuple[str, ...]
    where: str = field(default="power_caps_watts", compare=False)


def fed_apart(caps: Mapping[str, float] | None, entries: Mapping[str, str], document: Document) -> set[str]:
    """The entries that feeds name, of `entries` by name with the zone of each: they are classes of their own.
    Refuses names that mean nothing, or a zone and an entry that are not the same."""
    found, zones = set[str](), set(entries.values())
    for name in caps or ():
        own = _parts(name, entries)
        if not own and name not in zones:
            known = sorted(zones.union(*map(names_of, entries)))
            near = ", ".join(f"`{one}`" for one in nearest(name, known, 3))
            message = f"no zone and no entry of `nodes` is called `{name}`"
            raise document.error(message, ("power_caps_watts", name), f"there are: {near}")
        if own and name in zones and {e for e, zone in entries.items() if zone == name} != set(own):
            message = f"`{name}` is the name of a zone and of an entry of `nodes`"
            raise document.error(message, ("power_caps_watts", name), "rename one")
        found |= {*own} if name not in zones else set()
    return found


def feeds(
    caps: Mapping[str, float] | None, names: Mapping[str, Collection[str]], document: Document
) -> tuple[Feed, ...]:
    """Feeds over classes; `names`: what each class is called by: its zone, and the entries that it has."""
    return tuple(
        Feed(
            name,
            watts,
            tuple(g for g, own in names.items() if name in own),
            document.where(("power_caps_watts", name)),
        )
        for name, watts in (caps or {}).items()
    )


def names_of(entry: str) -> set[str]:
    """What an entry is called by: itself; a kind of GPU in a node also by its node, and by that node's entry.

    >>> sorted(names_of("h")), sorted(names_of("pc-1/rtx-4090"))
    (['h'], ['pc', 'pc-1', 'pc-1/rtx-4090'])
    """
    node, slash, _ = entry.partition("/")
    stem, _, number = node.rpartition("-")
    return {entry, *([node] if slash else []), *([stem] if slash and number.isdecimal() else [])}


def _parts(name: str, entries: Mapping[str, str]) -> list[str]:
    """The entries called so."""
    return [entry for entry in entries if name in names_of(entry)]


def refuse(found: Sequence[Feed], what: str) -> None:
    """Refuse feeds where `what` cannot keep them."""
    if found:
        raise InputError(
            f"{what} without caps on what a rack or zone draws",
            found[0].where,
            "leave out `power_caps_watts`, and keep them yourself",
        )


class Energy(BaseModel):
    """Of one zone. `overhead`: watts from the grid for each watt of a GPU: hosts, cooling, losses."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd_per_kwh: Annotated[float, Field(ge=0, le=1e6)] | None = None
    gco2_per_kwh: Annotated[float, Field(ge=0, le=1e6)] | None = None
    overhead: Annotated[float, Field(ge=1, le=10)] = 1.0


def check_zones(energy: Mapping[str, Energy] | None, zones: Iterable[str], document: Document) -> None:
    """Refuse zones that no node is in."""
    known = sorted(set(zones))
    for name in energy or ():
        if name not in known:
            near = ", ".join(f"`{zone}`" for zone in nearest(name, known, 3))
            raise document.error(f"no node is in zone `{name}`", ("energy", name), f"zones: {near}")
