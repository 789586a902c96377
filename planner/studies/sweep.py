"""Plans every cell of a grid, whoever plans; a cell that fails is a row too; a killed run goes on.

A cell is known by the hash of its options, of the files they name, and of our version: what is done and
unchanged is never done again. Cells that come to the same question share one answer, and so do sweeps with a
common cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from planner.studies.grid import Cell
from planner.studies.journal import Journal, Row
from planner.studies.pools import Pool, Start
from planner.studies.questions import Answer, Planner, answer, failed, key, made_by

Progress = Callable[[int, int, int], None]


class Answered(NamedTuple):
    """A cell's key, the digest of its question (None: bad input), its answer, and whether it was `planned`
    for this cell, rather than known."""

    key: str
    question: str | None
    answer: Answer
    planned: bool


def run(cells: list[Cell], results: Path, planner: Planner, start: Start, progress: Progress) -> list[Row]:
    """Rows of all `cells`, in order, also written to `results` (JSONL). InputError where that can't be.

    `start` makes the pool that plans; `progress` hears (done, of, known without planning) after each cell.
    """
    keys = [key(cell) for cell in cells]
    unlike = dict(zip(keys, cells, strict=True))
    with Journal(results) as journal:
        todo = {k: cell for k, cell in unlike.items() if k not in journal.done}
        known = len(unlike) - len(todo)
        if todo:
            others = ("key", "cell", "question")
            answers = {
                row["question"]: {name: value for name, value in row.items() if name not in others}
                for row in journal.done.values()
                if row["question"]
            }
            desk = _Desk(planner, answers)
            with start(partial(answer, planner.plan, made_by())) as pool:
                progress(known, len(unlike), known)
                for count, one in enumerate(desk.answers(todo, pool), start=known + 1):
                    row = {"key": one.key, "cell": todo[one.key], **one.answer, "question": one.question}
                    journal.add(row)
                    known += not one.planned
                    progress(count, len(unlike), known)
        else:
            progress(known, known, known)
        journal.finish(keys)
        return [journal.done[k] for k in keys]


class _Desk:
    """Hands out each question once; `known`: answers by the digest of their question."""

    def __init__(self, planner: Planner, known: dict[str, Answer]) -> None:
        self.planner, self.known, self.cache = planner, known, planner.cache
        self.waiting: dict[str, list[str]] = {}
        """Keys of cells by the question that is handed out for them."""

    def answers(self, todo: dict[str, Cell], pool: Pool) -> Iterator[Answered]:
        """The answers to all cells of `todo`, in the order in which they are there."""
        for k, cell in todo.items():
            yield from self._ask(k, cell, pool)
            while pool.full:
                yield from self._landed(pool)
        while self.waiting:
            yield from self._landed(pool)

    def _ask(self, k: str, cell: Cell, pool: Pool) -> Iterator[Answered]:
        """The cell's answer where it is known; else its question is handed out, or is already."""
        try:
            digest, question = self.planner.resolve(cell)
        except Exception as failure:
            yield Answered(k, None, failed(failure), planned=False)
            return
        if digest in self.waiting:
            self.waiting[digest].append(k)
            return
        if digest not in self.known and self.cache and (kept := self.cache.get(digest)):
            self.known[digest] = kept
        if digest in self.known:
            yield Answered(k, digest, self.known[digest], planned=False)
            return
        self.waiting[digest] = [k]
        pool.submit(digest, question)

    def _landed(self, pool: Pool) -> Iterator[Answered]:
        """The next answer of the pool, to every cell that waits for it."""
        digest, found = pool.next()
        if found is None:  # an interrupt is no answer
            raise KeyboardInterrupt
        self.known[digest] = found
        if self.cache:
            self.cache.put(digest, found)
        for i, k in enumerate(self.waiting.pop(digest)):
            yield Answered(k, digest, found, planned=i == 0)
