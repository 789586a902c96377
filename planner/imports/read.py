"""Any text that starts servers → a `Deployment`: commands, scripts, and manifests of orchestrators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from planner.errors import InputError
from planner.imports import manifests
from planner.imports.commands import PROGRAMS, servers
from planner.imports.deployment import Deployment, joined, named
from planner.imports.yaml import load_all

MAX_BYTES = 10_000_000

ENDINGS = (".sh", ".sbatch", ".yaml", ".yml", ".txt", "")
"""Endings of files in a folder that may start servers."""


def read(text: str, name: str = "") -> Deployment:
    """What `text` starts. Raises InputError where it starts no server of an engine that is known."""
    if len(text) > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES:,} characters", name)
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
        files = sorted(p for p in place.rglob("*") if p.suffix in ENDINGS)
        return _folder({str(p.relative_to(place)): _text(p) for p in files if p.is_file()}, str(path))
    return read(_text(place), place.name)


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
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"cannot be read: {getattr(error, 'strerror', None) or 'no text'}", str(path)
        ) from None


def _is_manifest(body: str) -> bool:
    """Whether the first line that is no comment is a key, a document mark or a brace."""
    first = body.split("\n", 1)[0]
    key = first.partition(":")
    return first.startswith(("---", "{")) or (bool(key[1]) and key[0].replace("_", "").isalnum())
