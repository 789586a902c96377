"""What people write on a command line → what the options take: choices in any case, lengths as 4k, quantities
with their unit; an option that is given twice is an error, never dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from planner.cli.synonyms import known_value, unknown_option
from planner.errors import InputError, nearest, squash
from planner.reading.units import amount

FIELDS = {"--rate": "rate_rps", "--time-limit": "time_limit_s"}
"""Fields whose units options of a number take."""

SHARES = ("--risk", "--gap", "--simple", "--max-utilisation", "--prefix-hit")
"""Options that take a share, which may be told in percent."""

SAID = {
    "--rate": "requests a second, such as 12.5",
    "--isl": "a whole number of tokens, such as 1024 or 4k",
    "--osl": "a whole number of tokens, such as 256 or 4k",
    "--seed": "a whole number, such as 0",
    "--risk": "a chance, such as 0.1 or 10%",
}
"""What an option takes, where a number says too little."""


@dataclass(frozen=True)
class Option:
    """An option by all its names; its `choices`; whether it is a number, a whole one, a switch, multiple."""

    names: tuple[str, ...]
    choices: tuple[str, ...] = ()
    number: bool = False
    whole: bool = False
    switch: bool = False
    multiple: bool = False


def spelt(args: Sequence[str], function: Callable[..., Any], command: Any) -> list[str]:
    """`args` of a command as its options take them. Raises InputError for an option given twice, and for a
    choice that is none, with the nearest."""
    options = {name: option for option in options_of(function, command) for name in option.names}
    found, seen, left = list[str](), set[tuple[str, ...]](), list(args)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, word, *left]
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None:
            if word.startswith("-") and (error := unknown_option(name, options)):
                raise error
            found.append(word)
            continue
        if option.names in seen and not option.multiple:
            raise InputError(f"`{name}` is given twice", name, "it takes one value: leave one out")
        seen.add(option.names)
        if option.switch:
            found.append(word)
            continue
        if not equals:
            if not left:
                raise InputError(f"`{name}` is given no value", name, f"give {SAID.get(name, 'one')}")
            value = left.pop(0)
        found += [name, read(value, name, option)]
    return found


def read(value: str, name: str, option: Option) -> str:
    """A value as the option takes it."""
    if option.choices:
        known = {squash(choice): choice for choice in option.choices}
        own = known.get(squash(value)) or known.get(f"p{squash(value)}")
        if own is None:
            listed = ", ".join(option.choices)
            near = known_value(name, value) or nearest(value[:60], option.choices, 1)[0]
            raise InputError(f"`{value[:60]}` is none of {listed}", name, f"did you mean `{near}`?")
        return own
    if option.whole and (tokens := amount(value, "isl")) is not None and tokens == int(tokens):
        return str(int(tokens))
    if option.number and (told := amount(value, FIELDS.get(name, ""))) is not None:
        return f"{told:.12g}"
    if name in SHARES and value.endswith("%") and _numeric(value[:-1]):
        return f"{float(value[:-1]) / 100:.12g}"
    if (option.number or option.whole) and not _numeric(value, option.whole):
        wanted = SAID.get(name, "a whole number" if option.whole else "a number")
        raise InputError(f"`{value[:60]}` is not what `{name}` takes", name, f"give {wanted}")
    return value


def _numeric(value: str, whole: bool = False) -> bool:
    try:
        (int if whole else float)(value)
    except ValueError:
        return False
    return True


def options_of(function: Callable[..., Any], command: Any) -> Iterator[Option]:
    """The options of a command, their kinds from the function's signature."""
    kinds = get_type_hints(function, include_extras=True)
    for param in command.params:
        if type(param).__name__.endswith("Option"):
            flat = list(_flat(kinds.get(param.name)))
            choices = tuple(c for each in flat if get_origin(each) is Literal for c in get_args(each))
            names, switch = (*param.opts, *param.secondary_opts), bool(param.is_flag)
            words = str in flat  # takes other things, too
            whole, number = int in flat and float not in flat and not words, float in flat and not words
            yield Option(names, choices, number, whole, switch, bool(param.multiple))


def _flat(kind: Any) -> Iterator[Any]:
    """The types that an annotation allows, Annotated and unions opened."""
    if get_origin(kind) is Annotated:
        yield from _flat(get_args(kind)[0])
    elif get_origin(kind) is Literal or not get_args(kind):
        yield kind
    else:
        for each in get_args(kind):
            yield from _flat(each)


def command_of(args: Sequence[str], commands: Mapping[str, str]) -> int | None:
    """Where in the words of a command line the command stands."""
    at = next((i for i, word in enumerate(args) if not word.startswith("-")), None)
    return at if at is not None and args[at] in commands else None


WRITTEN = ("-o", "--output", "--out")


def own_input(args: Sequence[str]) -> None:
    """Raises InputError where a command line names one file to read and to write."""
    for i, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name not in WRITTEN:
            continue
        target = value if equals else next(iter(args[i + 1 : i + 2]), "")
        others = [
            a.partition("=")[2] or a for k, a in enumerate(args) if k not in ((i,) if equals else (i, i + 1))
        ]
        if any(_same_file(target, other) for other in others):
            hint = "name another file: what was read would be lost"
            raise InputError(f"`{target}` is read and written by one command", name, hint)


def _same_file(one: str, other: str) -> bool:
    try:
        return Path(one).is_file() and Path(other).is_file() and Path(one).samefile(other)
    except (OSError, ValueError):
        return False
