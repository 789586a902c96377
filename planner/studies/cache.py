"""Answers on disk by the digest of their question, shared between sweeps: each file whole, or absent.

A digest says all that an answer depends on, so a file never grows old: it is met again, or never. Several
sweeps may write at once: who comes last puts the same bytes in place.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from planner.errors import InputError

KEPT = (0, 3, 4)
"""Exit codes of answers that are kept: no errors of ours, no want of time, and no file that a worker did not
find."""
LEFT_S = 86_400.0
"""Age from which on an unfinished file is that of a sweep that was killed."""


class Cache:
    """Answers in `folder`, which is made where it is not there. Raises InputError where that cannot be."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(13, "permission denied")
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            hint = "give a folder, which may be a new one"
            raise InputError(f"cannot keep answers in `{folder}`: {reason}", "--cache", hint) from None
        for part in self.folder.glob("*/*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > LEFT_S:
                    part.unlink()

    def get(self, digest: str) -> dict[str, Any] | None:
        """The answer to a question; None where there is none, or what is there is damaged."""
        try:
            kept = json.loads(self._path(digest).read_bytes())
            found: dict[str, Any] = kept["answer"]
            if kept["question"] == digest and kept["sum"] == _sum(found):
                return found
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return None

    def put(self, digest: str, answer: dict[str, Any]) -> None:
        """Keep an answer. Where the disk has no room it is not kept, which costs time and nothing else."""
        if answer["exit_code"] not in KEPT:
            return
        path = self._path(digest)
        part = path.with_suffix(f".{os.getpid()}.part")
        whole = {"question": digest, "sum": _sum(answer), "answer": answer}
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            part.write_text(json.dumps(whole) + "\n", encoding="utf-8")
            part.replace(path)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest}.json"


def _sum(answer: Any) -> str:
    """What tells an answer from one that was damaged on disk: NaN and figures are told to the last digit."""
    return sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()
