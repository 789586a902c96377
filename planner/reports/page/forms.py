"""The forms that a report can have, by the ending of the file's name: a form is a function from plans and
what they are called to a file's content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planner.plans.schema import Plan
from planner.reports.page.html import html
from planner.reports.page.picture import png, svg

Form = Callable[[Sequence[Plan], Sequence[str]], bytes]


def _encoded(write: Callable[[Sequence[Plan], Sequence[str]], str]) -> Form:
    return lambda plans, given: write(plans, given).encode()


FORMS: Final[Mapping[str, Form]] = {
    ".html": _encoded(html),
    ".htm": _encoded(html),
    ".svg": _encoded(svg),
    ".png": png,
}
