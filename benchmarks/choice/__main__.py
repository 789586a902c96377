"""Choices of the planner against measured comparisons: `python -m benchmarks.choice SECTION…`.

Sections: `picks` among layouts, `pipelines` beside layouts of one stage, `splits` of prefill and decode; and,
if asked for by name, `picks_folds` (some ten minutes). The measurements lie in
`../shared`; without them nothing is printed on stdout.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks.choice import picks, pipelines, splits
from benchmarks.truth import SERVING

SECTIONS: dict[str, Callable[[], str]] = {
    "picks": picks.report,
    "pipelines": pipelines.report,
    "splits": splits.report,
}
"""What prints a section, by its name."""

LONG: dict[str, Callable[[], str]] = {"picks_folds": picks.folds_report}
"""The same of those that are printed only if asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the sections asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice")
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, *LONG, []], help="all quick ones by default"
    )
    asked = parser.parse_args(argv).sections or SECTIONS
    if not SERVING.is_dir():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return 0
    print("\n\n".join((SECTIONS | LONG)[name]() for name in asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
