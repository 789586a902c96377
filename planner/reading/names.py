"""Names that documents give to things: what is written into scripts, manifests and names of files is a plain
word, whatever a file says. Letters and digits may be of any script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

LONGEST_NAME = 253
"""Characters, as of a host's name (RFC 1035)."""

LONGEST_TITLE = 4096
"""Characters, as of a path (PATH_MAX of Linux): a model may be named by its folder."""

LONGEST_ID = 63
"""Characters of the id of a group of replicas, as of a label (RFC 1123)."""

LONGEST_LABEL = 45
"""Characters of an object's name in Kubernetes. A label has 63 (RFC 1123) and a CronJob 52; what controllers
put behind a name (a pod's number, a hash of ten digits, `-at-167`) needs the rest."""

PART = r"[^\W_](?:[\w.-]*\w)?"
NODE_NAME = re.compile(rf"{PART}(?:/{PART})*")


def node_name(name: str, info: ValidationInfo) -> str:
    """Return the name of a node, class or zone. Behind a slash stand the parts of a node with unlike GPUs."""
    if not name.strip():
        raise ValueError(f"`{info.field_name}` is blank")
    if not name.isprintable():
        raise ValueError(f"`{info.field_name}` has a character that cannot be printed")
    if len(name) > LONGEST_NAME or not NODE_NAME.fullmatch(name):
        grammar = "letters, digits, `.`, `_` and `-`, the first and the last a letter or digit"
        raise ValueError(f"`{info.field_name}` must be up to {LONGEST_NAME} {grammar}")
    return name


def as_node_name(text: str) -> str:
    """The nearest name of a node; `x` where nothing is left.

    >>> as_node_name("my card (24 GB)"), as_node_name("h100-sxm"), as_node_name("€")
    ('my-card-24-GB', 'h100-sxm', 'x')
    """
    return re.sub(r"[^\w.]+", "-", text).strip("-._") or "x"


def as_group_ids(texts: Sequence[str]) -> list[str]:
    """The nearest ids of groups of replicas, each once: with a number behind it where others have it already.

    >>> as_group_ids(["tp 4", "tp-4", "8xL4", ""])
    ['tp-4', 'tp-4-2', '8xL4', 'x']
    """
    ids: list[str] = []
    for text in texts:
        word = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"
        names = (word[:LONGEST_ID], *(f"{word[: LONGEST_ID - 6]}-{k}" for k in range(2, len(texts) + 2)))
        ids.append(next(name for name in names if name not in ids))
    return ids


def as_labels(texts: Sequence[str], longest: int = LONGEST_LABEL) -> list[str]:
    """The nearest names that Kubernetes takes, each once: RFC 1123 labels which begin with a letter, as names
    of Services must (RFC 1035).

    >>> as_labels(["Qwen2.5 7B", "9b-model", "\u65e5\u672c 9B", "\u65e5\u672c"])
    ['qwen2-5-7b', 'x9b-model', 'x9b', 'x']
    >>> as_labels(["a.b", "a_b", "long-name"], longest=7)
    ['a-b', 'a-b-2', 'long-na']
    """
    labels: list[str] = []
    for text in texts:
        word = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
        word = (word if word[0].isalpha() else f"x{word}")[:longest].strip("-")
        endings = ["", *(f"-{k}" for k in range(2, len(texts) + 2))]
        names = (word[: longest - len(ending)].strip("-") + ending for ending in endings)
        labels.append(next(name for name in names if name not in labels))
    return labels


def title(name: str, info: ValidationInfo) -> str:
    """Return the name of a model: any text on one line, but for `$`, which shells, Compose and Kubernetes
    expand."""
    if why := unfit_title(name):
        raise ValueError(f"`{info.field_name}` {why}")
    return name


def unfit_title(name: str) -> str | None:
    """What is wrong with the name of a model, None where it is one.

    >>> unfit_title("日本 9B"), unfit_title("$(reboot)")
    (None, 'has a `$`, which shells and orchestrators expand: rename it')
    """
    if len(name) > LONGEST_TITLE:
        return f"is longer than {LONGEST_TITLE:,} characters"
    if not name.isprintable():
        return "has a character that cannot be printed"
    return "has a `$`, which shells and orchestrators expand: rename it" if "$" in name else None


NodeName = Annotated[str, AfterValidator(node_name)]
Title = Annotated[str, AfterValidator(title)]
