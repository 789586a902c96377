"""The last plan, kept in the user's state folder (XDG Base Directory Specification: `XDG_STATE_HOME`):
commands which take a plan find it where no file is named."""

from __future__ import annotations

import os
from pathlib import Path

from planner.errors import InputError

NAME = "last-plan.json"


def folder() -> Path:
    """Where it is kept."""
    told = os.environ.get("XDG_STATE_HOME", "")
    base = Path(told) if os.path.isabs(told) else Path.home() / ".local" / "state"
    return base / "meshwright"


def keep(text: str) -> bool:
    """Keep a plan as the last one; False where the folder takes nothing: then it is lost unless written with
    `-o`, and nothing else changes."""
    from planner.reading.new_files import replace  # here, not above: `--help` needs none of it

    try:
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(folder() / NAME, text.encode())
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return False
    return True


def last(plan: str | None) -> str:
    """The file that was named, or that of the last plan, which is said on stderr. Raises InputError where
    there is none."""
    if plan is not None:
        return plan
    from planner.cli.output import note

    try:
        path = folder() / NAME
        found = path.is_file()
    except (OSError, RuntimeError):
        found = False
    if not found:
        hint = "name a file that `meshwright plan -o plan.json` wrote, or plan first"
        raise InputError("no plan was named, and none was made before", "PLAN.json", hint)
    note(f"the last plan, as no file was named: {path}")
    return str(path)
