"""Files that appear whole or not at all, also in folders that others may write into.

What is being written has a name that nobody can foresee, and is made new, never through a link that was
planted there.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO, Final

NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)  # not on Windows


def beside(path: Path) -> Path:
    """A new name in the folder of `path` for what is to become it. What a process that was killed has left
    there under such a name is removed."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        pid, _, word = old.name[len(path.name) + 2 : -len(".part")].partition(".")
        if pid.isdecimal() and len(word) == 16 and not _runs(int(pid)):
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.part")


def _runs(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def create(path: Path) -> BinaryIO:
    """A new file, open for writing. Raises FileExistsError where anything has its name, a link to nowhere
    included."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def replace(path: Path, content: bytes) -> None:
    """A new file in place of what is there, with the access rights that it has, or that a new one would.
    Raises OSError; then what was there stays."""
    temporary = beside(path)
    try:
        with create(temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
