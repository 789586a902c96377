"""Clusters from a YAML file, from one line ("8xH100,16xL40S"), and back into the YAML form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cluster_configs.devices import find
from cluster_configs.ports import box_size
from cluster_configs.resolving import MAX_NODES, resolve
from cluster_configs.schema import Cluster, Node, ResolvedCluster
from planner.errors import InputError
from planner.reading.documents import Document, read
from planner.reading.validation import validate

__all__ = ["as_document", "from_document", "from_gpus", "read_cluster", "resolve"]

FORM = "write COUNTxGPU, parted by commas: 8xH100,16xL40S"
_PART = re.compile(r"(?:(?P<count>[-+]?\d+)\s*[x*×]\s*)?(?P<device>\S.*)", re.IGNORECASE)


def read_cluster(path: str | Path) -> ResolvedCluster:
    """The cluster in a YAML or JSON file. Raises InputError: no such file, GPUs in its place, a plan."""
    if not Path(path).exists() and _is_gpus(str(path)):
        raise InputError(f"no such file: {path}", str(path), f"for GPUs without a file: `--gpus {path}`")
    document = read(path)
    if isinstance(document.data, dict) and {"problem", "replicas"} <= set(document.data):
        hint = "its cluster is under `problem: cluster:`; `replan`, `check`, `diff` and `export` take plans"
        raise InputError(f"`{path}` is a plan, not a cluster", str(path), hint)
    return from_document(document)


def _is_gpus(line: str) -> bool:
    """Whether a line names GPUs as `--gpus` takes them."""
    try:
        return bool(from_gpus(line).classes)
    except InputError:
        return False


def from_document(document: Document) -> ResolvedCluster:
    """The cluster in a document already read. Raises InputError."""
    return resolve(validate(document, Cluster), document)


def from_gpus(line: str) -> ResolvedCluster:
    """A cluster from GPU counts: nodes of the device's usual size, the remainder one smaller node, one zone.
    Cards of desktops are in boxes of up to 8, since a count of them says that they stand together.

    >>> [(c.id, c.node_count, c.gpus_per_node) for c in from_gpus("20xH100, l4, 10xRTX-4090").classes]
    [('h100-sxm', 2, 8), ('h100-sxm-2', 1, 4), ('l4', 1, 1), ('rtx-4090', 1, 8), ('rtx-4090-2', 1, 2)]
    """
    nodes = [node for part in line.split(",") for node in _nodes(part.strip(), line)]
    return resolve(Cluster(name=line.strip(), nodes=nodes), Document(None, "--gpus"))


def as_document(cluster: ResolvedCluster) -> dict[str, Any]:
    """The Cluster YAML form with every default filled in: reading it again gives the same classes."""
    return cluster.source.model_dump(mode="json", exclude_none=True)


def _nodes(part: str, line: str) -> list[Node]:
    """The entries that one "8xH100" stands for."""
    where = f"--gpus, `{part[:60]}`"
    match = _PART.fullmatch(part)
    if match is None:
        raise InputError(f"--gpus `{line[:60]}` has an empty part", "--gpus", FORM)
    count = _count(match["count"], where)
    try:
        device = find(match["device"], where)
    except InputError as error:
        raise InputError(error.message, where, _form_hint(match["device"]) or error.hint) from None
    size = box_size(device)
    whole, rest = divmod(count, size)
    nodes = [Node(count=whole, device=device.name, gpus_per_node=size)] if whole else []
    return nodes + ([Node(device=device.name, gpus_per_node=rest)] if rest else [])


def _count(text: str | None, where: str) -> int:
    if text is None:
        return 1
    count = int(text) if len(text) < 20 else 10**20
    if not 1 <= count <= 1000 * MAX_NODES:
        raise InputError(
            f"the number of GPUs must be from 1 to {1000 * MAX_NODES:,}, got {text[:30]}", where, FORM
        )
    return count


def _form_hint(device: str) -> str | None:
    """Other tools' spellings of a count: "8H100", "H100:8", "H100x8"."""
    for pattern in (r"(?P<n>\d+)\s*(?P<d>[a-zA-Z].*)", r"(?P<d>.+?)\s*[:=x*×]\s*(?P<n>\d+)"):
        if match := re.fullmatch(pattern, device, re.IGNORECASE):
            try:
                find(match["d"])
            except InputError:
                continue
            return f"write {match['n']}x{match['d']}"
    return FORM if re.match(r"[\d.e]*x|[\d.]*$", device) or re.search(r"[:;=+]", device) else None
