"""How many ordinary questions a prefill/decode split answers: `python -m benchmarks.choice ordinary`.

Nodes that are rented, models that are served, lengths and limits that are usual, no rate. Each question has
its best fleet and the best whose replicas do both phases: the gain that the split promises is the first over
the second. A plan shows the split where planner/search/splits.py keeps it. Nothing here was measured: public
comparisons of such splits have a median gain of 1.25 over NVLink and RDMA (`splits`), and none over PCIe.
`--problems N --seed S`: how many questions of the whole grid, drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.scores.render import share, table
from planner.errors import MeshwrightError
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find, restricted
from planner.search.splits import unsplit, without_peers
from solvers.linear import Limits

QUESTIONS = 48
"""Questions of a run that is not told how many: some five minutes."""

SECONDS = 20.0
"""Time limit of a search."""

NODES = (
    *("8xH100", "16xH100", "8xH200", "8xB200", "8xA100", "8xMI300X", "4xH100"),
    *("8xL40S", "4xL40S", "8xA10G", "8xL4", "4xRTX-4090"),
)
MODELS = ("llama-3.1-8b", "qwen3-14b", "qwen3-32b", "llama-3.1-70b", "gpt-oss-120b")
LENGTHS = ((1024, 256), (4000, 500), (8000, 200), (1000, 1000))
"""Prompt and answer tokens; limits are those of chat: first tokens in 2 s, 50 ms a token."""


@dataclass(frozen=True)
class Question:
    """GPUs, model and lengths."""

    gpus: str
    model: str
    isl: int
    osl: int


@dataclass(frozen=True)
class Answer:
    """What came of a question: whether nodes have `peers`; the `gain` that the best fleet's split promises,
    None where it has none, infinite where nothing else keeps the limits; whether the plan `shows` it."""

    question: Question
    peers: bool
    gain: float | None
    shows: bool


def report(questions: int = QUESTIONS, seed: int = 0) -> str:
    """Splits of the best fleets and of plans, by whether GPUs read each other's memory."""
    answers = [answer for q in drawn(questions, seed) if (answer := answered(q)) is not None]
    groups = {
        "with peer-to-peer (NVLink, Infinity Fabric)": [a for a in answers if a.peers],
        "without (PCIe)": [a for a in answers if not a.peers],
        "all": answers,
    }
    heads = ("GPUs", "questions", "best fleet splits", "median gain", "most", "plan splits", "median gain")
    return table(heads, [_line(name, group) for name, group in groups.items() if group])


def _line(name: str, answers: Sequence[Answer]) -> list[str]:
    gains = [a.gain for a in answers if a.gain is not None]
    shown = [a.gain for a in answers if a.gain is not None and a.shows]
    most = f"{max(gains):.2f}" if gains else ""
    figures = [f"{np.median(g):.2f}" if g else "" for g in (gains, shown)]
    part = [f"{len(g)} ({share(len(g) / len(answers))})" for g in (gains, shown)]
    return [name, str(len(answers)), part[0], figures[0], most, part[1], figures[1]]


def drawn(questions: int, seed: int) -> Iterable[Question]:
    """So many questions of the grid, evenly; all where it has no more."""
    grid = [Question(*parts, *lengths) for *parts, lengths in product(NODES, MODELS, LENGTHS)]
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(grid))[: min(questions, len(grid))]
    return [grid[i] for i in sorted(chosen)]


def answered(question: Question) -> Answer | None:
    """The answer; None where no fleet keeps the limits, or none was found in time."""
    load = {"isl": question.isl, "osl": question.osl}
    limits = Limits(seconds=SECONDS, gap=0.01)
    try:
        stated, pool, asked = pose(read(None, question.model, question.gpus, "chat", load, {}))
        best = find(asked, pool, limits)
        if best.solution.objective is None:
            return None
        peers = not without_peers(stated.cluster.classes)
        if all(best.candidates[c].role == "mixed" for c, _ in best.solution.flows):
            return Answer(question, peers, None, False)
        together = restricted(asked, best, lambda c: c.role == "mixed", limits)
        theirs = together.solution.objective if together else None
        gain = best.solution.objective / theirs if theirs else float("inf")
        return Answer(question, peers, gain, unsplit(asked, best, limits) is None)
    except MeshwrightError:
        return None
