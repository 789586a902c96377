"""Questions answered in this process, one after another."""

from __future__ import annotations

from typing import Any

from planner.studies.pools import Work


class Here:
    def __init__(self, work: Work) -> None:
        self.work, self.left = work, list[tuple[str, Any]]()

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self.left.clear()

    @property
    def full(self) -> bool:
        return bool(self.left)

    def submit(self, name: str, question: Any) -> None:
        self.left.append((name, question))

    def next(self) -> tuple[str, Any]:
        name, question = self.left.pop(0)
        return name, self.work(question)
