"""How far a long command is, on stderr: a line that renews itself on a terminal, else one now and then."""

from __future__ import annotations

import sys
import time

SECONDS_BETWEEN_LINES = 10.0


class Status:
    """What a command is doing, on a terminal only: call it with the words; gone when the `with` ends."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def __call__(self, words: str) -> None:
        if self.live:
            print(f"\r\x1b[2K{words} …", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Status:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


class Progress:
    """Call it with (done, of, found done before) after each step, in a `with` that ends the line."""

    def __init__(self, what: str) -> None:
        self.what, self.start, self.shown = what, time.monotonic(), 0.0
        self.live = sys.stderr.isatty()
        self.written = False

    def __call__(self, done: int, of: int, before: int) -> None:
        """Show it, on a terminal at most ten times a second."""
        now = time.monotonic()
        wait = 0.1 if self.live else SECONDS_BETWEEN_LINES
        if self.written and now - self.shown < wait and done < of:
            return
        self.shown, self.written = now, True
        line = describe(self.what, done, of, before, now - self.start)
        print(
            f"\r\x1b[2K{line}" if self.live else line,
            end="" if self.live else "\n",
            file=sys.stderr,
            flush=True,
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.written:
            print(file=sys.stderr)


def describe(what: str, done: int, of: int, before: int, elapsed_s: float) -> str:
    """One line of progress, with the time left at the pace so far (of what was done now, not found done).

    >>> describe("cells", 30, 100, 20, 5.0)
    '30 of 100 cells (20 found done), 35 s left'
    """
    found = f" ({before} found done)" if before else ""
    line = f"{done:,} of {of:,} {what}{found}"
    if done == of:
        return f"{line}, {clock(elapsed_s)}"
    return f"{line}, {clock(elapsed_s / (done - before) * (of - done))} left" if done > before else line


def clock(seconds: float) -> str:
    """Seconds as people say them.

    >>> clock(0.4), clock(35.2), clock(90), clock(7260)
    ('0.4 s', '35 s', '1 min 30 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
