"""`--profile`: the user's own measurements of the requests/s that one replica sustains within the SLO."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from planner.errors import InputError, nearest
from planner.inputs.numbers import POSITIVE, TOKENS
from planner.inputs.tables import Row, read_csv

Role = Literal["mixed", "prefill", "decode"]
REQUIRED = ("design", "device", "gpus", "role", "isl_min", "isl_max", "osl_min", "osl_max", "max_rps")
OPTIONAL = ("price_usd_per_hour", "watts")


@dataclass(frozen=True)
class ProfileRow:
    """What one replica of `design` (`gpus` of `device`) sustains of requests of these lengths, ends included.

    `price_usd_per_hour` and `watts` are the whole replica's; None = not given.
    """

    line: int
    design: str
    device: str
    gpus: int
    role: Role
    isl_min: int
    isl_max: int
    osl_min: int
    osl_max: int
    max_rps: float
    price_usd_per_hour: float | None = None
    watts: float | None = None

    def covers(self, isl: int, osl: int) -> bool:
        """Whether it speaks of requests of these lengths."""
        return self.isl_min <= isl <= self.isl_max and self.osl_min <= osl <= self.osl_max


def read_profile(path: str | Path) -> list[ProfileRow]:
    """Rows of the table, in order. Raises InputError, by line and column."""
    table = read_csv(path, REQUIRED, OPTIONAL, others=False)
    if not table.rows:
        raise InputError(f"`{table.path}` has a header but no rows", f"{table.path}:2")
    rows = [_row(row) for row in table.rows]
    designs: dict[str, ProfileRow] = {}
    ranges: dict[tuple[object, ...], ProfileRow] = {}
    for row in rows:
        _check_same_design(table.path, designs.setdefault(row.design, row), row)
        lengths = (row.design, row.isl_min, row.isl_max, row.osl_min, row.osl_max)
        if (first := ranges.setdefault(lengths, row)) is not row:
            where = f"{table.path}:{row.line}"
            raise InputError(f"design `{row.design}` has these lengths on line {first.line} already", where)
    return rows


def _row(row: Row) -> ProfileRow:
    if row.problem:
        raise InputError(row.problem, f"{row.path}:{row.line}")
    found = ProfileRow(
        line=row.line,
        design=row.text("design"),
        device=row.text("device"),
        gpus=row.whole("gpus"),
        role=_role(row),
        isl_min=row.whole("isl_min", TOKENS),
        isl_max=row.whole("isl_max", TOKENS),
        osl_min=row.whole("osl_min", TOKENS),
        osl_max=row.whole("osl_max", TOKENS),
        max_rps=row.number("max_rps"),
        price_usd_per_hour=row.optional("price_usd_per_hour"),
        watts=row.optional("watts", POSITIVE),
    )
    for low, high, column in (
        (found.isl_min, found.isl_max, "isl_max"),
        (found.osl_min, found.osl_max, "osl_max"),
    ):
        if low > high:
            raise InputError(f"`{column}` ({high}) is below its minimum ({low})", row.where(column))
    return found


def _role(row: Row) -> Role:
    role, known = row.text("role"), get_args(Role)
    if role not in known:
        hint = f"did you mean `{nearest(role, known, 1)[0]}`? one of {', '.join(known)}"
        raise InputError(f"unknown role `{role}`", row.where("role"), hint)
    return cast(Role, role)


def _check_same_design(path: str, first: ProfileRow, row: ProfileRow) -> None:
    """All rows of a design are the same replica."""
    for column in ("device", "gpus", "role", *OPTIONAL):
        old, new = getattr(first, column), getattr(row, column)
        if old != new:
            message = f"design `{row.design}` has `{column}` {new} here and {old} on line {first.line}"
            raise InputError(
                message, f"{path}:{row.line}, column {column}", "give each design a name of its own"
            )
