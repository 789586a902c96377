"""Answers beside what is known of their cases, as a table in plain text or markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.answer import Answer, Case, adapter

HEADS = (
    "case",
    "objective",
    "bound",
    "status",
    "best known",
    "peer",
    "seconds",
    "solving",
    "peer s",
    "faster",
)


@dataclass(frozen=True)
class Line:
    """One case, answered in `seconds` of which `answer.solve_seconds` were solving."""

    name: str
    case: Case
    objective: str
    answer: Answer
    seconds: float


def table(lines: Sequence[Line], markdown: bool) -> str:
    """All lines under their heads."""
    cells = [HEADS, *(_cells(line) for line in lines)]
    width = [max(len(row[i]) for row in cells) for i in range(len(HEADS))]
    text = [[c.rjust(w) for c, w in zip(row, width, strict=True)] for row in cells]
    text = [[row[0].ljust(width[0]), *padded[1:]] for row, padded in zip(cells, text, strict=True)]
    if markdown:
        rule = ["-" * width[0], *("-" * (w - 1) + ":" for w in width[1:])]
        return "\n".join(f"| {' | '.join(row)} |" for row in [text[0], rule, *text[1:]])
    return "\n".join("  ".join(row).rstrip() for row in text)


def _cells(line: Line) -> tuple[str, ...]:
    known, a = line.case.get("known", {}), line.answer
    own = known.get(line.objective)  # where a case has several objectives, what is known of this one
    of = own if isinstance(own, dict) and "best_known" in own else known
    peer = of.get("peer") if of is own else adapter(line.case.get("peer")).peer_value(line.case)
    return (
        f"{line.case.get('peer')}/{line.name}",
        _number(a.objective),
        _number(a.bound),
        a.status,
        _number(of.get("best_known")),
        _number(peer),
        f"{line.seconds:.3f}",
        f"{a.solve_seconds:.3f}",
        *_against_peer(known, line.seconds),
    )


def _against_peer(known: dict[str, Any], seconds: float) -> tuple[str, str]:
    """The peer's seconds and how many times faster we were; ">" where it gave up at its time limit."""
    if known.get("peer_seconds") is not None:
        return f"{known['peer_seconds']:.3f}", f"{known['peer_seconds'] / seconds:.1f}x"
    if known.get("peer_time_limit_s") and known.get("peer_result") is None:
        return f"> {known['peer_time_limit_s']:g}", f"> {known['peer_time_limit_s'] / seconds:.0f}x"
    return "-", "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"
