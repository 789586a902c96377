"""Lower rates than the one shown: `python -m benchmarks.choice lower_rates`.

The random questions of `sound`, each for the most random arrivals, without what explains the plan, and again
with `--rate` a little below what the plan shows: the same nodes serve that, by the plan itself. `--problems N
--seed S`: how many, and which; `S:NUMBER` names a question, whatever was asked before it.
`--gpus N`: only those of so many GPUs at most, which are soon planned.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.choice.sound import Outcome, Question, answer, question
from benchmarks.scores.render import table

PROBLEMS = 10
"""Questions where nobody says how many: some two minutes. A long run has 300."""

MOST_GPUS = 1000
"""Of a question: all that are drawn have fewer."""

SHARE = 0.97
"""Of the rate shown, what is asked for."""

WORDS = {0: "served", 4: "served, gap not closed", 3: "infeasible", 5: "none in time"}
"""What becomes of the lower rate, by exit code; other codes are errors."""


@dataclass(frozen=True)
class Pair:
    """A plan for the most that is served, and the same question at a lower rate."""

    most: Outcome
    lower: Outcome

    @property
    def what(self) -> str:
        """What became of the lower rate."""
        return WORDS.get(self.lower.exit_code, "error")


def report(problems: int = PROBLEMS, seed: int = 0, gpus: int = MOST_GPUS) -> str:
    """Count what became of lower rates, and print those that were not served; of questions of `gpus` at
    most."""
    began, found = time.perf_counter(), list[Pair]()
    for pair in pairs(problems, seed, gpus):
        found.append(pair)
        shown = f"{pair.most.question.name} {pair.what}, {len(found)} pairs"
        print(shown, file=sys.stderr, flush=True)
    kinds = [*WORDS.values(), "error"]
    counts = [[kind, str(sum(pair.what == kind for pair in found))] for kind in kinds]
    seconds = time.perf_counter() - began
    said = f"{problems} questions, seed {seed}, {len(found)} with a plan, {seconds:.0f} s"
    lost = (pair for pair in found if pair.lower.plan is None)
    return "\n".join(
        [said, table([f"{SHARE:g} of the rate shown", "pairs"], counts), *(_told(pair) for pair in lost)]
    )


def pairs(problems: int, seed: int, gpus: int = MOST_GPUS) -> Iterator[Pair]:
    """Questions that have a plan, each with its lower rate."""
    for number in range(problems):
        asked = drawn(seed, number)
        if asked is not None and asked.gpus > gpus:
            continue
        most = answer(asked, explain=False) if asked is not None else None
        if most is not None and most.plan is not None:
            yield Pair(most, answer(lower(most), explain=False))


def drawn(seed: int, number: int) -> Question | None:
    """Question `number` of `seed` for the most random arrivals; None for chains, which have none."""
    asked = question(seed, number)
    if asked.options["engine"] == "chains":
        return None
    return asked.but(objective="throughput", loop="open")


def lower(most: Outcome, share: float = SHARE) -> Question:
    """The question of a plan at a share of what it serves; what serves it costs least."""
    assert most.plan is not None
    rate = share * most.plan.predicted.rps.value
    return most.question.but(objective=None, loop=None, rate=rate)


def _told(pair: Pair) -> str:
    assert pair.most.plan is not None
    shown = pair.most.plan.predicted.rps.value
    asked = f"{pair.lower.question.name} {pair.most.question.command}"
    return f"{pair.what}: {asked}: {shown:.6g} req/s, then\n  {pair.lower.words}"
