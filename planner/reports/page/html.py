"""Plans as one HTML file that fetches nothing: styles and the script for copying are inside, allowed by
their hashes alone (Content-Security-Policy), and no name of a plan can become markup.

A section is a function of the Plan in a module of this folder, which tells nothing where it does not
apply; its line is in `SECTIONS`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.plans.schema import Plan
from planner.reports.figures import figures
from planner.reports.page import colours, flow, money, told
from planner.reports.page.answer import Fact, facts, sentences, title
from planner.reports.page.blocks import Section
from planner.reports.page.compared import comparison, names
from planner.reports.page.curve import Curve
from planner.reports.page.curve import section as on_curve
from planner.reports.page.templates import HERE, rendered
from planner.reports.page.told import warned


@dataclass(frozen=True)
class Told:
    """A plan as the template gets it; `mark` stands before the names of its sections."""

    mark: str
    title: str
    answer: tuple[str, ...]
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]


def html(plans: Sequence[Plan], given: Sequence[str], curve: Curve | None = None) -> str:
    """The page of one plan, or of several with their comparison first; `given`: what they may be called;
    `curve`: that they stand on. Raises InputError where Jinja is not installed, and of a curve of others."""
    called = names(plans, given)
    alone = len(plans) == 1
    on = () if curve is None else (on_curve(curve, plans, ["this plan"] if alone else called),)
    if alone:
        told = [_told(plans[0], "", title(plans[0]), on)]
    else:
        told = [_told(plan, f"plan-{i + 1}-", called[i]) for i, plan in enumerate(plans)]
    style, script = _style(), (HERE / "copy.js").read_text(encoding="utf-8").strip()
    return rendered(
        "page.html.j2",
        title=told[0].title if alone else f"{len(plans)} plans side by side",
        parts=told[0].title.split(" on ") if alone else [f"{len(plans)} plans side by side"],
        plans=told,
        compared=() if alone else (comparison(plans, called), *on),
        style=style,
        script=script,
        policy=_policy(style, script),
        bands=any(f.edges for plan in plans for f in figures(plan)),
        versions=", ".join(dict.fromkeys(plan.meshwright_version for plan in plans)),
    )


def _told(plan: Plan, mark: str, name: str, more: tuple[Section, ...] = ()) -> Told:
    """A plan, with `more` sections behind its costs."""
    found = sections(plan)
    at = 1 + next(i for i, s in enumerate(found) if s.name == "cost")
    whole = (*found[:at], *more, *found[at:])
    return Told(mark, name, tuple(sentences(plan)), tuple(facts(plan)), warned(plan), whole)


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and only this style and this script count."""
    hashes = (base64.b64encode(hashlib.sha256(x.encode()).digest()).decode() for x in (style, script))
    allowed = zip(("style-src", "script-src"), hashes, strict=True)
    rules = [f"{what} 'sha256-{digest}'" for what, digest in allowed]
    return "; ".join(["default-src 'none'", *rules, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def _style() -> str:
    """The style sheet with the colours of both themes before it."""
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in theme.items())
        for theme in (colours.LIGHT, colours.DARK)
    )
    themes = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    parts = "".join(f".fill-{name}{{fill:var(--{name});background:var(--{name})}}" for name in colours.PARTS)
    roles = "".join(
        f".role-{name}{{--edge:var(--{name});--tint:var(--{name}-tint)}}" for name in colours.ROLES
    )
    printed = f"@media print{{:root{{{light}}}}}"
    return f"{themes}{printed}{parts}{roles}\n{(HERE / 'page.css').read_text(encoding='utf-8')}".strip()


SECTIONS: tuple[Callable[[Plan], Section | None], ...] = (
    told.cluster,
    flow.section,
    money.expected,
    money.spent,
    told.again,
    told.memory,
    flow.times,
    told.balanced,
    told.lost,
    told.longest,
    money.simpler,
    money.more,
    money.instead,
    told.proven,
    told.supposed,
    told.started,
)


def sections(plan: Plan) -> tuple[Section, ...]:
    """All that apply."""
    return tuple(found for section in SECTIONS if (found := section(plan)) is not None)
