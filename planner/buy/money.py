"""What a purchase may cost, as people write it: `50$/h`, `120kW`, `2M$`, several parted by commas."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.errors import InputError
from planner.inputs.numbers import POSITIVE, number

FORM = "write dollars an hour, as in 50$/h"
HOURS_PER_YEAR = 8766.0
"""365.25 days."""

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}
_PART = re.compile(
    r"(?P<value>[\d.]+(?:e[-+]?\d+)?)\s*(?P<scale>[kmb]?)(?P<unit>w|\$|usd)(?P<hour>/h)?", re.IGNORECASE
)


@dataclass(frozen=True)
class Money:
    """Limits of a purchase; None = no limit. `usd` is spent once, for all the years."""

    usd_per_hour: float | None = None
    watts: float | None = None
    usd: float | None = None

    @property
    def words(self) -> str:
        """As people write it."""
        said = []
        if self.usd_per_hour is not None:
            said.append(f"${self.usd_per_hour:,.6g}/h")
        if self.usd is not None:
            said.append(f"${self.usd:,.6g}")
        if self.watts is not None:
            said.append(f"{self.watts / 1e3:,.6g} kW")
        return " and ".join(said)


def parse_money(text: str | None) -> Money:
    """Limits in the forms of `FORM`; dollars may also stand in front. Raises InputError.

    >>> parse_money("50$/h, 120 kW")
    Money(usd_per_hour=50.0, watts=120000.0, usd=None)
    >>> parse_money("$2M").usd
    2000000.0
    """
    limits: dict[str, float] = {}
    for part in [] if text is None else text.split(","):
        name, value = _limit(part.strip())
        if name in limits:
            raise InputError(f"`{text}` names the same limit twice", "--budget", FORM)
        limits[name] = value
    return Money(**limits)


def _limit(part: str) -> tuple[str, float]:
    """One limit's name and value in dollars an hour, watts or dollars."""
    said = re.sub(r"^(\$|usd)\s*(.*?)(\s*/\s*h)?$", r"\2\1\3", part, flags=re.IGNORECASE)
    match = _PART.fullmatch(re.sub(r"\s+|(?<=h)our$|(?<=h)r$", "", said.replace("_", "")))
    if match is None:
        raise InputError(f"`{part[:40]}` is no budget", "--budget", FORM)
    value = number(match["value"], "the budget", "--budget", POSITIVE) * _UNITS[match["scale"].lower()]
    if match["unit"].lower() == "w":
        if match["hour"]:
            raise InputError(f"`{part[:40]}` is no budget: watts are not paid by the hour", "--budget", FORM)
        return "watts", value
    return ("usd_per_hour" if match["hour"] else "usd"), value
