"""Finds a model by the name a user types: a card, one of its other ids, a Hugging Face id, or a config file.

A card whose file name is the name is read alone; only when none is, the `hf_id` and `also` lines of all
cards are scanned. Case, `-`, `_`, dots, blanks and `/` don't matter (contracts.md, Spelling).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from planner.errors import InputError, nearest, squash

from .schema import ModelCard

CARDS = Path(__file__).parent / "cards"


def names() -> list[str]:
    """Names of all shipped cards."""
    return sorted(_files())


def find(name: str) -> tuple[ModelCard, list[str]]:
    """The card that `name` means, and warnings about how it was understood.

    `name`: a card's name, another id of it, ORG/NAME of Hugging Face, or the path of a `config.json` or its
    folder. Raises `InputError` with the three nearest names when there is none.

    >>> find("Llama 3.1_70B")[0].name
    'llama-3.1-70b'
    """
    if not squash(name):
        raise InputError("no model named", hint="see `meshwright models`, or give the path of a config.json")
    if _is_path(name):
        return _from_path(Path(name).expanduser()), []
    organisation, slash, short = name.strip().rpartition("/")
    stem = _stem_of(name) or _stem_of(short) or _stem_of_id(name) or _stem_of_id(short)
    if stem is not None:
        card = load(stem)
        return card, _organisation_warnings(card, organisation) if slash else []
    if _exists(name):
        return _from_path(Path(name)), []
    close = ", ".join(nearest(short or name, names()))
    raise InputError(
        f"unknown model `{name}`",
        hint=f"did you mean {close}? see `meshwright models`, or give the path of a Hugging Face config.json",
    )


def matching(part: str) -> list[str]:
    """Names of cards that have `part` in their name or in an id that they are known by.

    >>> matching("llama-3.3-70b")
    ['llama-3.1-70b', 'llama-3.1-70b-fp8']
    """
    wanted = squash(part)
    return [n for n in names() if wanted in squash(n) or any(wanted in squash(known) for known in _ids(n))]


def _exists(name: str) -> bool:
    """Whether a name is a file's or a folder's, too; one that no file can have is not."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def asked_id(name: str, card: ModelCard) -> str:
    """The id under which an engine loads what was asked for as `name`: a Hugging Face id as it was given, the
    folder of a config file, or that of the card's ids which is the name's own. An alias never replaces it.

    >>> asked_id("llama-3.3-70b", find("llama-3.3-70b")[0])
    'meta-llama/Llama-3.3-70B-Instruct'
    >>> asked_id("llama-3.1-70b", find("llama-3.1-70b")[0]), asked_id("org/m", find("llama-3.1-8b")[0])
    ('meta-llama/Meta-Llama-3.1-70B', 'org/m')
    """
    path = Path(name).expanduser()
    if _is_path(name) or _exists(name):
        folder = path.parent if path.suffix in (".json", ".yaml", ".yml") else path
        return str(folder if folder.name else folder.resolve())
    if "/" in name.strip():
        return name.strip()
    wanted = squash(name)
    if wanted != squash(card.name):
        own = [known for known in _ids(card.name) if "/" in known]
        short = sorted(own, key=lambda known: len(known))
        for known in short:
            if squash(known.rpartition("/")[2]).startswith(wanted):
                return known
    return card.hf_id or name


@cache
def load(stem: str) -> ModelCard:
    """The shipped card in `cards/STEM.yaml`."""
    from ruamel.yaml import YAML

    return ModelCard.model_validate(
        YAML(typ="safe").load((CARDS / f"{stem}.yaml").read_text(encoding="utf-8"))
    )


def read_card(file: Path) -> ModelCard:
    """A card of the user's own; what is wrong in it is an `InputError` with its place."""
    from planner.reading import documents, validation

    return validation.validate(documents.read(file), ModelCard)


def _is_path(name: str) -> bool:
    """Names that can only be meant as paths; others become one only when no card has them."""
    return name.endswith((".json", ".yaml", ".yml")) or name.startswith((".", "/", "~"))


def _from_path(path: Path) -> ModelCard:
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return read_card(path)
    from .huggingface import from_config

    return from_config(path)


@cache
def _files() -> dict[str, str]:
    """Card names, and their spelling without what doesn't matter."""
    return {entry[:-5]: squash(entry[:-5]) for entry in os.listdir(CARDS) if entry.endswith(".yaml")}


def _stem_of(name: str) -> str | None:
    wanted = squash(name)
    return next((stem for stem, squashed in _files().items() if squashed == wanted), None)


def _stem_of_id(name: str) -> str | None:
    """The card one of whose ids is `name`, with or without its organisation."""
    wanted = squash(name)
    if not wanted:
        return None
    for stem in names():
        for known in _ids(stem):
            if wanted in (squash(known), squash(known.rpartition("/")[2])):
                return stem
    return None


def _ids(stem: str) -> list[str]:
    """`hf_id` and `also` of a card, read as text: parsing every card would take a second."""
    text = (CARDS / f"{stem}.yaml").read_text(encoding="utf-8")
    ids: list[str] = []
    inside = False
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        if line.startswith("source:"):  # ids stand before it
            break
        if not line.startswith((" ", "-")):
            inside = key in ("hf_id", "also")
        if inside:
            listed = (rest if not line.startswith((" ", "-")) else line).strip(" -[],")
            ids += [part.strip(" ,[]'\"") for part in listed.split(",") if part.strip(" ,[]'\"")]
    return ids


def _organisation_warnings(card: ModelCard, organisation: str) -> list[str]:
    known = {i.rpartition("/")[0] for i in [card.hf_id or "", *card.also]} - {""}
    if any(squash(organisation) == squash(k) for k in known):
        return []
    shown = "".join(c if c.isprintable() else "?" for c in organisation)
    return [f"organisation `{shown}` is not known for {card.name}: taken to be {card.hf_id or card.name}"]
