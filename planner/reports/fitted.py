"""Sections of text made to fit a window: each is cut from its end where there is too much, the least
important first, and says so."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.text import Text

WIDTH, HEIGHT = 80, 24
"""Columns and lines of the window."""

HEADING = 10
"""Columns before the text of a titled line."""


@dataclass(frozen=True)
class Section:
    """Lines under one title; `title` stands before the first of them. `least`: lines that stay however little
    room there is; `lead`: an empty line goes before."""

    title: str
    lines: Sequence[Text]
    least: int = 1
    lead: bool = False

    @property
    def height(self) -> int:
        return len(self.lines) + self.lead

    def without_last(self) -> Section:
        return replace(self, lines=self.lines[:-1])


CUT_FIRST = ("Assumed", "Untried", "Start", "Instead", "")
"""Titles of the sections that lose lines where there are too many, in turn."""

WHOLE = ("Start",)
"""Sections of which a part is of no use."""


def fitted(told: Sequence[Section]) -> list[Text]:
    """The lines of all sections, at most `HEIGHT`."""
    own = list(told)
    for title in CUT_FIRST:
        for i in reversed(range(len(own))):
            cut = False
            if own[i].title == title and title in WHOLE and _height(own) > HEIGHT:
                own[i] = replace(own[i], lines=[])
            while own[i].title == title and len(own[i].lines) > own[i].least and _height(own) > HEIGHT:
                own[i], cut = own[i].without_last(), True
            if cut and own[i].lines:
                own[i] = replace(own[i], lines=[*own[i].lines[:-1], _cut(own[i].lines[-1])])
    lines = list[Text]()
    for i, section in enumerate(own):
        first_titled = bool(section.title) and not any(s.title and s.lines for s in own[:i])
        lines += [Text()] * bool(section.lines and (section.lead or first_titled))
        lines += section.lines
    return lines


def _height(told: Sequence[Section]) -> int:
    titled_too = any(section.title and section.lines for section in told)
    return sum(section.height for section in told if section.lines) + titled_too


MORE = " … (--details)"


def _cut(line: Text) -> Text:
    """A line that says that more followed."""
    short = line.copy()
    if len(short) > WIDTH - len(MORE):
        short.truncate(WIDTH - len(MORE))
    short.rstrip()
    return short + Text(MORE, style="dim")


def titled(title: str, texts: Sequence[str]) -> list[Text]:
    """Texts beside a title, each begun on a line of its own.

    >>> [line.plain for line in titled("Proof", ["nothing better", "is possible"])]
    ['Proof     nothing better', '          is possible']
    """
    lines = list[Text]()
    for text in texts:
        for part in textwrap.wrap(text, WIDTH - HEADING, break_on_hyphens=False):
            name = title if not lines else ""
            lines.append(Text.assemble((name.ljust(HEADING), "bold cyan"), part))
    return lines
