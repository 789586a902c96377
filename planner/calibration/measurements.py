"""The door: files of a user's own measurements → rows to calibrate with, and those refused, each with its
reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.calibration import formats
from planner.calibration.formats import table
from planner.calibration.physical import impossible
from planner.calibration.runs import Measurement, Run, measurement
from planner.errors import InputError
from planner.predict.rows import Row, parse
from planner.reading.documents import decoded, read_bytes

__all__ = ["Measurement", "Refused", "read_measurements"]

MAX_BYTES = 200_000_000
"""Of one file: detailed results carry every token's time."""

FASTEST_MS = {"TTFT": 1.0, "TPOT": 0.1}
"""No server answers faster, over any network: such figures are in seconds."""

SLOWEST_MS = {"TTFT": 3_600_000.0, "TPOT": 60_000.0}
"""Longer than this nobody waits: an hour for the first token, a minute for each other."""

LISTED = 5
"""Reasons named when nothing can be used."""


@dataclass(frozen=True)
class Refused:
    """A line or entry that is not used, and why."""

    where: str
    reason: str


def read_measurements(
    paths: Sequence[Path], given: Mapping[str, str]
) -> tuple[list[Measurement], list[Refused]]:
    """All measurements of `paths` in order, and what was refused. `given`: cells of the `predict` table that
    hold where a file does not say (an option `--tp 4` is {"tp": "4"}).

    Raises InputError: a file that cannot be read or is of no known form, or nothing usable in any.
    """
    given = {name: text for name, text in given.items() if text}
    used: list[Measurement] = []
    refused: list[Refused] = []
    seen: dict[tuple[object, ...], str] = {}
    for path in paths:
        for where, found in _read(path, given):
            try:
                if isinstance(found, InputError):
                    raise found
                _check(found, seen)
                used.append(found)
            except InputError as error:
                refused.append(Refused(where, "; ".join(filter(None, (error.message, error.hint)))))
    if not used:
        raise _nothing(paths, refused)
    return used, refused


def _read(path: Path, given: Mapping[str, str]) -> list[tuple[str, Measurement | InputError]]:
    """Every line or entry of a file with its place."""
    text = decoded(read_bytes(path, MAX_BYTES), str(path))
    if table.matches(text):
        return table.read(path, text, given)
    return [(where, _row(run, where, given)) for where, run in formats.runs(text, str(path))]


def _row(run: Run | InputError, where: str, given: Mapping[str, str]) -> Measurement | InputError:
    try:
        return run if isinstance(run, InputError) else measurement(run, where, given)
    except InputError as error:
        return error


def _check(found: Measurement, seen: dict[tuple[object, ...], str]) -> None:
    """Raises InputError: the row or its figures are nonsense, or the same as those of an earlier one."""
    row = parse(found.cells)
    if reason := nonsense(found, row) or impossible(found):
        raise InputError(reason)
    key = (row, found.ttft_ms, found.tpot_ms)
    if key in seen:
        raise InputError(f"the same as {seen[key]}")
    seen[key] = found.where


def nonsense(found: Measurement, row: Row) -> str | None:
    """What is wrong with the figures, whatever the device; None where nothing is.

    >>> row = parse({"model": "llama-3.1-8b", "device": "h100", "osl": "256"})
    >>> nonsense(Measurement({}, None, 0.012, "bench.csv:2"), row)
    'TPOT of 0.012 ms: is it in seconds?'
    """
    if found.ttft_ms is None and found.tpot_ms is None:
        return "neither a TTFT nor a TPOT: was the run streamed?"
    if found.tpot_ms is not None and row.osl == 1:
        return "a TPOT of requests that have one token"
    for name, value in (("TTFT", found.ttft_ms), ("TPOT", found.tpot_ms)):
        if value is None:
            continue
        if not value > 0:
            return f"{name} of {value:g} ms: was the run streamed?"
        if value < FASTEST_MS[name]:
            return f"{name} of {value:g} ms: is it in seconds?"
        if value > SLOWEST_MS[name]:
            return f"{name} of {value / 1e3:,.0f} s: is it in another unit than ms?"
    return None


def _nothing(paths: Sequence[Path], refused: Sequence[Refused]) -> InputError:
    """The error when no measurement is left."""
    if not refused:
        return InputError("no measurements", ", ".join(map(str, paths)) or None, formats.ACCEPTED)
    if len(refused) == 1:
        return InputError(refused[0].reason, refused[0].where)
    reasons = [f"{each.where}: {each.reason}" for each in refused[:LISTED]]
    if len(refused) > LISTED:
        reasons.append(f"and {len(refused) - LISTED} more")
    return InputError(f"none of {len(refused)} measurements can be used", None, "\n".join(reasons))
