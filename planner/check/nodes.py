"""Where a node stands in its class, without spelling out the names of a million of them."""

from __future__ import annotations

from cluster_configs.names import NodeNames


class NodeIndex:
    """Positions of node names in a class.

    >>> from cluster_configs.names import NameRun
    >>> index = NodeIndex(NodeNames((NameRun("h", 0, 3), NameRun("spare", 4, 5))))
    >>> index.find("h-2"), index.find("spare-4"), index.find("h-3"), index.find("h-02")
    (2, 3, None, None)
    """

    def __init__(self, names: NodeNames) -> None:
        self._runs: dict[str, list[tuple[int, int, int]]] = {}
        before = 0
        for stem, start, stop in names.runs:
            self._runs.setdefault(stem, []).append((start, stop, before))
            before += stop - start

    def find(self, name: str) -> int | None:
        """Position of `name` in the class; None where no node is called so."""
        stem, _, digits = name.rpartition("-")
        if not digits.isdecimal() or len(digits) > 12 or str(int(digits)) != digits:
            return None
        for start, stop, before in self._runs.get(stem, ()):
            if start <= int(digits) < stop:
                return before + int(digits) - start
        return None
