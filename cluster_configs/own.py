"""A GPU of one's own, written under `devices:` of a cluster file: memory, bandwidth, FLOPs and generation.

What is left out is that of the catalog's device of the same generation whose memory bandwidth is nearest; its
FLOP rates at other precisions keep their ratio to 16 bit. Links between GPUs are PCIe unless they are
written."""

from __future__ import annotations

import math
from typing import Any

from cluster_configs.devices import load, names
from cluster_configs.schema import Device, OwnDevice, Precision

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
