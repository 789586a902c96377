"""Choices of the planner against measured comparisons: `python -m benchmarks.choice SECTION…`.

Sections: `picks` among layouts, `pipelines` beside layouts of one stage, `splits` of prefill and decode; and,
if asked for by name, `picks_folds` (some ten minutes) and `sound`, random questions (`--problems`, `--seed`).
The measurements lie in `../shared`; without them only `sound` prints anything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.choice import picks, pipelines, sound, splits
from benchmarks.truth import SERVING

SECTIONS: dict[str, Callable[[], str]] = {
    "picks": picks.report,
    "pipelines": pipelines.report,
    "splits": splits.report,
}
"""What prints a section, by its name."""

LONG: dict[str, Callable[[], str]] = {"picks_folds": picks.folds_report}
"""The same of those that are printed only if asked for."""

SOUND = "sound"
"""The section of random questions, which needs no measurements; printed only if asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the sections asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice")
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, *LONG, SOUND, []], help="all quick ones by default"
    )
    parser.add_argument("--problems", type=int, default=sound.PROBLEMS, help="random questions of `sound`")
    parser.add_argument("--seed", type=int, default=0, help="of `sound`")
    told = parser.parse_args(argv)
    asked = list(told.sections or SECTIONS)
    if not SERVING.is_dir():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        asked = [name for name in asked if name == SOUND]
    every = SECTIONS | LONG | {SOUND: partial(sound.report, told.problems, told.seed)}
    if asked:
        print("\n\n".join(every[name]() for name in asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
