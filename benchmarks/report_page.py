"""Reports: how large the file is, how long it takes to write and to open, and whether all of it is seen.

    python -m benchmarks.report_page                       every kind of plan, and three of them compared
    python -m benchmarks.report_page --picture 390 dark PLAN.json -o page.png

Opened from a file in a headless Chromium, at three widths in light and dark, everything unfolded. *Opens*:
until its load event, the longest of the six; *cut off*: pixels beyond the edge; *said*: on the console. Exits
with 1 where a page is over 6 MB, opens in more than a second, is cut off, or says something. The second form
takes a screenshot of a plan's page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from planner.plans.reading import read_plan
from planner.plans.schema import Plan
from planner.reports.page.answer import owned
from planner.reports.page.html import html
from planner.reports.page.picture import svg
from tests.reports.page.chromium import Chromium, installed
from tests.reports.page.samples import ALL, plan_of

COMPARED = ("lab", "melange-cloud", "ten-thousand")
WIDTHS = (390, 820, 1280)
MOST_BYTES, MOST_MS = 6e6, 1000.0
UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
BEYOND = "document.documentElement.scrollWidth - innerWidth"
HEAD = ("plan", "GPUs", "HTML, kB", "SVG, kB", "written, ms", "opens, ms", "cut off, px", "said")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("plans", nargs="*", metavar="PLAN.json")
    parser.add_argument("--picture", nargs=2, metavar=("WIDTH", "THEME"))
    parser.add_argument("--height", type=int, metavar="PIXELS")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    if installed() is None:
        print("no Chromium is installed", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Chromium(Path(folder) / "profile") as browser,
    ):
        if asked.picture:
            page = Path(folder) / "report.html"
            page.write_text(html([read_plan(p) for p in asked.plans], asked.plans), encoding="utf-8")
            browser.open(page, int(asked.picture[0]), asked.picture[1] == "dark")
            browser.picture(asked.output, asked.height)
            return 0
        cases = {name: [plan_of(name)] for name in ALL}
        cases[" + ".join(COMPARED)] = [plan_of(name) for name in COMPARED]
        print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
        return max(_row(browser, Path(folder), *case) for case in cases.items())


def _row(browser: Chromium, folder: Path, name: str, plans: list[Plan]) -> int:
    """Measure and print one page; 1 where it is not as it should be."""
    given = [f"{name} {i}" for i in range(len(plans))]
    began = time.perf_counter()
    text = html(plans, given)
    written_ms = 1e3 * (time.perf_counter() - began)
    page = folder / "report.html"
    page.write_text(text, encoding="utf-8")
    opened, beyond, said = [], [], 0
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(page, width, dark)
            opened.append(browser.value(OPENED))
            browser.value(UNFOLD)
            beyond.append(browser.value(BEYOND))
            said += len(browser.troubles)
    size, gpus = len(text.encode()), sum(map(owned, plans))
    picture = len(svg(plans, given).encode())
    cells = (name, f"{gpus:,}", f"{size / 1e3:.0f}", f"{picture / 1e3:.0f}", f"{written_ms:.0f}")
    print(
        "| " + " | ".join((*cells, f"{max(opened):.0f}", f"{max(beyond):.0f}", f"{said}")) + " |", flush=True
    )
    return int(size > MOST_BYTES or max(opened) > MOST_MS or max(beyond) > 0 or said > 0)


if __name__ == "__main__":
    sys.exit(main())
