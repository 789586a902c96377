"""Links of a cluster: ends found among zones, entries and nodes, copies dropped, contradictions refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from cluster_configs.schema import ClusterLink, Link
from planner.documents import Document, Loc
from planner.errors import nearest


@dataclass(frozen=True)
class Entry:
    """What links need to know of a line under `nodes`."""

    name: str
    count: int
    zone: str


@dataclass(frozen=True)
class Ends:
    """What may be linked: zones, entries by name, single nodes ("h-1") of entries with several."""

    entries: Mapping[str, Entry]

    @property
    def zones(self) -> set[str]:
        return {entry.zone for entry in self.entries.values()}

    def find(self, name: str) -> str | None:
        """The zone, entry or node that `name` means, None if nothing. Raises ValueError if two."""
        if name in self.zones:
            others = [e.name for e in self.entries.values() if e.zone == name and e.name != name]
            if name in self.entries and (others or self.entries[name].zone != name):
                raise ValueError(f"`{name}` is both a zone and a node: rename one")
            return name
        if name in self.entries:
            return name
        node = re.fullmatch(r"(.+)-(0|[1-9]\d{0,6})", name)
        entry = self.entries.get(node[1]) if node else None
        if node is None or entry is None or int(node[2]) >= entry.count:
            return None
        return entry.name if entry.count == 1 else name

    def known(self) -> list[str]:
        """Names to suggest."""
        return sorted(self.zones | set(self.entries))


def resolve_links(
    links: Sequence[Link], ends: Ends, document: Document
) -> tuple[tuple[ClusterLink, ...], list[str]]:
    """Links in SI units, ends sorted, and warnings: copies, zones without nodes. Raises InputError."""
    found: dict[tuple[str, str], tuple[int, ClusterLink]] = {}
    warnings = []
    for i, link in enumerate(links):
        absent = [
            name
            for k, name in enumerate(link.between)
            if not _exists(name, ends, document, ("links", i, "between", k))
        ]
        if absent:
            warnings.append(f"links[{i}] is left out: no node is in `{absent[0]}`")
            continue
        resolved = _resolve(link, ends, document, ("links", i))
        first, known = found.setdefault(resolved.between, (i, resolved))
        if first == i:
            continue
        a, b = resolved.between
        if known != resolved:
            raise document.error(
                f"`{a}` and `{b}` are linked twice, with different figures",
                ("links", i),
                f"links[{first}]: {known.bytes_per_s / 1e9:g} GB/s, {known.latency_s * 1e3:g} ms; keep one",
            )
        warnings.append(f"links[{i}] repeats links[{first}] ({a} to {b}): counted once")
    return tuple(link for _, link in found.values()), warnings


def _resolve(link: Link, ends: Ends, document: Document, at: Loc) -> ClusterLink:
    a, b = sorted(ends.find(name) or name for name in link.between)
    if a == b:
        raise document.error(f"a link from `{a}` to itself", (*at, "between"), "link two zones or nodes")
    return ClusterLink((a, b), 1e9 * link.gb_per_s, 1e-3 * link.latency_ms)


def _exists(name: str, ends: Ends, document: Document, at: Loc) -> bool:
    """Whether a link's end is there. A name much like one that is there is refused: a slip of the pen."""
    try:
        if ends.find(name) is not None:
            return True
    except ValueError as error:
        raise document.error(str(error), at) from None
    if get_close_matches(name.lower(), [known.lower() for known in ends.known()], 1):
        listed = " or ".join(f"`{n}`" for n in nearest(name, ends.known()))
        raise document.error(f"no zone or node is called `{name}`", at, f"did you mean {listed}?")
    return False
