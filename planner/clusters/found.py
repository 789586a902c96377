"""What a tool's output says of nodes and their GPUs, in one form for all sources: nothing is filled in here.

A GPU keeps the name that its source gives it; `known_device` finds the device that it means, `others`
what else it may mean; `writing.py` says what was assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster_configs.devices import alike, find
from cluster_configs.schema import Device
from planner.errors import InputError
from planner.reading.documents import UNSEEN

MOST_NODES = 1_000_000
MOST_NAMED = 6
MOST_GPUS = 100_000
MOST_MIB = 1e9
_PARTING = "\x1c\x1d\x1e\x1f"
"""Marks that a user may have put between cells."""
_LONG = re.compile(r"\d{100,}")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-Z]")


@dataclass(frozen=True)
class Gpus:
    """So many GPUs of one kind in a node. `model` as the source spells it, None where it says nothing;
    `known`: fields of a Device that the source tells (a driver knows watts and generation).

    Raises InputError where no node has so many, or no GPU so much memory."""

    model: str | None
    count: int
    memory_mib: float | None = None
    known: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.count > MOST_GPUS:
            raise InputError(f"a node of {self.count:,} GPUs")
        if self.memory_mib is not None and not 1 <= self.memory_mib <= MOST_MIB:
            raise InputError(f"a GPU of {self.memory_mib:g} MiB")


@dataclass(frozen=True)
class Machine:
    """One node. `fields`: of its entry in the cluster file, beside the GPUs; `remarks`: comments there."""

    name: str
    gpus: tuple[Gpus, ...]
    zone: str | None = None
    fields: tuple[tuple[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """All that an input tells: nodes that can be planned with, what a reader must know of the others.

    `left_out`: name of a node and why no plan may use it; `facts`: what `--facts` prints; `lacking`: what to
    run instead where no GPU is named at all; `bare`: nodes that can be used and show no GPU."""

    machines: tuple[Machine, ...]
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    lacking: str | None = None
    bare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Input:
    """Text of a file, or of standard input, without the escape codes of a terminal."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str, text: str) -> Input:
        """The text as it would look on paper. Raises InputError at a number that no tool prints.

        >>> Input.of("-", "\\x1b[4mGPU0\\x1b[0m\\r\\n").text
        'GPU0\\n'
        """
        if long := _LONG.search(text):
            line = text.count("\n", 0, long.start()) + 1
            raise InputError(f"a number has {len(long[0]):,} digits", f"{name}:{line}")
        text = _ANSI.sub("", text).replace("\r\n", "\n").lstrip("\ufeff")
        return cls(name, UNSEEN.sub(lambda c: c[0] if c[0] in _PARTING else "", text))


def unreadable(inputs: tuple[Input, ...], what: str, run: str) -> InputError:
    """The error for an input in which a reader finds nothing of what it reads."""
    names = ", ".join("standard input" if i.name == "-" else i.name for i in inputs)
    if not any(i.text.strip() for i in inputs):
        return InputError("the input is empty", names, f"run {run}")
    return InputError(f"this is no output of {what}", names, f"run {run}")


def limited(nodes: int) -> int:
    """A number of nodes that a line counts. Raises InputError where no cluster has so many."""
    if nodes > MOST_NODES:
        raise InputError(f"more than {MOST_NODES:,} nodes: {str(nodes)[:20]}")
    return nodes


def squeezed(row: str) -> list[str]:
    """Cells of a row whose columns are two blanks or more apart.

    >>> squeezed("V100  1, 2          4")
    ['V100', '1, 2', '4']
    """
    return re.split(r"\s{2,}|\t", row.strip())


def grouped(told: Iterable[tuple[str, str]], words: str = "{names}: {said}") -> list[str]:
    """A line for all nodes of which the same is said.

    >>> grouped([("a", "down"), ("b", "drain"), ("c", "down")])
    ['a, c: down', 'b: drain']
    """
    names: dict[str, list[str]] = {}
    for name, said in told:
        names.setdefault(said, []).append(name)
    return [words.format(names=shortened(own), said=said) for said, own in names.items()]


def shortened(names: Sequence[str]) -> str:
    """The first few names.

    >>> shortened([f"n{i}" for i in range(9)])
    'n0, n1, n2, n3, n4, n5 and 3 more'
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


_OF_DRIVER = re.compile(r"(nvidia|tesla|amd)[ _-]", re.IGNORECASE)
"""How drivers begin a product's name: "NVIDIA H100 80GB HBM3" is the SXM form, "NVIDIA H100 PCIe" the
card."""

OTHER_MEMORY = 0.03
"""Drivers report a little less than the label says (81,559 MiB of 80 GiB): less than this is the same
card."""


def known_device(gpus: Gpus) -> Device | None:
    """The device of the catalog, told apart by memory where the name leaves it open; None where there is
    none."""
    if gpus.model is None:
        return None
    for name in (*_with_memory(gpus), gpus.model):
        try:
            return find(name)
        except InputError:
            continue
    return None


def others(gpus: Gpus) -> list[str]:
    """Names of further devices that the spelling may mean as well; a driver's own product name means one."""
    device = known_device(gpus)
    if device is None or gpus.model is None or _OF_DRIVER.match(gpus.model):
        return []
    names = [name for name in alike(gpus.model) if name != device.name]
    if gpus.memory_mib is None:
        return names
    return [name for name in names if not differs(find(name), gpus.memory_mib)]


def differs(device: Device, memory_mib: float) -> bool:
    """Whether a driver's figure is another memory than the device's."""
    return abs(memory_mib * 2**20 / (1e9 * device.memory_gb) - 1) > OTHER_MEMORY


def _with_memory(gpus: Gpus) -> list[str]:
    """The spelling with the memory that the source tells, in place of the one in the name: a table may cut
    the name, and in "NVIDIA GH200 480GB" it is the CPU's."""
    if gpus.memory_mib is None or gpus.model is None:
        return []
    gib = gpus.memory_mib / 1024
    model = re.sub(r"[ _-]\d+ ?GB\b", "", gpus.model.rstrip("."), flags=re.IGNORECASE)
    sizes = dict.fromkeys((round(gib), round(gib / 8) * 8, round(gib * 1.0737)))
    return [f"{model} {size}GB" for size in sizes]
