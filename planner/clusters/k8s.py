"""A cluster from `kubectl get nodes` with `-o json`, `-o yaml` or `--show-labels`, or `kubectl describe
nodes`.

GPUs of a node are those that Kubernetes can hand out (allocatable); what they are is said by labels: of
NVIDIA's and AMD's feature discovery, of clouds, of Akash. Time-sliced and MIG parts are no GPUs of a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.clusters.found import Found, Gpus, Input, Machine, grouped, known_device, unreadable
from planner.errors import InputError
from planner.reading.documents import read_text
from planner.reading.units import counted

RUN = "`kubectl get nodes -o json`"
_RESOURCE = re.compile(r"(nvidia|amd|intel|habana|google)\.(?:com|ai)/(gpu|gaudi|tpu|i915|xe)(\.shared)?")
_PRODUCTS = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "amd.com/gpu.device-name", "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "skypilot.co/accelerator", "accelerator", "gpu.intel.com/product", "node.coreweave.cloud/gpu-model",
    "gpu.nvidia.com/class", "cloud.google.com/gke-tpu-accelerator",
)  # fmt: skip
"""Labels that name the GPU, the most exact first. Sources: NVIDIA and AMD GPU feature discovery, GKE, EKS,
Karpenter, SkyPilot and CoreWeave documentation."""
_MEMORY = ("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory")
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_VENDOR_COUNTS = ("nvidia.com/gpu.count", "karpenter.k8s.aws/instance-gpu-count", "gpu.nvidia.com/count")
_AKASH = re.compile(
    r"akash\.network/capabilities\.gpu\.vendor\.(\w+)\.model\.([\w-]+)(?:\.(interface|ram)\.([\w-]+))?$"
)


@dataclass(frozen=True)
class _Node:
    """A node as any of the forms tells it. Quantities as they are written; None: this form has none."""

    name: str
    labels: Mapping[str, str]
    ready: bool = True
    unschedulable: bool = False
    allocatable: Mapping[str, str] | None = None
    capacity: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)


def read(inputs: tuple[Input, ...]) -> Found:
    """The nodes of all inputs. Raises InputError where they are nothing of `kubectl`."""
    nodes = [node for each in inputs for node in _nodes(each)]
    if not nodes:
        raise unreadable(inputs, "kubectl", RUN)
    machines, warnings = [], []
    left_out: dict[str, str] = {}
    usable: dict[tuple[str, int, str | None], int] = {}
    for node in nodes:
        gpus, why, remark = _gpus(node)
        if gpus is None or why is not None:
            left_out[node.name] = why or "no GPU"
            continue
        zone = next((node.labels[z] for z in _ZONES if z in node.labels), None)
        key = (_product(node) or "unknown", gpus.count, remark)
        usable[key] = usable.get(key, 0) + 1
        machines.append(Machine(node.name, (gpus,), zone, (), (remark,) if remark else ()))
        taken = _whole(next((v for k, v in node.used.items() if _RESOURCE.fullmatch(k)), None))
        if taken:
            warnings.append(
                f"{node.name}: {taken} of {counted(gpus.count, 'GPU')} are requested by pods that run now"
            )
    told = ((name, why) for name, why in left_out.items() if why != "no GPU" or len(nodes) == 1)
    warnings += grouped(told, "{names}: left out: {said}")
    facts = _facts(nodes, usable, left_out, machines)
    lacking = None if machines else "GPU nodes need the device plugin; what it shows: kubectl describe nodes"
    return Found(tuple(machines), tuple(warnings), (), left_out, facts, lacking)


def _gpus(node: _Node) -> tuple[Gpus | None, str | None, str | None]:
    """GPUs of a node, why a plan may not use them, and what to remark."""
    product, labelled = _product(node), _labelled(node)
    key = next(
        (k for k in node.allocatable or {} if _RESOURCE.fullmatch(k) and _whole((node.allocatable or {})[k])),
        None,
    )
    offered = (
        _whole((node.allocatable or {}).get(key)) if key else labelled if node.allocatable is None else 0
    )
    slices = _slices(node)
    if not offered and not slices and not labelled:
        return None, None, None
    memory = next((float(node.labels[m]) for m in _MEMORY if _whole(node.labels.get(m))), None)
    gpus = Gpus(_plain_product(product), offered, memory)
    replicas = _whole(node.labels.get("nvidia.com/gpu.replicas"))
    if not node.ready:
        return gpus, "not Ready", None
    if node.unschedulable:
        return gpus, "unschedulable", None
    if (key and key.endswith(".shared")) or (product or "").endswith("-SHARED") or replicas > 1:
        real = labelled or offered // max(replicas, 1)
        return gpus, f"time-sliced: {offered} replicas are {counted(real, 'real GPU')}", None
    if slices or "-MIG-" in (product or ""):
        listed = ", ".join(f"{n} {k.removeprefix('nvidia.com/')}" for k, n in slices.items()) or product
        also = f", beside {counted(offered, 'whole GPU')}" if offered and slices else ""
        return gpus, f"split by MIG ({listed}){also}", None
    if not offered:
        return gpus, "none of its GPUs can be allocated", None
    missing = max(labelled, _whole(node.capacity.get(key or "", "0"))) - offered
    told = "one GPU" if missing == 1 else f"{missing} GPUs"
    remark = f"{told} not allocatable" if missing > 0 else None
    return gpus, None, remark


def _product(node: _Node) -> str | None:
    """What labels call the GPU: "MI300X" for AMD's "AMD_Instinct_MI300X_OAM", NVIDIA's as they are."""
    told = next((node.labels[p] for p in _PRODUCTS if node.labels.get(p)), None)
    if told is None:
        return _akash(node)[0]
    return re.sub(r"^AMD_(Instinct_|Radeon_)?|_OAM$", "", told)


def _plain_product(product: str | None) -> str | None:
    """What the catalog may know of a product.

    >>> _plain_product("NVIDIA-L40S-SHARED"), _plain_product("nvidia-tesla-t4")
    ('NVIDIA-L40S', 'nvidia-tesla-t4')
    """
    return None if product is None else re.sub(r"-SHARED$|-MIG-.*$", "", product)


def _akash(node: _Node) -> tuple[str | None, int]:
    """Model and number of GPUs by Akash's labels: model.h100, model.h100.interface.PCIe,
    model.h100.ram.80Gi."""
    model, parts, count = None, {}, 0
    for label, value in node.labels.items():
        if match := _AKASH.fullmatch(label):
            model, count = match[2], max(count, _whole(value))
            if match[3]:
                parts[match[3]] = match[4]
    if model is None:
        return None, 0
    memory = re.sub(r"Gi$", "GB", parts.get("ram", ""))
    for words in ((model, parts.get("interface", ""), memory), (model, memory), (model,)):
        device = known_device(Gpus(" ".join(w for w in words if w), 1))
        if device is not None:
            family = re.sub(r"-\d+gb$", "", device.name).upper().replace("PCIE", "PCIe").replace("-", " ")
            return f"{family} {memory}".strip(), count
    return f"{model} {memory}".strip(), count


def _labelled(node: _Node) -> int:
    """GPUs that labels count."""
    told = next((_whole(node.labels[c]) for c in _VENDOR_COUNTS if c in node.labels), 0)
    return told or _akash(node)[1]


def _slices(node: _Node) -> dict[str, str]:
    """MIG parts that can be allocated, by resource; by their labels where quantities are not told."""
    told = node.allocatable
    if told is None:
        told = {k.removesuffix(".count"): v for k, v in node.labels.items() if k.endswith(".count")}
    return {k: v for k, v in told.items() if "/mig-" in k and _whole(v)}


def _whole(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"\d+", str(text)) else 0


def _nodes(each: Input) -> Iterator[_Node]:
    text = each.text.strip()
    if text.startswith("{") or re.match(r"apiVersion:", text):
        yield from _objects(read_text(text, each.name).data, each.name)
    elif re.search(r"^Name:\s+\S", text, re.MULTILINE) and re.search(r"^Labels:", text, re.MULTILINE):
        yield from _described(text)
    else:
        yield from _table(text)


def _objects(data: Any, where: str) -> Iterator[_Node]:
    """`-o json` and `-o yaml`: a List, or one Node."""
    if not isinstance(data, dict) or not {"items", "kind"} & {*data}:
        raise InputError("this is no list of Kubernetes nodes", where, f"run {RUN}")
    items = data.get("items") if "items" in data else [data]
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict) or item.get("kind", "Node") != "Node":
            kind = item.get("kind") if isinstance(item, dict) else type(item).__name__
            raise InputError(f"a {kind} stands where nodes were expected", where, f"run {RUN}")
        meta, spec, status = (_fields(item, k, where) for k in ("metadata", "spec", "status"))
        listed = status.get("conditions")
        conditions = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
        capacity = {k: str(v) for k, v in _fields(status, "capacity", where).items()}
        allocatable = {k: str(v) for k, v in _fields(status, "allocatable", where).items()}
        yield _Node(
            str(meta.get("name", "node")),
            {k: str(v) for k, v in _fields(meta, "labels", where).items()},
            all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready"),
            bool(spec.get("unschedulable")),
            allocatable or capacity,
            capacity,
        )


def _fields(holder: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """A part of an object that has named fields; {} where it is absent. Raises InputError where it is
    else."""
    part = holder.get(name) or {}
    if not isinstance(part, dict):
        raise InputError(f"`{name}` of a node must have named fields", where, f"run {RUN}")
    return part


def _table(text: str) -> Iterator[_Node]:
    """`--show-labels`: a line a node, labels in the last column."""
    lines = text.splitlines()
    heads = lines[0].split() if lines else []
    if heads[:2] != ["NAME", "STATUS"]:
        return
    if heads[-1] != "LABELS":
        raise InputError(
            "this table has no labels, so it names no GPU", None, f"add --show-labels, or run {RUN}"
        )
    for line in lines[1:]:
        cells = line.split()
        if len(cells) < 3:
            continue
        labels = dict(pair.partition("=")[::2] for pair in cells[-1].split(","))
        state = cells[1].split(",")
        yield _Node(cells[0], labels, state[0] == "Ready", "SchedulingDisabled" in state)


def _described(text: str) -> Iterator[_Node]:
    """`kubectl describe nodes`: a block a node; labels one a line, then Capacity, Allocatable, requests."""
    for block in re.split(r"(?=^Name:\s)", text, flags=re.MULTILINE)[1:]:
        sections: dict[str, list[str]] = {}
        name = ""
        for line in block.splitlines():
            if head := re.match(r"(\S[^:]*):(.*)", line):
                name = head[1]
                sections[name] = [head[2].strip()]
            elif name:
                sections[name].append(line.strip())
        labels = dict(x.partition("=")[::2] for x in sections.get("Labels", []) if "=" in x)
        ready = (
            any(re.match(r"Ready\s+True", x) for x in sections.get("Conditions", []))
            or "Conditions" not in sections
        )
        requests = [x.split() for x in sections.get("Allocated resources", [])]
        yield _Node(
            sections["Name"][0],
            labels,
            ready,
            sections.get("Unschedulable", [""])[0] == "true",
            _quantities(sections.get("Allocatable") or sections.get("Capacity", [])),
            _quantities(sections.get("Capacity", [])),
            {x[0]: x[1] for x in requests if len(x) > 1 and _RESOURCE.fullmatch(x[0])},
        )


def _quantities(lines: list[str]) -> dict[str, str]:
    return {k.strip(): v.strip() for k, _, v in (x.rpartition(":") for x in lines if ":" in x)}


def _facts(
    nodes: list[_Node],
    usable: Mapping[tuple[str, int, str | None], int],
    left_out: Mapping[str, str],
    machines: list[Machine],
) -> dict[str, Any]:
    per_node = [
        {
            "name": n.name,
            "product": _product(n),
            "gpu_count_label": next((n.labels[c] for c in _VENDOR_COUNTS if c in n.labels), None),
            "memory_mib_label": n.labels.get("nvidia.com/gpu.memory"),
            "allocatable_gpu": next(
                (v for k, v in (n.allocatable or {}).items() if _RESOURCE.fullmatch(k)), None
            ),
            "mig": _slices(n),
        }
        for n in nodes
    ]
    listed = [
        {"product": product, "nodes": count, "gpus_per_node": gpus} | ({"why": why} if why else {})
        for (product, gpus, why), count in usable.items()
    ]
    return {
        "nodes": len(nodes),
        "per_node": per_node,
        "usable": listed,
        "not_usable": dict(left_out),
        "gpus": [{"model": p, "nodes": count, "per_node": gpus} for (p, gpus, _), count in usable.items()],
        "total_gpus": sum(g.count for m in machines for g in m.gpus),
    }
