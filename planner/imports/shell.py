"""Shell text as commands: words with their environment, variables filled in where the text itself sets them.

Nothing is run. Read are comments, continued lines, quotes, `export`, assignments before a command and alone,
arrays, `${X:-default}`, here-documents that a command writes to a file, and operators between commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.errors import InputError
from planner.imports.limits import MOST_ARRAYS, MOST_COMMANDS, MOST_VARIABLES, Expansion, check_size

ASSIGNED = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:\[@\])?(?::?-([^}]*))?\}|([A-Za-z_]\w*))")
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
ARRAY = re.compile(r"^[ \t]*([A-Za-z_]\w*)=\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)", re.MULTILINE)
OPERATORS = {"&&", "||", ";", "|", "&", ";;", "(", ")"}
KEYWORDS = {"{", "}", "then", "do", "done", "fi", "else", "exec", "sudo"}
REDIRECTS = {">", ">>", "<", "2>", "&>", ">&", "2>&1", "<<<"}


@dataclass(frozen=True)
class Command:
    """One command: its words, and what its environment is told."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Script:
    """All commands of a text in order, files that here-documents write, by name."""

    commands: tuple[Command, ...]
    files: dict[str, str]


def script(text: str) -> Script:
    """The commands of shell text. Text that is none gives words all the same."""
    files: dict[str, str] = {}
    arrays: dict[str, str] = {}
    text = text.replace("\r\n", "\n")
    check_size(text, "the script")
    if text.count("=(") > MOST_ARRAYS:
        raise InputError(f"more than {MOST_ARRAYS:,} arrays", "the script")
    expansion = Expansion()

    def keep(m: re.Match[str]) -> str:
        arrays[m[1]] = " ".join(m[2].split("\n"))
        return ""

    text = ARRAY.sub(keep, text)
    variables, made = dict(arrays), list[Command]()
    lines = iter(text.split("\n"))
    for line in lines:
        if not line.strip():
            continue
        parts = [line]
        while parts[-1].rstrip().endswith("\\") and (more := next(lines, None)) is not None:
            parts[-1] = parts[-1].rstrip()[:-1] + " "
            parts.append(more)
        parts = ["".join(parts)]
        if parts[0].lstrip().startswith("#"):
            continue
        still_open = open_quote(parts[0])
        while still_open and (more := next(lines, None)) is not None:
            parts.append(more)
            still_open = open_quote(more, still_open)
        line = "\n".join(parts)
        words = None if still_open else _words(line)
        if heredoc := HEREDOC.search(line):
            body = []
            for row in lines:
                if row.strip() == heredoc[2]:
                    break
                body.append(row)
            target = re.search(r">\s*([^\s<>]+)", line.replace(heredoc[0], ""))
            files[target[1] if target else ""] = "\n".join(body) + "\n"
            continue
        made += _commands(words or [], variables, expansion)
        if len(made) > MOST_COMMANDS or len(variables) > MOST_VARIABLES:
            raise InputError(
                f"more than {MOST_COMMANDS:,} commands or {MOST_VARIABLES:,} variables", "the script"
            )
    return Script(tuple(made), files)


QUOTE = re.compile(r"\\.|['\"]|(?<!\S)#", re.DOTALL)


def open_quote(line: str, quote: str = "") -> str:
    """The quote that is open behind a line, blank for none; `quote`: the one that was open before it.

    >>> open_quote("a 'b c"), open_quote("d' e", "'"), open_quote("it\\'s # don't")
    ("'", '', '')
    """
    at = 0
    while at < len(line):
        if quote == "'":
            found = line.find("'", at)
            if found < 0:
                return quote
            at, quote = found + 1, ""
            continue
        sign = QUOTE.search(line, at)
        if sign is None:
            return quote
        at = sign.end()
        if sign[0] == "#" and not quote:
            return ""
        if sign[0] == quote:
            quote = ""
        elif sign[0] in ("'", '"') and not quote:
            quote = sign[0]
    return quote


def _words(line: str) -> list[str] | None:
    """Words and operators of a line; None where a quote is still open."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
    reader.whitespace_split = True
    reader.commenters = ""
    found = []
    try:
        for word in reader:
            if word.startswith("#"):
                break
            found.append(word)
    except ValueError:
        return None
    return found


def _commands(words: list[str], variables: dict[str, str], expansion: Expansion) -> Iterator[Command]:
    """Commands between operators; assignments alone and `export` fill `variables`."""
    every: list[list[str]] = [[]]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in REDIRECTS:
            skip = word != "2>&1"
            if every[-1] and every[-1][-1].isdigit():
                every[-1].pop()
        elif word in OPERATORS:
            every.append([])
        else:
            every[-1].append(word)
    for command in every:
        own: dict[str, str] = {}
        left = [w for word in command for w in filled(word, variables, expansion)]
        while left and left[0] in {"export", *KEYWORDS}:
            left = left[1:]
        while left and (found := ASSIGNED.match(left[0])):
            own[found[1]] = found[2]
            left.pop(0)
        if left:
            exported = {k: v for k, v in variables.items() if k.isupper()}
            yield Command(tuple(left), {**exported, **own})
        else:
            variables |= own


def filled(word: str, variables: dict[str, str], expansion: Expansion | None = None) -> list[str]:
    """A word with the variables that are known; one that is nothing but a variable may be several words.
    Raises InputError where they stand for too much."""
    left = expansion or Expansion()
    whole = VARIABLE.fullmatch(word)
    if whole and (name := whole[1] or whole[3]) in variables:
        left.take(len(variables[name]))
        try:
            return shlex.split(variables[name])
        except ValueError:
            return [variables[name]]

    def value(m: re.Match[str]) -> str:
        said = variables.get(m[1] or m[3], m[2] if m[2] is not None else m[0])
        left.take(len(said))
        return said

    return [VARIABLE.sub(value, word)]
