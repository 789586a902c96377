"""Choices of the planner against measured comparisons: `python -m benchmarks.choice SECTION…`.

Sections: `picks` among layouts, `pipelines` beside layouts of one stage, `splits` of prefill and decode; and,
if asked for by name, `picks_folds` and `mechanisms` left out of the fit (some five minutes each), `sound`,
random questions, `lower_rates`, each again at less than it shows, `percentiles`, promises that are replayed,
`rates`, whole steps of shipped plans and random designs, and `ordinary`, how many usual questions a split
answers (`--problems`, `--seed`). The measurements lie in `../shared`; without them only the last five print
anything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.choice import (
    folds,
    lower_rates,
    mechanisms,
    ordinary,
    percentiles,
    picks,
    pipelines,
    rates,
    sound,
    splits,
)
from benchmarks.truth import SERVING

SECTIONS: dict[str, Callable[[], str]] = {
    "picks": picks.report,
    "pipelines": pipelines.report,
    "splits": splits.report,
}
"""What prints a section, by its name."""

LONG: dict[str, Callable[[], str]] = {
    "picks_folds": folds.report,
    "mechanisms": mechanisms.report,
}
"""The same of those that are printed only if asked for."""

DRAWN: dict[str, tuple[Callable[[int, int], str], int]] = {
    "sound": (sound.report, sound.PROBLEMS),
    "lower_rates": (lower_rates.report, lower_rates.PROBLEMS),
    "percentiles": (percentiles.report, percentiles.PROBLEMS),
    "rates": (rates.report, rates.DESIGNS),
    "ordinary": (ordinary.report, ordinary.QUESTIONS),
}
"""What prints a section of random questions or designs, and how many of them where nobody says; they need no
measurements and are printed only if asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the sections asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice")
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, *LONG, *DRAWN, []], help="all quick ones by default"
    )
    parser.add_argument("--problems", type=int, help="random questions or designs")
    parser.add_argument("--seed", type=int, default=0, help="of these")
    parser.add_argument("--gpus", type=int, help="of `lower_rates` and `percentiles`: so many at most")
    parser.add_argument("--named", action="store_true", help="of `percentiles`: those that name an engine")
    parser.add_argument("--seconds", type=float, default=sound.SECONDS, help="time limit of a plan of these")
    told = parser.parse_args(argv)
    sound.SECONDS = told.seconds
    asked = list(told.sections or SECTIONS)
    if not SERVING.is_dir():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        asked = [name for name in asked if name in DRAWN]
    drawn = {name: partial(print_, told.problems or n, told.seed) for name, (print_, n) in DRAWN.items()}
    if told.gpus:
        drawn |= {name: partial(drawn[name], told.gpus) for name in ("lower_rates", "percentiles")}
    if told.named:
        drawn["percentiles"] = partial(drawn["percentiles"], named=True)
    every = SECTIONS | LONG | drawn
    if asked:
        print("\n\n".join(every[name]() for name in asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
