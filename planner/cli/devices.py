"""`meshwright devices`: the GPUs known, as a table, or one in full with where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from planner.cli.help import arg
from planner.cli.options import JsonOpt

if TYPE_CHECKING:
    from cluster_configs.schema import Device

PRECISIONS = ("bf16", "fp16", "fp8", "fp4", "int8", "fp32")


def devices(
    name: Annotated[
        str | None,
        arg("FILTER", "One of them, or any part of a name.", show_default=False),
    ] = None,
    json: JsonOpt = False,
) -> None:
    """List the GPUs known, those whose names have FILTER in them, or show one with its sources.

    Example: meshwright devices h100
    """
    from cluster_configs import devices as catalog
    from planner.cli.output import note, print_json
    from planner.errors import InputError, squash

    stems = [n for n in catalog.names() if squash(name or "") in squash(n)]
    one = None
    try:
        one = catalog.find(name) if name is not None else None
    except InputError:
        if not stems or not squash(name or ""):
            raise
    found = [one] if one else [catalog.load(n) for n in stems]
    if json:
        forms = [device.model_dump(mode="json", exclude_none=True) for device in found]
        print_json(forms[0] if one else forms, indent=2)
    elif one:
        print("\n".join(describe(one)))
        if others := [n for n in stems if n != one.name]:
            note(f"note: also named so: {', '.join(others)}")
    else:
        print("\n".join([*table(found), LEGEND]))


def table(found: list[Device]) -> list[str]:
    """One line a device under a heading, columns aligned; never cut, and at most 80 columns wide."""
    headings = ["device", "GiB", "GB/s", "bf16", "fp8", "fp4", "link", "GPUs", "watts", "$/h"]
    rows = [headings, *(_cells(device) for device in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(headings))]
    return [
        " ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


LEGEND = """
GiB of memory, GB/s its bandwidth; dense TFLOP/s in bf16 (fp16 where there is
none), fp8, fp4; link: GB/s per GPU to its peers; GPUs: of a usual node
(/scale-up domain); $/h: per GPU, where sourced."""


def _cells(d: Device) -> list[str]:
    half = d.tflops.get("bf16") or d.tflops.get("fp16")
    rates = ["-" if f is None else f"{f:,.0f}" for f in (half, d.tflops.get("fp8"), d.tflops.get("fp4"))]
    node = f"{d.gpus_per_node}" + (f"/{d.scale_up_gpus}" if d.scale_up_gpus > d.gpus_per_node else "")
    price = "-" if d.price_usd_per_gpu_hour is None else f"{d.price_usd_per_gpu_hour:.2f}"
    memory = [f"{d.memory_gb * 1e9 / 2**30:.4g}", f"{d.memory_gb_per_s:,.0f}"]
    return [d.name, *memory, *rates, f"{d.intra_gb_per_s:g}", node, f"{d.tdp_watts:g}", price]


def _peers(d: Device) -> str:
    """Whether GPUs of a node read each other's memory."""
    if d.intra_link != "pcie":
        return f"by {d.intra_link}"
    return "-" if d.peer_to_peer is False else "where a node says so (peer_to_peer: true)"


def describe(d: Device) -> list[str]:
    """Lines that tell all of a device, each figure with its unit, then where the figures come from.

    >>> from cluster_configs.devices import find
    >>> print("\\n".join(describe(find("h100"))[:3]))
    h100-sxm (nvidia, hopper)
      memory          80 GiB (85.9 GB) at 3,350 GB/s
      bf16            989 TFLOP/s dense; best measured 794.5
    """
    from planner.reading.units import counted

    peers = counted(d.scale_up_gpus, "GPU")
    best = {p: f"{rate:,.4g}" for p, rate in (d.matmul_tflops or {}).items()}
    rates = [
        (p, f"{d.tflops[p]:,.4g} TFLOP/s dense; best measured {best.get(p, 'unknown, the peak counts')}")
        for p in PRECISIONS
        if p in d.tflops
    ]
    facts = [
        (
            "memory",
            f"{d.memory_gb * 1e9 / 2**30:.4g} GiB ({d.memory_gb:.1f} GB) at {d.memory_gb_per_s:,g} GB/s",
        ),
        *rates,
        ("node", counted(d.gpus_per_node, "GPU")),
        ("scale-up", f"{peers} by {d.intra_link}, {d.intra_gb_per_s:g} GB/s each way per GPU"),
        ("peer-to-peer", _peers(d)),
        ("network", f"{d.nic}, {d.nic_gb_per_s:g} GB/s each way per GPU"),
        ("host link", "-" if d.pcie_gb_per_s is None else f"PCIe, {d.pcie_gb_per_s:g} GB/s each way"),
        ("power", f"{d.tdp_watts:g} W"),
        (
            "price",
            _price(d),
        ),
    ]
    lines = [f"{d.name} ({d.vendor}, {d.generation})", *(f"  {name:<15} {value}" for name, value in facts)]
    lines += ["sources", *(f"  {name:<15} {source}" for name, source in d.sources.items())]
    return lines + ([f"note: {d.notes}"] if d.notes else [])


def _price(d: Device) -> str:
    """The price of a GPU, of when, and whether most pay more.

    >>> from cluster_configs.devices import find
    >>> [_price(find(d)) for d in ("l40s", "rtx-3090", "rtx-4090")]
    ['1.5484 $ per GPU hour (2025-2026)', '0.13 $ per GPU hour (date unknown, a low bound)', 'unknown']
    """
    from cluster_configs.price_list import usual_price

    if d.price_usd_per_gpu_hour is None:
        return "unknown"
    own = f"{d.price_usd_per_gpu_hour:g} $ per GPU hour"
    listed = usual_price(d.name)
    if listed is None or listed.price_usd_per_gpu_hour != d.price_usd_per_gpu_hour:
        return own
    date = "date unknown" if listed.date in (None, "unknown") else listed.date
    return f"{own} ({date}{', a low bound' * listed.low_bound})"
