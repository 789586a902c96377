"""From a device and an engine to the fits of its kernels, falling back device -> generation -> datasheet.

First comes what the device has of the engine's era (eras.py). llama.cpp's kernels are its own: the device's,
those fitted on data-centre NVIDIA, the datasheet's. Kernels of the level "runs" were fitted to whole runs.

Every kernel takes

    t = t0 + N(flops / (compute * peak), bytes / (memory * bandwidth), items * tau; p) + terms of its kind

with N the p-norm (p large: hard maximum; p = 1: sum). `peak` names the tensor rate the fit is relative to,
`error` is the median relative error on held-out measurements. A GEMM with quantised activations adds m*k*(2 +
activation bytes) / (quantise * bandwidth). A fused expert kernel adds `ep` where ranks share the experts,
`held` an expert on the rank, tau an expert touched, and the bytes of its rows and of permuted tokens at
`rows` and `tokens` of the bandwidth (experts.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from cluster_configs import devices
from cluster_configs.schema import Device
from planner.cost.eras import engine_of
from planner.cost.tuning import AS_MEASURED, Tuning
from planner.engines import named
from planner.reading.documents import read_plain

HERE = Path(__file__).parent
Level = Literal["device", "runs", "generation", "datasheet"]
Table = dict[Any, Any]

OLD_ENGINES = "era/2024"
"""File of what engines of 2024 add to a step, and of llama.cpp on `DATA_CENTRE`."""

DATA_CENTRE = ("6.0", "7.0", "8.0", "9.0", "10.0", "10.3")
"""NVIDIA's compute capabilities with HBM: llama.cpp reaches less of it than of a consumer card's GDDR."""

SAME_SILICON = {
    "a100-sxm-40gb": "a100-sxm",  # five stacks of HBM2 for HBM2e
    "a800-sxm": "a100-sxm",  # fewer NVLinks
    "h800-sxm": "h100-sxm",  # fewer NVLinks
    "gh200-96gb": "h100-sxm",  # six stacks of HBM3 for five, beside a CPU
    "gh200-144gb": "h200-sxm",  # the same beside a CPU
    "mi325x": "mi300x",  # HBM3e for HBM3
    "mi210": "mi250-die",  # one of the two dies on a card of its own
    "mi250x-die": "mi250-die",  # all 110 compute units for 104
}
"""Devices that take another's kernels, since chip and form are the same: memory, links and peaks are their
own. (PCIe and NVL forms run the chip at other clocks, H20 with half of its units: the generation's serve.)
"""


EARLIER = {(era, "fp8_block"): ("deepgemm", "deepgemm") for era in ("trtllm-1.0", "trtllm-1.1")}
"""Eras whose recipes asked for other kernels of experts than today's."""


@dataclass(frozen=True)
class Fit:
    """Parameters of one kernel; see the module docstring. Zero `quantise`, `rows` or `tokens`: no such
    term."""

    compute: float
    memory: float
    t0_s: float
    p: float = 2.0
    tau_s: float = 0.0
    held_s: float = 0.0
    ep_s: float = 0.0
    quantise: float = 0.0
    rows: float = 0.0
    tokens: float = 0.0
    peak: str = "bf16"
    error: float = 0.2
    level: Level = "datasheet"


@dataclass(frozen=True)
class Chip:
    """Datasheet rates of one GPU, bytes/s of its memory and dense FLOP/s by precision; and the FLOP/s that no
    product was measured to exceed, where that is known."""

    bytes_per_s: float
    flops_per_s: dict[str, float]
    reached: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, device: Device) -> Chip:
        """The device's own peaks in SI units."""
        peaks: dict[str, float] = {name: 1e12 * tflops for name, tflops in device.tflops.items()}
        reached = {str(name): 1e12 * tflops for name, tflops in device.reached_tflops.items()}
        return cls(1e9 * device.memory_gb_per_s, peaks, reached)

    def peak(self, precision: str) -> tuple[float, str]:
        """FLOP/s of `precision` and the precision it runs in: the next wider one where it is not native.

        >>> Chip(2e12, {"bf16": 3e14, "int8": 6e14}).peak("fp8")
        (300000000000000.0, 'bf16')
        """
        wider = {"fp4": ("fp4", "fp8"), "fp8": ("fp8",), "int8": ("int8",)}.get(precision, ())
        for name in (*wider, "bf16", "fp16", "fp32"):
            if name in self.flops_per_s:
                return self.flops_per_s[name], name
        return max(self.flops_per_s.values()), "bf16"

    def most(self, precision: str) -> float:
        """FLOP/s that no kernel of `precision` exceeds: those of the best product that was measured, else the
        peak.

        >>> Chip(2e12, {"bf16": 3e14}, {"bf16": 2e14}).most("fp8"), Chip(2e12, {"bf16": 3e14}).most("fp8")
        (200000000000000.0, 300000000000000.0)
        """
        peak, name = self.peak(precision)
        return self.reached.get(name, peak)


