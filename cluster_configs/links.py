"""Links of a cluster: ends found among zones, entries and nodes, copies dropped, contradictions refused,
zones that nothing joins named."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from cluster_configs.schema import ClusterLink, Link
from planner.errors import nearest
from planner.reading.documents import Document, Loc

_NODE = re.compile(r"(.+)-(0|[1-9]\d{0,6})")
MOST_LISTED = 3


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

    @cached_property
    def zones(self) -> Mapping[str, list[str]]:
        """Names of the entries in each zone."""
        found: dict[str, list[str]] = {}
        for entry in self.entries.values():
            found.setdefault(entry.zone, []).append(entry.name)
        return found

    def find(self, name: str) -> str | None:
        """The zone, entry or node that `name` means, None if nothing. Raises ValueError if two."""
        entry, node = self.entries.get(name), self._node(name)
        alone = entry is not None and self.zones.get(name) == [name]  # a zone of one entry: the same
        kinds = {
            "a zone": name in self.zones and not alone,
            "an entry of `nodes`": entry is not None,
            "a node of another entry": node is not None,
        }
        if sum(kinds.values()) > 1:
            said = " and ".join(kind for kind, holds in kinds.items() if holds)
            raise ValueError(f"`{name}` is the name of {said}: rename one")
        return name if name in self.zones or entry is not None else node

    def zone(self, end: str) -> str:
        """The zone that an end found is or lies in."""
        if end in self.zones:
            return end
        entry = self.entries.get(end) or self.entries[end.rpartition("-")[0]]
        return entry.zone

    def known(self) -> list[str]:
        """Names to suggest."""
        return sorted({*self.zones, *self.entries})

    def _node(self, name: str) -> str | None:
        """A single node by its name: of an entry with one node, the entry."""
        node = _NODE.fullmatch(name)
        entry = self.entries.get(node[1]) if node else None
        if node is None or entry is None or int(node[2]) >= entry.count:
            return None
        return entry.name if entry.count == 1 else name


def resolve_links(
    links: Sequence[Link], ends: Ends, document: Document
) -> tuple[tuple[ClusterLink, ...], list[str]]:
    """Links in SI units, ends sorted, and warnings: copies, links out of the cluster, zones apart.

    Links of entries and nodes stand before those of zones: of all that lie between two classes the first
    counts. Raises InputError.
    """
    found: dict[tuple[str, str], tuple[int, ClusterLink]] = {}
    warnings = []
    for i, link in enumerate(links):
        absent = [
            name
            for k, name in enumerate(link.between)
            if not _exists(name, ends, document, ("links", i, "between", k))
        ]
        if absent:
            where = document.where(("links", i))
            warnings.append(f"{where} is left out: no zone or node is called `{absent[0]}`")
            continue
        resolved = _resolve(link, ends, document, ("links", i))
        first, known = found.setdefault(resolved.between, (i, resolved))
        if first == i:
            continue
        a, b = resolved.between
        if known != resolved:
            raise document.error(
                f"`{a}` and `{b}` are linked twice, with different figures: {_figures(resolved)} here",
                ("links", i),
                f"{_figures(known)} at {document.where(('links', first))}; a link counts both ways: keep one",
            )
        warnings.append(f"links[{i}] repeats links[{first}] ({a} to {b}): counted once")
    particular = sorted((link for _, link in found.values()), key=lambda x: len({*x.between} & {*ends.zones}))
    return tuple(particular), warnings + _apart(particular, ends)


def _figures(link: ClusterLink) -> str:
    return f"{link.bytes_per_s / 1e9:g} GB/s and {link.latency_s * 1e3:g} ms"


def _resolve(link: Link, ends: Ends, document: Document, at: Loc) -> ClusterLink:
    a, b = sorted(ends.find(name) or name for name in link.between)
    if a == b or any(ends.zones.get(zone) == [entry] for zone, entry in ((a, b), (b, a))):
        known = f"from `{a}` to itself" if a == b else f"between `{a}` and `{b}`, which are the same nodes"
        hint = "link two zones or nodes; inside a zone nodes talk over their NICs (`nic_gb_per_s`)"
        raise document.error(f"a link {known}", (*at, "between"), hint)
    return ClusterLink((a, b), 1e9 * link.gb_per_s, 1e-3 * link.latency_ms)


def _exists(name: str, ends: Ends, document: Document, at: Loc) -> bool:
    """Whether a link's end is there. An unknown one is refused, unless all nodes are in one zone and nothing
    is called alike: such a link only leads out of the cluster."""
    try:
        if ends.find(name) is not None:
            return True
    except ValueError as error:
        raise document.error(str(error), at) from None
    node = _NODE.fullmatch(name)
    if node and (entry := ends.entries.get(node[1])):
        nodes = f"`{entry.name}-0`" + (f" to `{entry.name}-{entry.count - 1}`" if entry.count > 1 else "")
        raise document.error(f"no node is called `{name}`", at, f"`{entry.name}` has {nodes}")
    alike = get_close_matches(name.lower(), [known.lower() for known in ends.known()], 1)
    if alike or len(ends.zones) > 1:
        listed = " or ".join(f"`{n}`" for n in nearest(name, ends.known()))
        raise document.error(f"no zone or node is called `{name}`", at, f"did you mean {listed}?")
    return False


def _apart(links: Sequence[ClusterLink], ends: Ends) -> list[str]:
    """A warning for every group of zones that no link joins with the first, and the line that would."""
    group = {zone: zone for zone in ends.zones}

    def root(zone: str) -> str:
        while group[zone] != zone:
            group[zone] = zone = group[group[zone]]
        return zone

    for link in links:
        a, b = (root(ends.zone(end)) for end in link.between)
        group[b] = a
    islands: dict[str, list[str]] = {}
    for zone in ends.zones:
        islands.setdefault(root(zone), []).append(zone)
    (main, *others), warnings = islands.values(), []
    for zones in others[:MOST_LISTED]:
        here, there = (
            _listed([name for zone in part for name in ends.zones[zone]]) for part in (zones, main)
        )
        between = f"[{_plain(main[0])}, {_plain(zones[0])}]"
        warnings.append(
            f"no link joins zone {_listed(zones)} with {_listed(main)}: {here} cannot share a replica, a "
            f"chain or a prefill/decode pair with {there}. To join them write under `links:`, with your "
            f"figures: - {{between: {between}, gb_per_s: 1.25, latency_ms: 1}}"
        )
    if len(others) > MOST_LISTED:
        warnings.append(f"{len(others) - MOST_LISTED} more groups of zones are joined with no other")
    return warnings


def _plain(name: str) -> str:
    """A name as YAML takes it for text."""
    bare = re.fullmatch(r"[A-Za-z][\w.-]*", name) and name.lower() not in ("true", "false", "null")
    return name if bare else json.dumps(name)


def _listed(names: Sequence[str]) -> str:
    """The first few names."""
    shown = ", ".join(f"`{name}`" for name in names[:MOST_LISTED])
    more = len(names) - MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
