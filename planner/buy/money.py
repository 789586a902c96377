"""What a purchase may take, as people write it: `50$/h`, `120kW` or `2M$`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from planner.errors import InputError
from planner.inputs.numbers import POSITIVE, number

FORM = "write dollars an hour as in 50$/h, kilowatts as in 120kW, or dollars as in 2M$"
HOURS_PER_YEAR = 8766.0
"""365.25 days."""

Measure = Literal["usd_per_hour", "usd", "watts"]
"""What nodes are counted in: dollars an hour, dollars paid once, watts that their GPUs draw at most."""

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}
_FORM = re.compile(
    r"(?P<value>[\d.]+(?:e[-+]?\d+)?)\s*(?P<scale>[kmb]?)(?P<unit>w|\$|usd)(?P<hour>/h)?", re.IGNORECASE
)


@dataclass(frozen=True)
class Money:
    """A limit of `most` in one measure; None: no limit."""

    measure: Measure = "usd_per_hour"
    most: float | None = None

    def said(self, amount: float) -> str:
        """An amount of the measure, as people write it.

        >>> Money().said(4.5), Money("watts").said(120000), Money("usd").said(2e6)
        ('$4.50/h', '120 kW', '$2,000,000')
        """
        if self.measure == "watts":
            return f"{amount / 1e3:,.6g} kW"
        if self.measure == "usd":
            return f"${amount:,.0f}"
        return f"${amount:,.2f}/h" if amount >= 0.1 else f"${amount:,.2g}/h"


def parse_money(text: str | None) -> Money:
    """A limit in one of the forms of `FORM`; the dollar may also stand in front. Raises InputError.

    >>> parse_money("50$/h")
    Money(measure='usd_per_hour', most=50.0)
    >>> parse_money("$2M").most, parse_money("120 kW").most
    (2000000.0, 120000.0)
    """
    if text is None:
        return Money()
    said = re.sub(r"^(\$|usd)\s*(.*?)(\s*/\s*h\w*)?$", r"\2\1\3", text.strip(), flags=re.IGNORECASE)
    match = _FORM.fullmatch(re.sub(r"\s+|(?<=/h)(our|r)$", "", said.replace("_", "")))
    if match is None:
        several = "only one limit is planned with: " if "," in text else ""
        raise InputError(f"`{text[:40]}` is no budget", "--budget", several + FORM)
    value = number(match["value"], "the budget", "--budget", POSITIVE) * _SCALES[match["scale"].lower()]
    if match["unit"].lower() == "w":
        if match["hour"]:
            raise InputError(f"`{text[:40]}` is no budget: watts are not paid by the hour", "--budget", FORM)
        return Money("watts", value)
    return Money("usd_per_hour" if match["hour"] else "usd", value)
