"""How many drafted tokens an engine counted as accepted, from a file of its benchmark's results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.drafts.kinds import acceptance_of
from planner.errors import InputError
from planner.reading.documents import decoded, read_bytes


def counted(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with what a file named by `acceptance` says in its place. Raises InputError."""
    named = options.get("acceptance")
    if not isinstance(named, str) or _is_number(named):
        return dict(options)
    return {**options, "acceptance": acceptance(named)}


def acceptance(path: str) -> float:
    """Probability that a drafted token was accepted, of the first run of a file that counted. Raises
    InputError: no such file, or none did."""
    from planner.calibration import formats  # only here: the forms take 30 ms to set up
    from planner.calibration.measurements import MAX_BYTES

    text = decoded(read_bytes(Path(path), MAX_BYTES), path)
    for _, run in formats.runs(text, path):
        if not isinstance(run, InputError) and "draft_tokens" in run.told:
            return acceptance_of(int(run.told["draft_tokens"]), float(run.told["accepted_tokens"]))
    hint = "results of `vllm bench serve --save-result` count them, or say a number"
    raise InputError("no run there says how many drafted tokens were accepted", path, hint)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
