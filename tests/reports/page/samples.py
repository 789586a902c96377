"""Plans of every kind to make pages of, and a page as a tree of its tags."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from planner.plans.schema import Kept, Plan, Tiered
from planner.reports.page.html import html
from tests.golden_plans import NAMES, PLANS
from tests.reports.samples import MIXED, ONE_NODE, SIMPLE, STOPPED, replica

HERE = Path(__file__).parent
KEPT = ONE_NODE.model_copy(
    update={
        "replicas": [
            replica(
                kept=Kept(
                    place="host",
                    keep_s=300.0,
                    hit=0.42,
                    found_tokens=[430.0],
                    bytes=118e9,
                    shared_bytes=2.4e9,
                    loads_gb_per_s=3.1,
                    lasts_s=940.0,
                    best_adds=0.02,
                )
            )
        ],
        "tiers": [Tiered(replica="r1", tier="host", what="cache", layers=[], bytes=118e9)],
    }
)
"""One node whose replicas keep cache between requests in host memory."""

OWN = {"kept": KEPT, "one-node": ONE_NODE, "mixed": MIXED, "stopped": STOPPED, "simple": SIMPLE}
FILES = ("chains", "replayed", "survive")
"""Kinds that no golden plan is of: plans of these names stand beside this file."""

ALL = (*OWN, *NAMES, *FILES)


@cache
def plan_of(name: str) -> Plan:
    """The plan of a name."""
    if name in OWN:
        return OWN[name]
    path = HERE / f"{name}.json" if name in FILES else PLANS / f"{name}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["proof"].setdefault("seconds", 0.5)  # golden plans leave out what the clock says
    return Plan.model_validate(told)


@cache
def page_of(*names: str) -> str:
    """The page of plans."""
    return html([plan_of(name) for name in names], names)


class Tag:
    """A tag with its attributes and what is in it, in order: tags and text."""

    def __init__(self, name: str, attributes: dict[str, str], parent: Tag | None = None) -> None:
        self.name, self.attributes, self.parent = name, attributes, parent
        self.inside: list[Tag | str] = []

    @property
    def text(self) -> str:
        """All text in it that people read; of a script or style sheet what it says."""
        unread = ("script", "style")
        return "".join(x if isinstance(x, str) else "" if x.name in unread else x.text for x in self.inside)

    def all(self, *names: str) -> Iterator[Tag]:
        """Tags of these names in it, at any depth, in order; of all names where none is given."""
        for each in self.inside:
            if isinstance(each, Tag):
                if not names or each.name in names:
                    yield each
                yield from each.all(*names)

    def of(self, word: str) -> list[Tag]:
        """Tags of a class in it."""
        return [tag for tag in self.all() if word in tag.attributes.get("class", "").split()]


class Reader(HTMLParser):
    """Reads a page, and refuses tags that close what is not open."""

    EMPTY = ("meta", "link", "br", "input", "img", "hr")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.here = Tag("", {})
        self.feed(page)
        self.close()
        assert self.here is self.root, f"<{self.here.name}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Tag(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.inside.append(made)
        if tag not in self.EMPTY:
            self.here = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.here.inside.append(Tag(tag, {name: value or "" for name, value in attrs}, self.here))

    def handle_endtag(self, tag: str) -> None:
        assert self.here.name == tag, f"</{tag}> closes <{self.here.name}>"
        assert self.here.parent is not None
        self.here = self.here.parent

    def handle_data(self, data: str) -> None:
        self.here.inside.append(data)


def tree(page: str) -> Tag:
    """A page as its tags."""
    return Reader(page).root


__all__ = ["ALL", "Tag", "page_of", "plan_of", "tree"]
