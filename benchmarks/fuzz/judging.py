"""Runs a command in this process and says what is wrong with the answer, if anything."""

from __future__ import annotations

import faulthandler
import io
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

EXITS = {0, 2, 3, 4, 5}
PATIENCE_S = 20
"""Seconds of the processor after which a command hangs."""

AT_REST = 5
"""Times as many on the wall: other programs may be running."""

ELSEWHERE = re.compile(r"^  at (\w+\W|--)", re.MULTILINE)
"""Where it is if not in the file: a place in the plan, "replicas[0].memory", or an option of the command
line."""


@dataclass(frozen=True)
class Answer:
    """What a command said: exit code, both streams, seconds, warnings of libraries, files it left
    unfinished."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    warned: tuple[str, ...]
    left: tuple[str, ...]


class Hang(BaseException):
    """The command runs longer than anybody waits; no `except Exception` swallows it."""


def answered(command: str, patience_s: float = PATIENCE_S) -> Answer:
    """The command run in this folder."""
    from planner.cli import app

    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            with alarm(patience_s):
                code = app.run(shlex.split(command))
        except Hang:
            code = 124
    warned = tuple(f"{w.category.__name__}: {w.message} ({Path(w.filename).name}:{w.lineno})" for w in caught)
    left = tuple(str(path) for path in Path().rglob("*.part"))
    return Answer(code, out.getvalue(), err.getvalue(), time.monotonic() - began, warned, left)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raises Hang in here after so many seconds of the processor, or AT_REST times as many on the wall."""

    def ring(_: int, frame: FrameType | None) -> None:
        raise Hang

    clocks = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, AT_REST * seconds),
    )
    before = [signal.signal(heard, ring) for _, heard, _ in clocks]
    for clock, _, after in clocks:
        signal.setitimer(clock, after)
    faulthandler.dump_traceback_later(2 * AT_REST * seconds, exit=True, file=sys.__stderr__)  # in a library
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for (clock, heard, _), old in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(heard, old)


def fault(command: str, files: Mapping[str, bytes], file: str) -> str | None:
    """What is wrong with the answer to a command in a folder of these files, of which `file` is broken."""
    with TemporaryDirectory(prefix="fuzz-") as folder, chdir(folder):
        for name, data in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(data)
        answer = answered(command)
    return wrong(answer, file)


def wrong(answer: Answer, file: str) -> str | None:
    """Nothing, or the first of: a hang, an error nobody foresaw, a warning of a library, a message without an
    end or a place, terminal control in what was printed, a file left unfinished."""
    said = answer.stderr
    if answer.code == 124:
        return f"hang: longer than {PATIENCE_S} s of the processor"
    if "unexpected " in said and "this is a bug" in said:
        return next(line for line in said.splitlines() if "unexpected " in line)[:200]
    if "Traceback" in said + answer.stdout:
        return "traceback"
    if answer.code not in EXITS:
        return f"exit code {answer.code}: {said[-200:]}"
    if answer.warned:
        return answer.warned[0][:200]
    if answer.left:
        return f"left behind: {answer.left[0]}"
    if any((ord(c) < 32 and c not in "\n\t") or ord(c) in (0x7F, 0x9B, 0x202E) for c in said + answer.stdout):
        return "control characters printed: " + repr(said[-200:])
    if answer.code == 2 and file not in said + answer.stdout and not ELSEWHERE.search(said):
        return f"the answer does not name {file}: {said[:200]}"
    return None


def memory(gigabytes: float) -> None:
    """From now on this process may have no more address space: a file of some kB that asks for more is a
    fault."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 1e9), int(gigabytes * 1e9)))
