"""The forms that a report can have, by the ending of the file's name: a form is a function from plans, what
they are called and the curve that they stand on, if any, to a file's content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planner.errors import InputError
from planner.plans.schema import Plan
from planner.reports.page.curve import Curve
from planner.reports.page.html import html
from planner.reports.page.picture import png, svg

Form = Callable[[Sequence[Plan], Sequence[str], Curve | None], bytes]


def _page(plans: Sequence[Plan], given: Sequence[str], curve: Curve | None) -> bytes:
    return html(plans, given, curve).encode()


def _svg(plans: Sequence[Plan], given: Sequence[str], curve: Curve | None) -> bytes:
    return _alone(svg(plans, given).encode(), curve)


def _png(plans: Sequence[Plan], given: Sequence[str], curve: Curve | None) -> bytes:
    return _alone(png(plans, given), curve)


def _alone(made: bytes, curve: Curve | None) -> bytes:
    """A picture has no curve. Raises InputError."""
    if curve is not None:
        raise InputError("a picture has no curve", "--curve", "let the name of the report end in .html")
    return made


FORMS: Final[Mapping[str, Form]] = {
    ".html": _page,
    ".htm": _page,
    ".svg": _svg,
    ".png": _png,
}
