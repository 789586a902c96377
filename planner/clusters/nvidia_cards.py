"""What `nvidia-smi` says of each GPU: its table, `-q`, `-q -x`, `-L` and `--query-gpu=… --format=csv`.

`-q` is brought into the form of `-q -x`, so that both are read alike. Sections of one text are read wherever
they stand; of several forms that describe the same node the fullest counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from planner.errors import InputError

_MIB = re.compile(r"([\d.]+)\s*MiB")


@dataclass(frozen=True)
class Card:
    """One GPU as its driver describes it; None: not said in this form."""

    name: str
    memory_mib: float | None = None
    used_mib: float | None = None
    limit_watts: float | None = None
    default_watts: float | None = None
    mig: str | None = None
    slices: int = 0
    mig_memory_mib: tuple[float, ...] = ()
    fabric: str | None = None
    architecture: str | None = None
    pcie_gen_max: int | None = None
    pcie_gen_now: int | None = None
    pcie_width_now: int | None = None


@dataclass(frozen=True)
class Cards:
    """GPUs of one node. `attached`: as many as the driver counts, where it says so."""

    cards: tuple[Card, ...]
    attached: int
    form: str


def read_cards(text: str, where: str) -> Cards | None:
    """GPUs in the fullest form that the text has; None: in none. Raises InputError for an XML that is cut."""
    for read in (_xml, _query, _csv, _table, _list):
        if found := read(text, where):
            return found
    return None


def _xml(text: str, where: str) -> Cards | None:
    start = text.find("<nvidia_smi_log")
    if start < 0:
        return None
    end = text.find("</nvidia_smi_log>", start)
    whole = text[start:] if end < 0 else text[start : end + len("</nvidia_smi_log>")]
    try:
        return _log(ElementTree.fromstring(whole), "nvidia-smi -q -x")
    except ElementTree.ParseError as error:
        line = text.count("\n", 0, start) + error.position[0]
        raise InputError(
            f"the XML cannot be read: {str(error).split(':')[0]}",
            f"{where}:{line}",
            "run nvidia-smi -q -x again",
        ) from None


def _query(text: str, where: str) -> Cards | None:
    """`nvidia-smi -q`: sections by indentation, as elements named as in `-q -x`."""
    if not re.search(r"^GPU [0-9A-Fa-f]+:[0-9A-Fa-f]+:", text, re.MULTILINE):
        return None
    root = Element("nvidia_smi_log")
    stack: list[tuple[int, Element]] = [(-1, root)]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("="):
            continue
        depth = len(line) - len(line.lstrip())
        name, told, value = line.strip().partition(" : ")
        if not told and line.rstrip().endswith(" :"):
            name = line.strip()[:-1]
        bus = re.match(r"GPU [0-9A-Fa-f]+:[0-9A-Fa-f]+:", line)
        tag = "gpu" if bus else re.sub(r"\W+", "_", name.strip().lower())
        while stack[-1][0] >= depth:
            stack.pop()
        element = Element(tag)
        element.text = value.strip()
        stack[-1][1].append(element)
        stack.append((depth, element))
    return _log(root, "nvidia-smi -q")


def _log(root: Element, form: str) -> Cards:
    cards = tuple(_described(gpu) for gpu in root.findall("gpu"))
    attached = _number(root.findtext("attached_gpus"))
    return Cards(cards, max(int(attached or 0), len(cards)), form)


def _described(gpu: Element) -> Card:
    power = ("gpu_power_readings", "power_readings", "module_power_readings")
    slices = [
        _number(_first(part, "fb_memory_usage/total", "shared_fb_memory_usage/total"))
        for part in (*gpu.findall("mig_devices/mig_device"), *gpu.findall("mig_device"))
    ]
    link = "pci/pci_gpu_link_info", "pci/gpu_link_info"
    return Card(
        name=gpu.findtext("product_name", "").strip(),
        memory_mib=_number(gpu.findtext("fb_memory_usage/total")),
        used_mib=_number(gpu.findtext("fb_memory_usage/used")),
        limit_watts=_number(
            _first(gpu, *(f"{p}/{k}" for p in power for k in ("current_power_limit", "power_limit")))
        ),
        default_watts=_number(_first(gpu, *(f"{p}/default_power_limit" for p in power))),
        mig=_first(gpu, "mig_mode/current_mig", "mig_mode/current"),
        slices=len(slices),
        mig_memory_mib=tuple(size for size in slices if size is not None),
        fabric=_first(gpu, "fabric/state"),
        architecture=_first(gpu, "product_architecture"),
        pcie_gen_max=_whole(
            _first(gpu, f"{link[0]}/pcie_gen/max_link_gen", f"{link[1]}/pcie_generation/max")
        ),
        pcie_gen_now=_whole(
            _first(gpu, f"{link[0]}/pcie_gen/current_link_gen", f"{link[1]}/pcie_generation/current")
        ),
        pcie_width_now=_whole(
            _first(gpu, f"{link[0]}/link_widths/current_link_width", f"{link[1]}/link_width/current")
        ),
    )


def _first(element: Element, *paths: str) -> str | None:
    """The first of several spellings that is there and says something, else "N/A" where one stands."""
    told = [text.strip() for path in paths if (text := element.findtext(path)) and text.strip()]
    return next((text for text in told if text not in ("N/A", "[N/A]")), told[0] if told else None)


def _number(text: str | None) -> float | None:
    match = re.match(r"\s*(\d+(?:\.\d*)?|\.\d+)", text or "")
    return float(match[1]) if match else None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


_ROW = re.compile(
    r"^\|\s*(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:",
    re.MULTILINE,
)
_SLICE = re.compile(r"^\|\s*(\d+)\s+\d+\s+\d+\s+\d+\s*\|\s*\d+MiB\s*/\s*(\d+)MiB", re.MULTILINE)


def _table(text: str, where: str) -> Cards | None:
    """The table: two or three lines a GPU, its number first."""
    rows = list(_ROW.finditer(text))
    found: dict[int, Card] = {}
    for at, row in enumerate(rows):
        block = text[row.start() : rows[at + 1].start() if at + 1 < len(rows) else None]
        lines = block.splitlines()[
            : 1 + next((i for i, x in enumerate(block.splitlines()) if x[:2] == "+-"), 3)
        ]
        usage = re.search(r"(\d+)MiB\s*/\s*(\d+)MiB", "\n".join(lines))
        cap = re.search(r"/\s*(\d+)W", "\n".join(lines))
        mode = re.search(r"\|\s*(Enabled|Disabled|N/A)\s*\|\s*$", "\n".join(lines[2:3]))
        found[int(row[1])] = Card(
            name=row[2],
            memory_mib=float(usage[2]) if usage else None,
            used_mib=float(usage[1]) if usage else None,
            limit_watts=float(cap[1]) if cap else None,
            mig=mode[1] if mode else None,
            slices=len(sizes := tuple(float(s[2]) for s in _SLICE.finditer(text) if s[1] == row[1])),
            mig_memory_mib=sizes,
        )
    return Cards(tuple(found.values()), len(found), "nvidia-smi") if found else None


def _list(text: str, where: str) -> Cards | None:
    """`nvidia-smi -L`, MIG devices indented below their GPU."""
    found: list[Card] = []
    for line in text.splitlines():
        if gpu := re.match(r"\s*GPU \d+: (.+?)(?:\s*\(UUID:.*)?$", line):
            found.append(Card(gpu[1]))
        elif found and re.match(r"\s+MIG \d+[gc]\.", line):
            found[-1] = replace(found[-1], mig="Enabled", slices=found[-1].slices + 1)
    return Cards(tuple(found), len(found), "nvidia-smi -L") if found else None


_FIELDS = {
    "memory.total": "memory_mib", "memory.used": "used_mib", "power.limit": "limit_watts",
    "power.default_limit": "default_watts", "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.gen.current": "pcie_gen_now", "pcie.link.gen.gpucurrent": "pcie_gen_now",
    "pcie.link.width.current": "pcie_width_now",
}  # fmt: skip


def _csv(text: str, where: str) -> Cards | None:
    """`--query-gpu=… --format=csv`, with units or without; without a header cells are known by their
    units."""
    rows = [
        [cell.strip() for cell in row] for row in csv.reader(text.splitlines(), skipinitialspace=True) if row
    ]
    start = next((i for i, row in enumerate(rows) if {"name", "gpu_name"} & {*row}), None)
    if start is not None:
        heads = [re.sub(r"\s*\[.*\]", "", cell) for cell in rows[start]]
        body = [row for row in rows[start + 1 :] if len(row) == len(heads)]
        found = [_of_row(dict(zip(heads, row, strict=True))) for row in body]
    else:
        found = list(_bare(rows))
    return Cards(tuple(found), len(found), "nvidia-smi --query-gpu") if found else None


def _of_row(cells: dict[str, str]) -> Card:
    card = Card(cells.get("name") or cells.get("gpu_name", ""))
    for head, field in _FIELDS.items():
        number = _number(cells.get(head))
        if number is not None:
            card = replace(card, **{field: int(number) if field.startswith("pcie") else number})  # type: ignore[arg-type]
    return replace(card, mig=cells.get("mig.mode.current"))


def _bare(rows: list[list[str]]) -> Iterator[Card]:
    """Rows without a header: a name, MiB and W, in any order."""
    for row in rows:
        sizes = [float(m[1]) for cell in row if (m := _MIB.fullmatch(cell))]
        watts = [float(m[1]) for cell in row if (m := re.fullmatch(r"(\d+(?:\.\d*)?) W", cell))]
        names = [c for c in row if re.match(r"(NVIDIA|Tesla|GeForce|Quadro|RTX|GTX|[A-Z]{1,2}\d{2,3}\b)", c)]
        if len(row) > 1 and names and (sizes or watts or re.fullmatch(r"\d+", row[0])):
            yield Card(names[0], max(sizes, default=None), None, max(watts, default=None))
