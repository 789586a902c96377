"""Pictures: whole, within their edges, the same figures as the page; PNG where its library is there."""

from __future__ import annotations

import struct
import sys
from xml.etree import ElementTree

import pytest

from planner.errors import InputError
from planner.reports.page.answer import facts, sentences
from planner.reports.page.picture import EDGE, WIDE, WIDTH_OF_LETTER, png, svg
from tests.reports.page.samples import ALL, plan_of
from tests.reports.page.test_page import EVIL, bent

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg([plan_of(name)], [name]))


@pytest.mark.parametrize("name", ALL)
def test_every_kind_of_plan_has_a_picture_within_its_edges(name):
    root = drawn(name)
    tall = float(root.attrib["height"])

    for rect in list(root.iter(f"{SVG}rect"))[1:]:
        x, y, w, h = (float(rect.attrib[a]) for a in ("x", "y", "width", "height"))
        assert x >= EDGE - 1
        assert x + w <= WIDE - EDGE + 1.5
        assert y + h <= tall - EDGE + 1
    for text in root.iter(f"{SVG}text"):
        x, size = float(text.attrib["x"]), float(text.attrib["font-size"])
        assert x + WIDTH_OF_LETTER * size * len(text.text or "") <= WIDE - EDGE + size


def test_it_has_the_figures_of_the_page_and_words_for_those_who_do_not_see_it():
    plan, root = plan_of("h100-8"), drawn("h100-8")
    said = [t.text for t in root.iter(f"{SVG}text")]

    assert all(fact.figure in said for fact in facts(plan))
    assert root.attrib["role"] == "img"
    assert next(root.iter(f"{SVG}desc")).text == " ".join(sentences(plan))


def test_several_plans_stand_one_under_the_other():
    both = ElementTree.fromstring(svg([plan_of("one-node"), plan_of("mixed")], ["a", "b"]))
    alone = [float(drawn(name).attrib["height"]) for name in ("one-node", "mixed")]

    assert float(both.attrib["height"]) > sum(alone) - 3 * EDGE
    assert {"a", "b"} <= {t.text for t in both.iter(f"{SVG}text")}


@pytest.mark.parametrize("word", EVIL)
def test_names_stay_text(word):
    root = ElementTree.fromstring(svg([bent(plan_of("h100-8"), word)], [word]))

    assert {tag.tag.removeprefix(SVG) for tag in root.iter()} == {
        "svg",
        "title",
        "desc",
        "style",
        "rect",
        "text",
    }


def test_a_png_is_twice_as_many_pixels():
    pytest.importorskip("resvg_py", reason="PNG takes resvg_py")
    root, made = drawn("one-node"), png([plan_of("one-node")], ["x"])

    assert made[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", made[16:24]) == (2 * WIDE, 2 * round(float(root.attrib["height"])))


def test_without_its_library_a_png_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)

    with pytest.raises(InputError, match="not installed") as error:
        png([plan_of("one-node")], ["x"])
    assert "meshwright[png]" in (error.value.hint or "")


def test_without_jinja_a_report_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(InputError) as error:
        svg([plan_of("one-node")], ["x"])
    assert error.value.hint == "pip install jinja2"
