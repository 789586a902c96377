"""Where commands write: the answer on stdout, all else on stderr, files whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from planner.cli.ascii import visible
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


def stdout() -> Console:
    """Console for the answer: no colour with NO_COLOR or where stdout is no terminal."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def stderr() -> Console:
    """Console for all else."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False)


def note(text: str) -> None:
    """A line for the reader's eye, on stderr."""
    print(visible(text), file=sys.stderr)


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """A file that appears under `path` complete, when the block ends well, or not at all.

    It is opened at once, so that a path that cannot be written fails before any work is done; what was there
    stays until then. Devices and pipes (`/dev/stdout`) are written directly.
    """
    path = Path(os.path.realpath(path))
    direct = path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "is a directory")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "permission denied")
        temporary = None if direct else _beside(path)
        file = (temporary or path).open("w", encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot write `{path}`: {reason}", hint="choose another file with -o") from error
    try:
        with file:
            yield file
        if temporary:
            temporary.replace(path)
    except BaseException:
        if temporary:
            temporary.unlink(missing_ok=True)
        raise


def _beside(path: Path) -> Path:
    """A new temporary file in the folder of `path`, with the access rights that a new file would have."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
    os.close(handle)
    return Path(name)
