"""Devices of a cluster: the catalog's, with the cluster's own figures (`device_overrides`) put over them, and
those that the cluster file describes itself (`devices`), which stand before the catalog's.

What such an entry leaves out is that of the catalog's device of the same generation whose memory bandwidth
is nearest; its FLOP rates at other precisions keep their ratio to 16 bit. Links between GPUs are PCIe unless
they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cluster_configs.devices import find, load, names
from cluster_configs.schema import Cluster, Device, OwnDevice, Precision
from planner.errors import InputError, squash
from planner.reading.documents import Document, Loc
from planner.reading.validation import validate_part

FIXED = ("name", "also", "sources")
"""Fields that no override may touch."""


class Catalog:
    """Finds the devices of one cluster. Overrides are checked when this is made; raises InputError."""

    def __init__(
        self, cluster: Cluster, document: Document, devices: Mapping[str, Device] | None = None
    ) -> None:
        self._document = document
        self._given = None if devices is None else {squash(d.name): d for d in devices.values()}
        self._overridden: dict[str, Device] = {}
        self._used: set[str] = set()
        self._found: dict[str, Device] = {}  # by the words that nodes name them with
        own = cluster.devices or {} if self._given is None else {}
        self._own = dict[str, Device]()
        for name, form in own.items():
            at: Loc = ("devices", name)
            if not squash(name) or not name.isprintable():
                raise document.error(f"`{name[:60]}` is no name of a device", at, of_key=True)
            if (known := self._own.get(squash(name))) is not None:
                raise document.error(f"`{name}` and `{known.name}` are the same name", at, "rename one", True)
            self._own[squash(name)] = own_device(name, form)
        self._taken_over = {name: said for name, form in own.items() if (said := taken_over(name, form))}
        if self._given is None:
            for name in cluster.device_overrides:
                self._override(name, cluster.device_overrides[name])

    def find(self, name: str, at: Loc) -> Device:
        """The device called `name` at that place of the document."""
        if self._given is not None:
            if squash(name) not in self._given:
                raise self._document.error(f"device `{name}` is not among the embedded ones", at)
            return self._given[squash(name)]
        if name not in self._found:
            self._found[name] = self._of_catalog(name, at)
        device = self._found[name]
        self._used.add(device.name)
        return self._overridden.get(device.name, device)

    def warnings(self) -> list[str]:
        """Overrides of devices that no node has; what was taken for devices of one's own."""
        unused = [name for name in self._overridden if name not in self._used]
        return [
            *(f"device_overrides names {name}, but no node has this device" for name in unused),
            *(
                f"devices names {d.name}, but no node has it"
                for d in self._own.values()
                if d.name not in self._used
            ),
            *(said for name, said in self._taken_over.items() if name in self._used),
        ]

    def _of_catalog(self, name: str, at: Loc, of_key: bool = False) -> Device:
        if own := self._own.get(squash(name)):
            return own
        try:
            found = find(name)
            return self._own.get(squash(found.name), found)
        except InputError as error:
            raise InputError(error.message, self._document.where(at, of_key), error.hint) from None

    def _override(self, name: str, fields: Mapping[str, object]) -> None:
        at: Loc = ("device_overrides", name)
        device = self._of_catalog(name, at, of_key=True)
        if device.name in self._overridden:
            raise self._document.error(
                f"`{device.name}` is overridden twice", at, "put all fields under one name", True
            )
        for field in FIXED:
            if field in fields:
                raise self._document.error(f"`{field}` cannot be overridden", (*at, field), of_key=True)
        old = device.model_dump(mode="json", exclude_none=True)
        new = {**old, **fields}
        peaks, best = fields.get("tflops"), fields.get("matmul_tflops")
        if isinstance(peaks, dict):  # what was measured was a card with the catalog's peaks
            new["tflops"] = {**old["tflops"], **peaks}
            kept = {p: rate for p, rate in old.get("matmul_tflops", {}).items() if p not in peaks}
            new["matmul_tflops"] = {**kept, **best} if isinstance(best, dict) else kept
        elif isinstance(best, dict):
            new["matmul_tflops"] = {**old.get("matmul_tflops", {}), **best}
        new["sources"] = {**old["sources"], "overrides": f"the cluster's own: {', '.join(sorted(fields))}"}
        self._overridden[device.name] = validate_part(self._document, Device, new, at)


LIKE = ("vendor", "nic_gb_per_s", "nic", "gpus_per_node", "tdp_watts", "pcie_gb_per_s", "compute_capability")
"""Fields taken from the nearest device; a price never is."""


def own_device(name: str, form: OwnDevice) -> Device:
    """The device that an entry of `devices:` describes.

    >>> card = OwnDevice(generation="ada", memory_gb=12.9, memory_gb_per_s=500, tflops={"fp16": 60})
    >>> found = own_device("my-card", card)
    >>> found.tflops["fp8"], found.intra_gb_per_s, found.sources["rest"]
    (120.0, 32.0, 'as of rtx-4070, the nearest ada device known')
    """
    near = nearest_of(form)
    told = form.model_dump(exclude_none=True)
    fields: dict[str, Any] = {k: v for k in LIKE if (v := getattr(near, k)) is not None} | told
    fields["name"] = name
    fields["tflops"] = _rates(form, near)
    fields.setdefault("intra_link", "pcie")
    fields.setdefault("intra_gb_per_s", fields.get("pcie_gb_per_s") or near.intra_gb_per_s)
    fields.setdefault("scale_up_gpus", fields["gpus_per_node"])
    fields["sources"] = {
        "specs": "the cluster file's own",
        "tdp": "the cluster file's own" if "tdp_watts" in told else f"as of {near.name}",
        "rest": f"as of {near.name}, the nearest {form.generation} device known",
    }
    return Device(**fields)


def taken_over(name: str, form: OwnDevice) -> str | None:
    """A sentence that says which figures that matter were not written, and whose they are."""
    missing = [
        field for field in ("tdp_watts", "pcie_gb_per_s", "nic_gb_per_s") if getattr(form, field) is None
    ]
    if not missing:
        return None
    near = nearest_of(form)
    shown = ", ".join(f"{field} {getattr(near, field):g}" for field in missing if getattr(near, field))
    return (
        f"devices.{name}: {shown} as of {near.name}, the nearest {form.generation} device known; "
        "write your own"
    )


def nearest_of(form: OwnDevice) -> Device:
    """The device of the catalog with the nearest memory bandwidth, of one generation."""
    alike = [device for device in map(load, names()) if device.generation == form.generation]
    return min(alike, key=lambda d: abs(math.log(d.memory_gb_per_s / form.memory_gb_per_s)))


def _rates(form: OwnDevice, near: Device) -> dict[Precision, float]:
    """Its FLOP rates: those written, 16 bit for both forms of it, others in the nearest device's ratio."""
    half = form.tflops.get("bf16") or form.tflops.get("fp16")
    of_near = near.tflops.get("bf16") or near.tflops["fp16"]
    if half is None:
        return {**form.tflops}
    return {**{p: float(f"{half * rate / of_near:.4g}") for p, rate in near.tflops.items()}, **form.tflops}
