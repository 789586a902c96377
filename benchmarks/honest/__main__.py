"""Tries to prove the planner's bounds false: `python -m benchmarks.honest [--problems 500] [--seed 0]
[--minutes M] [--jobs J] [--fixed] [--only N …] [--journal FILE]`.

A bound says that no fleet does better. Three kinds of fleets might:

* plans for a looser limit, a part of the cluster, one engine, a smaller budget, more traffic: each solves the
  other problem, too, so its figure is not better than that problem's bound, nor that problem infeasible;
* the fleets of plans, loaded as far as the planner's one model of a server says that the limits are kept;
* random fleets, and those of plans with a count or a design changed, under continuous loads by bisection.

Problems are random (`problems.py`), made from the seed and their number alone; each is asked with a gap of
zero and a limit on branch-and-bound nodes, so that answers are the same on any machine. A line a kind:
problems and comparisons, how many refuted a bound and by how much at most. Below them the worst, to be asked
again.
`--journal` keeps what was done: the same command goes on where it was broken off.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.honest.answers import Comparison, Effort
from benchmarks.honest.problems import FIXED
from benchmarks.honest.trial import tried
from benchmarks.process import rows

WORST = 2
"""Problems of each kind whose refutations are shown."""


@dataclass(frozen=True)
class Done:
    """One problem's comparisons, what went wrong, and CPU seconds."""

    number: int
    made: tuple[Comparison, ...]
    mistakes: tuple[str, ...]
    cpu_s: float

    @property
    def failed(self) -> bool:
        """Whether a plan did not pass its own check, or there was another mistake of the planner's."""
        return any(words.startswith("failed") for words in self.mistakes)

    @property
    def line(self) -> str:
        """For the journal."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(line: str) -> Done:
        """From the journal."""
        told: dict[str, Any] = json.loads(line)
        made = tuple(Comparison(**c) for c in told["made"])
        return Done(told["number"], made, tuple(told["mistakes"]), told["cpu_s"])


def main(argv: Sequence[str] | None = None) -> int:
    """Try, print; 1 where a bound was refuted, or the planner failed."""
    options = _options(argv)
    numbers = options.only or (
        [-i - 1 for i in range(len(FIXED))] if options.fixed else range(options.problems)
    )
    effort = Effort(options.work, gap=options.gap)
    before = _journal(options.journal)
    before = [d for d in before if d.number in set(numbers)]
    left = [n for n in numbers if n not in {d.number for d in before}]
    done = [*before, *_all(left, partial(_one, options.seed, effort, options.fleets), options)]
    print(report(done, options.seed))
    return int(any(d.failed or any(c.refuted for c in d.made) for d in done))


def _all(numbers: Sequence[int], one: Callable[[int], Done], options: argparse.Namespace) -> Iterator[Done]:
    """Each problem's outcome, written to the journal as it comes, until the minutes are over."""
    until = time.monotonic() + 60 * options.minutes
    journal = open(options.journal, "a", encoding="utf-8") if options.journal else None  # noqa: SIM115
    try:
        for done in _mapped(numbers, one, options.jobs, until):
            if journal:
                journal.write(done.line + "\n")
                journal.flush()
            refuted = sum(c.refuted for c in done.made)
            words = (
                f"problem {done.number}: {len(done.made)} comparisons, {refuted} refute, {done.cpu_s:.1f} s"
                + ", FAILED" * done.failed
            )
            print(words, file=sys.stderr, flush=True)
            yield done
    finally:
        if journal:
            journal.close()


def _mapped(numbers: Sequence[int], one: Callable[[int], Done], jobs: int, until: float) -> Iterator[Done]:
    """In this process, or as many at once as there are jobs."""
    if jobs == 1:
        for number in numbers:
            if time.monotonic() > until:
                return
            yield one(number)
        return
    with ProcessPoolExecutor(jobs) as pool:
        begun, left = set[Future[Done]](), iter(numbers)
        while True:
            more = () if time.monotonic() > until else islice(left, jobs - len(begun))
            begun |= {pool.submit(one, number) for number in more}
            if not begun:
                return
            ended, begun = wait(begun, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in ended)


def _one(seed: int, effort: Effort, fleets: int, number: int) -> Done:
    began = time.process_time()
    made, mistakes = tried(seed, number, effort, fleets)
    return Done(number, tuple(made), tuple(mistakes), time.process_time() - began)


def report(done: Sequence[Done], seed: int) -> str:
    """The table, the worst refutations of each kind, and what the planner had no answer to."""
    by_kind: dict[str, dict[int, list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    for d in done:
        for c in d.made:
            by_kind[c.kind][d.number].append(c)
    heads = ["against a bound", "problems", "comparisons", "refuted", "worst excess", "of a fleet not to be"]
    lines = [heads, *(_line(kind, found) for kind, found in sorted(by_kind.items()))]
    cpu_s = sum(d.cpu_s for d in done)
    failed = f"{sum(d.failed for d in done)} of which failed"
    told = f"\n{len(done)} problems, {failed}, seed {seed}, {cpu_s:,.0f} CPU seconds.\n"
    parts = [rows(lines, markdown=True), told]
    for kind in sorted(by_kind):
        worst = [(n, max(made, key=lambda c: c.excess)) for n, made in by_kind[kind].items()]
        for number, c in sorted(worst, key=lambda item: -item[1].excess)[:WORST]:
            parts += _shown(c, f"--seed {seed} --only {number}") if c.refuted else []
    parts += [f"no answer: {words}" for d in done for words in d.mistakes]
    return "\n".join(parts)


def _line(kind: str, found: Mapping[int, Sequence[Comparison]]) -> list[str]:
    """A kind of comparison in numbers."""
    made = [c for own in found.values() for c in own]
    refuted = [c for c in made if c.refuted]
    by = max((c.excess for c in refuted if math.isfinite(c.excess)), default=0.0)
    none = sum(math.isinf(c.excess) for c in refuted)
    shown = f"{100 * by:.2g} %" if by else "–"
    return [kind, str(len(found)), str(len(made)), str(len(refuted)), shown, str(none) if none else "–"]


def _shown(c: Comparison, again: str) -> list[str]:
    """A refutation, and how to ask again: for its comparison, for the bound, and for the fleet."""
    by = "beyond" if math.isinf(c.excess) else f"{100 * c.excess:.2g} %"
    lines = [f"{by} {c.kind} (`{again}`): {c.words}", f"    bound: {c.bounded}"]
    return [*lines, f"    fleet: {c.found}"] if c.found != c.bounded else lines


def _journal(path: Path | None) -> list[Done]:
    if path is None or not path.is_file():
        return []
    return [Done.read(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _options(argv: Iterable[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no new problem after so many")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=int, default=200, help="branch-and-bound nodes of a plan")
    parser.add_argument("--gap", type=float, default=0.0)
    parser.add_argument("--fleets", type=int, default=12, help="random fleets a problem")
    parser.add_argument("--fixed", action="store_true", help="the problems of the table that began it")
    parser.add_argument("--only", type=int, nargs="*", help="problems by number")
    parser.add_argument("--journal", type=Path, help="problems done are kept here and not done again")
    return parser.parse_args(None if argv is None else list(argv))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
