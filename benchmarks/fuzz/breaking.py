"""Ways to break a good value or text, that know its structure: fields, cells, lines, bytes."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any

from benchmarks.fuzz.rewording import places, reworded
from benchmarks.fuzz.writing import Raw, written

NASTY: tuple[Any, ...] = (
    None, "", " ", "~", True, False, 0, -1, 1, 2, 3.5, 1e-9, 1e9, 1e18, 2**31, 2**63, 10**30, 5e-324,
    1e308, -0.0,
    Raw("1e999"), Raw("-1e999"), Raw(".inf"), Raw(".nan"), Raw("NaN"), Raw("Infinity"), Raw("9" * 5000),
    Raw("1" + "0" * 400), Raw("1" + "0" * 400 + ".0"), Raw("0x10"), Raw("0o17"), Raw("0x" + "f" * 4000),
    Raw("-0o" + "7" * 4000), Raw("9" * 320), "a\rb", Raw('"a\\rb"'), Raw("1_000"),
    Raw("12:30:45"),
    Raw("2026-01-01"), Raw("!!python/object:os.system x"), Raw("*anchor"), Raw("&anchor x"), Raw("yes"),
    Raw("'"), Raw("[" * 3000 + "]" * 3000),
    "nan", "inf", "1e999", "9" * 5000, "80GB", "4 GB", "-3", "1,5", "x" * 300, "x" * 5000, "a\nb", "a\tb",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "[bold]x[/bold]", "[/]", "=1+1", "@SUM(A1)", "<script>alert(1)</script>",
    "../../etc/passwd",
    "/dev/null", "\ud83d", "\u202eabc", "ü", "日本", "\0", "$(reboot)", "`id`", "${HOME}", "%s%n", "{}",
    "{0}",
    [], {}, [[]], [None], {"a": 1}, [1, 2, 3], {"": None}, [[1, 2], [3]], "h100-sxm", "l4", "vllm", "fp8",
    "node",
)  # fmt: skip
"""Values that were wrong somewhere, or look like it."""

BYTES = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b"\x1b[2J",
    b'"', b"'", b"{", b"[", b"]", b"}", b",", b":",
         b"#", b"&a", b"*a", b"|", b">", b"---\n", b"...\n", b"%", b"-", b"\xc3", b"9" * 400,
         b"\x80")  # fmt: skip


def broken(good: Any, file: str, random: random.Random) -> tuple[Any, bytes]:
    """A broken value, and the bytes to write: mostly one fault, at times up to four; some of them in the
    text."""
    value = copy.deepcopy(good)
    faults = random.choice((1, 1, 1, 2, 4))
    if isinstance(value, dict | list) and random.random() < 0.8:
        if file.endswith(".csv"):
            for _ in range(faults):
                value = random.choice(OF_TABLES)(value, random)
        else:
            for _ in range(faults):
                value = random.choice(OF_TREES)(value, random)
        return value, written(file, value)
    data = written(file, value)
    for _ in range(faults):
        data = random.choice(OF_BYTES if isinstance(good, bytes) else OF_TEXTS)(data, random)
    return data, data


def _place(tree: Any, random: random.Random) -> tuple[Any, Any] | None:
    """A place of the tree, those at the top as likely as all those below."""
    all_of_it = list(places(tree)) if isinstance(tree, dict | list) else []
    top = [place for place in all_of_it if place[0] is tree]
    chosen = top if random.random() < 0.2 else all_of_it
    return random.choice(chosen) if chosen else None


def _replaced(tree: Any, random: random.Random) -> Any:
    if place := _place(tree, random):
        place[0][place[1]] = copy.deepcopy(random.choice(NASTY))
    return tree


def _scaled(tree: Any, random: random.Random) -> Any:
    """A number at another order of magnitude or sign."""
    numbers = [(a, b) for a, b in places(tree) if isinstance(a[b], int | float) and not isinstance(a[b],
        bool)] if isinstance(tree, dict | list) else []  # fmt: skip
    if numbers:
        holder, key = random.choice(numbers)
        factor = random.choice((-1, 0, 0.5, 2, 10, 1e-6, 1e6, 1e15, 1e300, 1e-300))
        holder[key] = type(holder[key])(number) if abs(number := holder[key] * factor) < 1e18 else number
    return tree


def _dropped(tree: Any, random: random.Random) -> Any:
    if place := _place(tree, random):
        del place[0][place[1]]
    return tree


def _renamed(tree: Any, random: random.Random) -> Any:
    fields = [(a, b) for a, b in places(tree) if isinstance(a, dict)] if isinstance(tree, dict | list) else []
    if fields:
        holder, key = random.choice(fields)
        name = str(key)
        new = random.choice(
            (
                name[1:],
                name[::-1],
                name + "s",
                name.upper(),
                name.replace("_", "-"),
                "x" * 3000,
                "",
                "\x1b[1m" + name,
            )
        )
        holder[new] = holder.pop(key)
    return tree


def _wrapped(tree: Any, random: random.Random) -> Any:
    if place := _place(tree, random):
        holder, key = place
        deep = random.choice((1, 1, 2, 60))
        for _ in range(deep):
            holder[key] = [holder[key]]
    return tree


def _doubled(tree: Any, random: random.Random) -> Any:
    """An entry of a list once more, or many times."""
    lists = (
        [a[b] for a, b in places(tree) if isinstance(a[b], list) and a[b]]
        if isinstance(tree, dict | list)
        else []
    )
    if isinstance(tree, list) and tree:
        lists.append(tree)
    if lists:
        chosen = random.choice(lists)
        chosen.extend(copy.deepcopy(random.choice(chosen)) for _ in range(random.choice((1, 1, 2, 300))))
    return tree


def _swapped(tree: Any, random: random.Random) -> Any:
    one, other = _place(tree, random), _place(tree, random)
    if one and other:
        (a, i), (b, j) = one, other
        if isinstance(a[i], dict | list) or isinstance(b[j], dict | list):
            a[i] = copy.deepcopy(b[j])
        else:
            a[i], b[j] = b[j], a[i]
    return tree


def _another_root(tree: Any, random: random.Random) -> Any:
    return random.choice(([], {}, [tree], {"plan": tree}, None, 3, [tree, tree]))


OF_TREES: tuple[Callable[[Any, random.Random], Any], ...] = (
    *(_replaced,) * 6, *(_scaled,) * 4, _dropped, _dropped, _renamed, _wrapped, _doubled, _swapped, _swapped,
    reworded, reworded,
)  # fmt: skip


def _cell(rows: Any, random: random.Random) -> Any:
    row = random.choice(rows[1:] if len(rows) > 1 and random.random() < 0.8 else rows) if rows else []
    if row:
        row[random.randrange(len(row))] = random.choice(NASTY)
    return rows


def _quoted(rows: Any, random: random.Random) -> Any:
    if rows and (row := random.choice(rows)):
        at = random.randrange(len(row))
        row[at] = random.choice(
            (f'"{row[at]}', f'"{row[at]}"', f'"{row[at]}\n"', f'""{row[at]}', f" {row[at]} ")
        )
    return rows


def _ragged(rows: Any, random: random.Random) -> Any:
    if rows and (row := random.choice(rows)):
        random.choice((row.pop, lambda: row.append("7"), row.clear, lambda: row.extend(row)))()
    return rows


def _column(rows: Any, random: random.Random) -> Any:
    """A column dropped, doubled, or emptied."""
    if rows and rows[0]:
        at, how = random.randrange(len(rows[0])), random.choice(("drop", "double", "empty", "fill"))
        what = random.choice(NASTY)
        for i, row in enumerate(rows):
            if at < len(row):
                if how == "drop":
                    del row[at]
                elif how == "double":
                    row.append(row[at])
                elif i:
                    row[at] = "" if how == "empty" else what
    return rows


def _rows(rows: Any, random: random.Random) -> Any:
    """Rows lost, in another order, or again."""
    how = random.choice((lambda: rows[:1], lambda: rows[1:], lambda: rows[:2], lambda: rows[::-1],
        lambda: rows + rows[1:], lambda: [],
                         lambda: random.sample(rows, len(rows))))  # fmt: skip
    return [list(row) for row in how()]


OF_TABLES: tuple[Callable[[Any, random.Random], Any], ...] = (
    *(_cell,) * 5,
    _quoted,
    _ragged,
    _column,
    _column,
    _rows,
)


def _inserted(data: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(BYTES) * random.choice((1, 1, 1, 3, 2000)) + data[at:]


def _cut(data: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return random.choice((data[:at], data[at:], data[:at] + data[at + random.choice((1, 7, 80)) :]))


def _flipped(data: bytes, random: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 30))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _lines(data: bytes, random: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    how = random.randrange(6)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 3:
        lines[i] = lines[i].lstrip()
    elif how == 4:
        lines[i] = b"    " + lines[i]
    else:
        lines[i] = lines[i].rstrip()
    return b"".join(lines)


def _word(data: bytes, random: random.Random) -> bytes:
    """A word or number of the text becomes a nasty one."""
    found = list(re.finditer(rb"[A-Za-z_]+|[0-9.]+", data))
    if not found:
        return data
    word = random.choice(found)
    new = random.choice(NASTY)
    return data[: word.start()] + str(new).encode("utf-8", "surrogatepass") + data[word.end() :]


def _recoded(data: bytes, random: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1", "cp1252")), "replace")


def _ends(data: bytes, random: random.Random) -> bytes:
    return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b" ", b"\x0b", "\u2028".encode())))


OF_TEXTS = (_inserted, _inserted, _cut, _flipped, _lines, _lines, _word, _word, _word, _word, _recoded, _ends)
OF_BYTES = (_inserted, _cut, _flipped, _flipped, _flipped)
