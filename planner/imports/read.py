"""Any text that starts servers → a `Deployment`: commands, scripts, and manifests of orchestrators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from planner.errors import InputError
from planner.imports import manifests
from planner.imports.commands import PROGRAMS, servers
from planner.imports.deployment import Deployment, joined, named
from planner.imports.limits import MOST_BYTES_EACH, MOST_CHARACTERS, MOST_FILES, check_size
from planner.imports.yaml import load_all
from planner.reading.documents import STANDARD_INPUT, decoded, read_standard_input

ENDINGS = (".sh", ".sbatch", ".yaml", ".yml", ".txt", "")
"""Endings of files in a folder that may start servers."""

KEY = re.compile(r"""(["']?)[\w-]+\1\s*:(\s|$)""")
"""A key of YAML or JSON at the start of a line, in quotes or not."""


def read(text: str, name: str = "") -> Deployment:
    """What `text` starts. Raises InputError where it starts no server of an engine that is known."""
    check_size(text, name)
    lines = text.split("\n")
    body = "\n".join(x for x in lines if x.strip() and not x.lstrip().startswith("#"))
    if _is_manifest(body):
        made = manifests.read(load_all(text, name), name)
    else:
        made = joined("command", [named(s, name) for s in servers(text)])
    if not made.groups:
        known = ", ".join(" ".join(words).removeprefix("-m ") for words in PROGRAMS)
        raise InputError("no command that starts a server", name or "the text", f"known: {known}")
    return made


def read_path(path: str | Path) -> Deployment:
    """A file, or all files of a folder as one deployment. Raises InputError."""
    place = Path(path)
    if place.is_dir():
        return _folder(_texts(place), str(path))
    return read(_text(place), place.name)


def _texts(folder: Path) -> dict[str, str]:
    """The files of a folder that may start servers, by their names in it. Raises InputError."""
    files = list(
        islice((p for p in folder.rglob("*") if p.suffix in ENDINGS and p.is_file()), MOST_FILES + 1)
    )
    if len(files) > MOST_FILES:
        raise InputError(f"more than {MOST_FILES:,} files that may start servers", str(folder))
    found, characters = dict[str, str](), 0
    for file in sorted(files):
        found[str(file.relative_to(folder))] = text = _text(file)
        characters += len(text)
        if characters > MOST_CHARACTERS:
            raise InputError(f"its files hold more than {MOST_CHARACTERS:,} characters", str(folder))
    return found


def read_stdin() -> Deployment:
    """What the text on standard input starts. Raises InputError."""
    raw = read_standard_input(MOST_CHARACTERS * MOST_BYTES_EACH)
    return read(decoded(raw, STANDARD_INPUT, coloured=True), "stdin")


def _folder(files: Mapping[str, str], name: str) -> Deployment:
    """Scripts see each other's configuration files; manifests are read together. A server whose connector
    does not say its role has that of its file's name."""
    yamls = {n: t for n, t in files.items() if n.endswith((".yaml", ".yml"))}
    found = [named(s, n) for n, t in files.items() if n not in yamls for s in servers(t, yamls)]
    if found:
        return joined("command", found)
    documents = [x for n, t in yamls.items() for x in load_all(t, n)]
    made = manifests.read(documents, name, yamls)
    if not made.groups:
        raise InputError("no command or manifest that starts a server", name)
    return made


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"cannot be read: {getattr(error, 'strerror', None) or 'no text'}", str(path)
        ) from None


def _is_manifest(body: str) -> bool:
    """Whether the first line that is no comment is a key, a document mark or a brace."""
    first = body.split("\n", 1)[0]
    return first.startswith(("---", "{")) or KEY.match(first) is not None
