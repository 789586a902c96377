"""The page in a real browser, from a file: a quiet console, no overflow, contrast as it is drawn, keys."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.reports.page import colours
from planner.reports.page.html import html
from planner.reports.page.picture import svg
from tests.reports.page.chromium import Chromium, installed
from tests.reports.page.samples import page_of, plan_of
from tests.reports.page.test_curve import SPEED
from tests.reports.page.test_page import bent

pytestmark = pytest.mark.skipif(installed() is None, reason="no Chromium is installed")

PAGES = (("h200-2x8",), ("three-zones",), ("ten-thousand",), ("mixed",), ("chains",), ("one-node", "mixed"))
WIDTHS = (390, 820, 1280)

CONTRAST = """
(() => {
  const part = x => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ground = tag => {
    for (; tag; tag = tag.parentElement) {
      const c = rgb(getComputedStyle(tag).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const tag = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(tag.tagName)) continue;
    const [a, b] = [light(rgb(getComputedStyle(tag).color)), light(ground(tag))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([walk.currentNode.data.trim(), ratio]);
  }
  return low;
})()
"""
"""Texts with a contrast below 4.5 to what lies under them, by the colours that the browser computes."""

CUT = """
[...document.querySelectorAll("p, li, dd, dt, figcaption, h1, h2, h3, .bar-label, .bar-figure")]
  .filter(tag => tag.offsetParent && tag.getBoundingClientRect().right > innerWidth + 0.5)
  .filter(tag => !tag.closest(".scroll, .unseen"))
  .map(tag => tag.textContent)
"""
"""Texts that reach beyond the right edge."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def written(folder: Path, names: tuple[str, ...]) -> Path:
    path = folder / "report.html"
    path.write_text(page_of(*names), encoding="utf-8")
    return path


@pytest.mark.parametrize("names", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_a_file_without_a_complaint_and_fits(browser, tmp_path, names, dark, width):
    browser.open(written(tmp_path, names), width, dark)
    browser.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    picture = tmp_path / "seen.png"
    browser.picture(picture)

    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(CUT) == []
    assert browser.value(CONTRAST) == []
    assert browser.troubles == []
    assert struct.unpack(">I", picture.read_bytes()[16:20]) == (width,)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_curve_fits_with_its_names(browser, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(html([plan_of("survive")], ["x"], SPEED), encoding="utf-8")
    browser.open(path, width)
    beyond = "[...document.querySelectorAll('.chart text')].map(t => t.getBoundingClientRect())"

    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(f"{beyond}.filter(r => r.left < 0 || r.right > innerWidth).length") == 0
    assert browser.troubles == []


@pytest.mark.parametrize("name", ["h100-8", "mixed", "kept"])
def test_names_of_any_length_fit_on_a_phone(browser, tmp_path, name):
    plan, path = bent(plan_of(name), "x" * 300), tmp_path / "report.html"
    path.write_text(html([plan], ["long"]), encoding="utf-8")
    browser.open(path, 390)

    assert browser.value("document.documentElement.scrollWidth") <= 390
    assert browser.value(CUT) == []


def test_low_contrast_and_complaints_would_be_seen(browser, tmp_path, monkeypatch):
    monkeypatch.setitem(colours.LIGHT, "ink", "#bbbbbb")
    page = html([plan_of("one-node")], ["pale"])
    path = tmp_path / "bad.html"
    path.write_text(page.replace('<p id="status"', '<img src="https://example.org/x.png"><p id="status"'))
    browser.open(path)

    assert browser.value(CONTRAST) != []
    assert any("Content Security Policy" in trouble for trouble in browser.troubles)


def test_another_script_does_not_run(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(
        page_of("one-node").replace("</body>", "<script>document.title = 'taken'</script></body>")
    )
    browser.open(path)

    assert browser.value("document.title") != "taken"


def focused(browser: Chromium) -> Any:
    return browser.value("document.activeElement.textContent.trim()")


def test_keys_reach_the_answer_open_what_is_folded_and_copy(browser, tmp_path):
    browser.open(written(tmp_path, ("h100-8",)))
    browser.press("Tab", 9)
    assert focused(browser) == "To the answer"
    browser.press("Enter", 13, "\r")
    assert browser.value("document.activeElement.id") == "main"

    browser.value("document.querySelector('summary').focus()")
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
    browser.press("Enter", 13, "\r")
    assert browser.value("document.querySelector('details').open") is True

    browser.value("document.querySelector('.command button').focus()")
    browser.press("Enter", 13, "\r")
    browser.value("new Promise(done => setTimeout(done, 300))")
    assert browser.value("document.querySelector('#status').textContent") in (
        "Copied to the clipboard",
        "Selected",
    )
    assert browser.troubles == []


def test_screen_readers_are_told_of_landmarks_headings_and_tables(browser, tmp_path):
    browser.open(written(tmp_path, ("one-node", "mixed")))
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    told = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
    roles = [role for role, _ in told]

    for role in (
        "banner",
        "navigation",
        "main",
        "contentinfo",
        "article",
        "table",
        "columnheader",
        "rowheader",
    ):
        assert role in roles
    assert ("navigation", "Sections") in told
    assert ("heading", "2 plans side by side") in told
    assert ("region", "What runs where") in told
    assert all(
        name for role, name in told if role in ("link", "button", "region", "table", "article", "heading")
    )


def test_on_paper_all_is_shown_in_light_colours(browser, tmp_path):
    browser.open(written(tmp_path, ("h100-8",)), dark=True)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    browser.value("dispatchEvent(new Event('beforeprint'))")

    assert browser.value("[...document.querySelectorAll('details')].every(each => each.open)")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.value("getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 31, 36)"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_picture_opens_too(browser, tmp_path, dark):
    path = tmp_path / "report.svg"
    path.write_text(svg([plan_of("mixed")], ["mixed"]), encoding="utf-8")
    browser.open(path, dark=dark)
    page = "rgb(17, 20, 23)" if dark else "rgb(246, 246, 243)"

    assert browser.value("getComputedStyle(document.querySelector('.page')).fill") == page
    assert browser.troubles == []