class Efficiency:
    """The fits of one engine (or era of one) on one device."""

    def __init__(self, device: Device, engine: str, tuning: Tuning = AS_MEASURED) -> None:
        self.tuning = tuning
        kind = named(engine_of(engine))
        self.sends_wide = device.generation in kind.sends_wide
        self.engine, self.generation = engine, str(device.generation)
        self.known: dict[tuple[str, str, int | None, str], Fit] = {}
        measured = devices.find(SAME_SILICON[device.name]) if device.name in SAME_SILICON else device
        own = load(measured.name)
        self.shelves = list(_shelves(device, own, engine))
        self.links: Table = own.get("links", {}) | _kernels(own, engine).get("links", {})
        self.links_gb_per_s = measured.intra_gb_per_s
        self.default_links: Table = load("datasheet")["links"]
        self.power: Table = own.get("power") or load("datasheet")["power"]

    def fit(self, kernel: str, precision: str, head_dim: int | None = None, family: str = "") -> Fit:
        """The nearest fit of `kernel` at `precision`: the device's, its generation's, or the datasheet
        default.

        With `head_dim`, the measured head size nearest by ratio; with `family`, kernels of that name where
        some were measured. As the engine's `Tuning` has it.
        """
        asked = (kernel, precision, head_dim, family)
        if asked not in self.known:
            self.known[asked] = tuned(self._measured(*asked), kernel, self.tuning)
        return self.known[asked]

    def families(self, precision: str, name: str = "") -> tuple[str, str]:
        """The families of the experts' kernels, of ranks that all have the same tokens and of attention-dp
        ranks: as a launch line names them (`name`), else as plans ask for; blank for the commonest."""
        if name:
            return name, name
        usual = named(engine_of(self.engine)).families(self.generation, precision)
        return EARLIER.get((self.engine, precision), usual) if any(usual) else usual

    def _measured(self, kernel: str, precision: str, head_dim: int | None, family: str) -> Fit:
        """The fit as it stands in the files. Raises KeyError."""
        names = (f"{kernel} {family}", kernel) if family else (kernel,)
        for (level, table), name in ((shelf, name) for name in names for shelf in self.shelves):
            row = table.get(name, {}).get(precision)
            if row and head_dim is not None:
                row = row[min(row, key=lambda size: abs(math.log(size / head_dim)))]
            if row:
                return as_fit(row, level)
        raise KeyError(f"no default for {kernel} at {precision}")


def _shelves(device: Device, own: Table, engine: str) -> Iterator[tuple[Level, Table]]:
    """Where to look for a kernel, in order: see the module docstring; `own` is the device's file."""
    plain, level = engine_of(engine), own.get("level", "device")
    if engine != plain:
        yield level, _kernels(own, engine)
    yield level, _kernels(own, plain)
    if plain != "llama.cpp":
        yield "generation", _kernels(load(f"generation/{device.generation}"), "any")
    elif device.compute_capability in DATA_CENTRE:
        yield "runs", _kernels(load(OLD_ENGINES), plain)
    yield "datasheet", _kernels(load("datasheet"), f"{plain} {device.generation}")
    yield "datasheet", _kernels(load("datasheet"), plain)
    yield "datasheet", _kernels(load("datasheet"), f"any {device.generation}")
    yield "datasheet", _kernels(load("datasheet"), "any")


def _kernels(file: Table, engine: str) -> Table:
    """What a file says of an engine."""
    found: Table = file.get("engines", {}).get(engine, {})
    return found


def tuned(fit: Fit, kernel: str, by: Tuning) -> Fit:
    """The fit as a served engine runs the kernel: rates and fixed time by the factors on its kind.

    >>> tuned(Fit(compute=0.5, memory=0.8, t0_s=1e-5), "gemm", Tuning(gemm_bytes=2.0)).memory
    0.4
    """
    flops, moved = by.on_kernel(kernel)
    launch = by.on_launch(kernel)
    return replace(
        fit,
        compute=fit.compute / flops,
        memory=fit.memory / moved,
        t0_s=fit.t0_s * launch,
        tau_s=fit.tau_s * (launch if kernel == "moe" else moved),
        held_s=fit.held_s * launch,
        ep_s=fit.ep_s * launch,
        quantise=fit.quantise / moved,
        rows=fit.rows / flops,
        tokens=fit.tokens / flops,
    )


def as_fit(row: Table, level: Level) -> Fit:
    """A YAML row in SI units."""
    units = {
        "t0_us": ("t0_s", 1e-6),
        "tau_ns": ("tau_s", 1e-9),
        "held_ns": ("held_s", 1e-9),
        "ep_us": ("ep_s", 1e-6),
    }
    si: Table = {"t0_s": 0.0} | {k: v for k, v in row.items() if k not in units}
    si |= {name: unit * row[k] for k, (name, unit) in units.items() if k in row}
    return Fit(level=level, **si)


@cache
def load(name: str) -> Table:
    """The file `name`.yaml of this folder, empty where there is none."""
    path = HERE / f"{name}.yaml"
    table: Table = read_plain(path) if path.is_file() else {}
    return table
