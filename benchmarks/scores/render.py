"""Plain tables."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, all others to the right.

    >>> print(table(["a", "n"], [["bcd", "10"], ["e", "2"]]))
    a     n
    bcd  10
    e     2
    """
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *lines)
    )


def share(value: float) -> str:
    """
    >>> share(0.1234), share(float("nan"))
    ('12.3%', '-')
    """
    return "-" if value != value else f"{value:.1%}"


def signed(value: float) -> str:
    """
    >>> signed(-0.0312)
    '-3.1%'
    """
    return "-" if value != value else f"{value:+.1%}"
