"""What there were measurements of, by engine, and how much further off predictions of other ways to run are.

`measured.yaml` names for each engine of the shipped calibration's runs the devices with their formats of
weights, and whether any run was a pipeline, had experts on ranks of their own, or attention-dp. `widths`: by
mechanism, the deviations that bands lack of log TTFT and log TPOT where it is left out of the fit
(`python -m benchmarks.choice mechanisms`). A user's own calibration is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from planner.cost.calibration import Traits
from planner.designs.shape import Designs, Floats
from planner.reading.documents import read_plain

MEASURED = Path(__file__).with_name("measured.yaml")

KINDS = ("ttft", "tpot")


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """What was measured, by engine."""
    engines: Mapping[str, Mapping[str, Any]] = read_plain(MEASURED)["engines"]
    return engines


@cache
def widths() -> Mapping[str, tuple[float, float]]:
    """By mechanism, what bands of log TTFT and log TPOT are wider by where it was not measured."""
    told: Mapping[str, Mapping[str, float]] = read_plain(MEASURED).get("widths", {})
    return {name: (width.get("ttft", 0.0), width.get("tpot", 0.0)) for name, width in told.items()}


def unmeasured_format(engine: str, device: str, gemm: str, experts: str) -> str | None:
    """ "device" where the engine has no runs on it, "precision" where it has none with one of these formats;
    `experts` "none" of a dense model."""
    devices = table().get(engine, {}).get("devices", {})
    if device not in devices:
        return "device"
    known = devices[device]
    other = gemm not in known["weights"] or (experts != "none" and experts not in known.get("experts", ()))
    return "precision" if other else None


def widening(traits: Traits, designs: Designs, formats: bool = True) -> Floats:
    """Deviations of log TTFT and log TPOT, (2, n), that ways to run add of which the engine has no runs:
    independent of each other. `formats`: with those of devices and formats of weights."""
    known, told = table().get(traits.engine, {}), widths()
    uses = {
        "pipeline": designs.pp > 1,
        "expert_parallel": designs.ep > 1,
        "attention_dp": designs.attn_dp > 1,
        "context_parallel": designs.cp > 1,
    }
    found = np.zeros((2, len(designs)))
    own = formats and unmeasured_format(traits.engine, traits.device, traits.gemm, traits.experts)
    if own:
        found += np.square(told.get(own, (0.0, 0.0)))[:, None]
    for name, used in uses.items():
        if not known.get(name, False):
            found += np.where(used, np.square(told.get(name, (0.0, 0.0)))[:, None], 0.0)
    return np.asarray(np.sqrt(found))
