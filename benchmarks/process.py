"""One run of the planner as its own process: CPU seconds, peak memory and the plan it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MIB = 2**20
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Run:
    """User and system seconds, wall seconds and peak MiB of a process, its exit code and JSON (None where it
    printed none)."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    code: int
    plan: dict[str, Any] | None
    errors: str

    @property
    def why(self) -> str:
        """In a word, why there is no plan."""
        return self.errors.strip().splitlines()[0] if self.errors.strip() else f"exit code {self.code}"


def planned(options: Sequence[str], runs: int = 1, checkout: Path = ROOT) -> Run:
    """`meshwright plan OPTIONS --json` as a cold process; of several `runs` the one of median CPU, by
    the planner of `checkout`."""
    _compiled(checkout)
    command = ("plan", *options, "--json")
    made = sorted((_run(command, checkout) for _ in range(runs)), key=lambda r: r.cpu_s)
    return made[len(made) // 2]


@cache
def _compiled(checkout: Path) -> None:
    """Python compiles a module once after installation: that is not a plan's time."""
    _run(("plan", "--gpus", "1xH100", "--model", "llama-3.1-8b", "--json"), checkout)


@cache
def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    folder = os.path.join(tempfile.gettempdir(), f"meshwright-compiled-{os.getuid()}")
    return {"PYTHONPYCACHEPREFIX": folder, "OMP_NUM_THREADS": "1", **kept}


def _run(arguments: Sequence[str], checkout: Path) -> Run:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        command = [sys.executable, "-m", "planner.cli.app", *arguments]
        child = subprocess.Popen(command, stdout=out, stderr=err, env=_environment(), cwd=checkout)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, errors = out.read().decode(), err.read().decode()
    plan = json.loads(text) if text.lstrip().startswith("{") else None
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MIB
    return Run(used.ru_utime + used.ru_stime, wall, peak, child.returncode, plan, errors)


def rows(lines: Sequence[Sequence[str]], markdown: bool) -> str:
    """A table of text, its first line the heads; markdown, or columns padded with spaces."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in padded)
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)
