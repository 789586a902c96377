"""Jinja as all forms of the report use it: what stands in a plan is escaped, wherever it goes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from planner.errors import InputError

HERE = Path(__file__).parent

UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""What no XML may hold, and what turns the direction of text around."""


def rendered(template: str, **told: Any) -> str:
    """A template of this folder, filled in. Raises InputError where Jinja is not installed."""
    try:
        import jinja2
    except ImportError as error:
        raise InputError("reports are written with Jinja", hint="pip install jinja2") from error
    return str(_environment(jinja2).get_template(template).render(**told))


@cache
def _environment(jinja2: Any) -> Any:
    """It keeps the templates that it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tight"] = _tight
    return environment


def _tight(text: str) -> str:
    """Prose in which no line ends between a figure and its percent sign.

    >>> _tight("0.2 % more")
    '0.2\\xa0% more'
    """
    return re.sub(r"(?<=\d) %", "\u00a0%", text)


def _visible(value: Any) -> Any:
    """Text without what cannot be shown.

    >>> _visible("a\\x00b")
    'a\ufffdb'
    """
    if isinstance(value, str) and UNSEEN.search(value):
        return type(value)(UNSEEN.sub("\ufffd", value))
    return value
