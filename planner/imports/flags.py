"""Command lines of engines: which flag each word is, by the engine's own table (`flags/*.csv`).

The tables were read from the engines' parsers (`benchmarks/flag_tables.py`): vllm 0.11.2, 0.23.0, 0.33.0;
sglang 0.5.5, 0.5.13, 0.5.23; llama.cpp 4227c9be, 0c1e5709; TensorRT-LLM of 2026; Dynamo 1.6.1.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from planner.errors import InputError, nearest
from planner.imports.limits import MOST_NUMBER

TABLES = Path(__file__).parent / "flags"


@dataclass(frozen=True)
class Flag:
    """`takes`: "value", "list", "nothing", "switch" (nothing, and `--no-x` is its contrary) or "maybe";
    `versions` newest first; `instead`: what took its place."""

    name: str
    takes: str
    versions: tuple[str, ...]
    instead: str = ""


@dataclass
class Line:
    """A command line as its engine reads it: values by the flag's full name, words without a flag, flags that
    no version of the engine knows, and what else is to be told."""

    values: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    known: list[Flag] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def get(self, *names: str) -> str | None:
        """The value of the first of these flags that is given."""
        return next((self.values[name] for name in names if name in self.values), None)

    def number(self, *names: str) -> int | None:
        """The same as a whole number: "32k" is 32,000 and "32K" 32,768, as vLLM reads them."""
        return whole(self.get(*names))

    def on(self, *names: str) -> bool:
        """Whether one of these switches is on."""
        return (self.get(*names) or "false").lower() not in ("false", "0", "off")


def whole(text: object) -> int | None:
    """A whole number with an ending of thousands, or None where it is none.

    >>> whole("32k"), whole("32K"), whole("auto"), whole(8)
    (32000, 32768, None, 8)
    """
    said = str(text).strip()
    times = {"k": 1000, "m": 10**6, "g": 10**9, "K": 1024, "M": 2**20, "G": 2**30}.get(said[-1:], 1)
    try:
        found = int(float(said[:-1]) * times) if times > 1 else int(said)
    except (ValueError, OverflowError):  # no number, or infinite
        return None
    if abs(found) > MOST_NUMBER:
        raise InputError(f"a number of {len(said)} digits, `{said[:20]}…`")
    return found


@cache
def table(engine: str) -> dict[str, Flag]:
    """Every spelling of every flag of an engine."""
    found: dict[str, Flag] = {}
    with open(TABLES / f"{engine}.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            flag = Flag(row["flag"], row["takes"], tuple(row["versions"].split()), row["instead"])
            for name in (row["flag"], *row["aliases"].split()):
                found.setdefault(name, flag)
    return found


def parsed(argv: Sequence[str], engine: str, beside: str = "") -> Line:
    """`argv` (without the program) as `engine` reads it; `beside`: a table of further flags (Dynamo's)."""
    flags, line = {**table(engine), **(table(beside) if beside else {})}, Line()
    words = list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word[1:].replace(".", "", 1).isdigit():
            line.words.append(word)
            continue
        name, equals, value = word.partition("=")
        flag, how = _found(name, flags, engine)
        if flag is None:
            line.unknown.append(name)
            if not equals and words and not words[0].startswith("-"):
                words.pop(0)
            continue
        line.known.append(flag)
        if how == "prefix":
            line.notes.append(f"`{name}` is short for `{flag.name}`: write the whole name")
        if flag.takes == "list" and not equals:
            taken = []
            while words and not words[0].startswith("-"):
                taken.append(words.pop(0))
            value = " ".join(taken)
        elif flag.takes in ("value", "list") and not equals:
            value = words.pop(0) if words else ""
        elif flag.takes == "maybe" and not equals:
            value = words.pop(0) if words and words[0] in ("on", "off", "auto") else "true"
        elif flag.takes in ("switch", "nothing") and not equals:
            value = "false" if how == "no" else "true"
        if "." in name and engine == "vllm":
            line.values[f"{flag.name}.{name.partition('.')[2]}"] = value
        else:
            line.values[flag.name] = value
    return line


def _found(name: str, flags: dict[str, Flag], engine: str) -> tuple[Flag | None, str]:
    """The flag that a word names, and how: whole, "no" of a switch, or a prefix."""
    if name.startswith("--") and engine != "llama.cpp" and name not in flags:
        name = name.replace("_", "-") if engine != "trtllm" else name.replace("-", "_").replace("__", "--", 1)
    if name in flags:
        return flags[name], ""
    if engine == "vllm":
        if name.startswith("-O"):
            return flags.get("--compilation-config") or flags.get("--optimization-level"), ""
        base = flags.get(name.partition(".")[0])
        if base is not None and "." in name:
            return base, ""
    if name.startswith("--no-") and (flag := flags.get("--" + name[5:])) and flag.takes == "switch":
        return flag, "no"
    close = {flag.name: flag for spelt, flag in flags.items() if spelt.startswith(name)}
    if (engine == "sglang" and len(close) == 1) or (engine == "sglang" and f"{name}-size" in close):
        return close.get(f"{name}-size") or next(iter(close.values())), "prefix"
    return None, ""


def refused(line: Line, engine: str, version: str | None) -> list[str]:
    """What the engine's version would refuse, in words; without a version what no known one takes."""
    known = versions(engine)
    at = next((v for v in known if _key(v) <= _key(version)), known[-1]) if version else None
    said = []
    for name in line.unknown:
        near = ", ".join(f"`{n}`" for n in nearest(name, sorted({f.name for f in table(engine).values()}), 3))
        said.append(f"{engine} knows no flag `{name}` (nearest: {near})")
    for flag in dict.fromkeys(line.known):
        if (
            flag.versions
            and at
            and at in known
            and at not in flag.versions
            and set(flag.versions) <= set(known)
        ):
            said.append(f"{engine} {at} has no flag `{flag.name}`{_instead(flag)}")
    return said


def drift(line: Line, engine: str) -> list[str]:
    """Flags that the newest version known has no more, or has under another name."""
    newest, said = versions(engine)[0], []
    for flag in dict.fromkeys(line.known):
        if set(flag.versions) <= set(versions(engine)) and newest not in flag.versions:
            said.append(f"`{flag.name}` is gone in {engine} {newest}{_instead(flag)}")
        elif flag.instead:
            said.append(f"`{flag.name}` is deprecated in {engine} {newest}{_instead(flag)}")
    return said


def _instead(flag: Flag) -> str:
    return f": use `{flag.instead}`" if flag.instead else ""


def versions(engine: str) -> list[str]:
    """Versions of the engine's table, newest first."""
    found = dict.fromkeys(v for flag in table(engine).values() for v in flag.versions)
    return sorted(found, key=_key, reverse=True)


def _key(version: str | None) -> tuple[int, ...]:
    """A version to compare by: its leading numbers, without zeros at their end.

    >>> _key("v0.23") == _key("0.23.0"), _key("0.5.13") < _key("0.5.23")
    (True, True)
    """
    parts = []
    for part in (version or "").lstrip("v").split("."):
        digits = "".join(c for c in part if c.isdigit()) if part[:1].isdigit() else ""
        parts.append(int(digits[:6]) if digits else 0)
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
