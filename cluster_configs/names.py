"""Names of a class's nodes, as runs of numbers: of a million nodes few are ever spelt out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, overload


class NameRun(NamedTuple):
    """Nodes `stem`-`start` … `stem`-(`stop` - 1)."""

    stem: str
    start: int
    stop: int


@dataclass(frozen=True)
class NodeNames(Sequence[str]):
    """Names of a class's nodes, spelt out only when asked for: a class may have a million.

    >>> names = NodeNames((NameRun("h", 0, 3), NameRun("spare", 0, 1)))
    >>> len(names), list(names), names[-1]
    (4, ['h-0', 'h-1', 'h-2', 'spare-0'], 'spare-0')
    """

    runs: tuple[NameRun, ...]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(run.stop - run.start for run in self.runs))

    def __len__(self) -> int:
        return self._ends[-1] if self.runs else 0

    def __iter__(self) -> Iterator[str]:
        return (f"{stem}-{i}" for stem, start, stop in self.runs for i in range(start, stop))

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        index = at + len(self) if at < 0 else at
        if not 0 <= index < len(self):
            raise IndexError(at)
        which = bisect_right(self._ends, index)
        run = self.runs[which]
        return f"{run.stem}-{run.stop - self._ends[which] + index}"
