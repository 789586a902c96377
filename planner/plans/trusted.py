"""What a sound plan still asks a reader to believe: figures that no arithmetic from the plan alone can deny.
And what it embeds that the catalogs say otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from cluster_configs import devices
from model_zoo import catalog
from planner.errors import InputError
from planner.plans.schema import Plan

SAID_ONLY = {
    "speed": "step times down to what the best measured rates of the devices allow: no engine reaches those",
    "bands": "how much wider bands are than held-out runs of the shipped calibration; of your own, all of it",
    "bound": "the bound, and which designs and further caps it speaks of",
    "alternatives": "objectives of fleets that the plan does not hold, of fewer kinds of replica, too",
    "loads": "recorded loads of experts (their proportions), calibration and traffic",
}
"""By topic, what is said by a plan and not checked."""

RATES = (
    *(
        "memory_gb",
        "memory_gb_per_s",
        "tflops",
        "matmul_tflops",
        "intra_gb_per_s",
        "nic_gb_per_s",
        "gpus_per_node",
    ),
    *("scale_up_gpus", "tdp_watts", "pcie_gb_per_s", "c2c_gb_per_s", "peer_to_peer", "generation"),
)
"""Fields of a device that times and room follow from."""

ROUNDED = 1e-5

ABOUT = ("source", "also", "estimate")
"""Fields of a model card that no figure follows from."""


def differences(plan: Plan) -> list[str]:
    """Where embedded devices and the model are not as the catalogs have them, a line each."""
    problem = plan.problem.model_dump(mode="json")
    return [*_devices(problem["devices"]), *_model(problem["model"], plan.problem.model_id)]


def _devices(embedded: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, own in embedded.items():
        name = str(own.get("name", key))
        if name not in devices.names():
            yield f"device {name}: not in the catalog"
            continue
        known = devices.load(name).model_dump(exclude_none=True, mode="json")
        for field in RATES:
            yield from _unlike(f"device {name}: {field}", own.get(field), known.get(field))


def _model(own: Mapping[str, Any], model_id: str) -> Iterator[str]:
    name = str(own.get("name", ""))
    if name in catalog.names():
        known = catalog.load(name).model_dump(exclude_none=True, mode="json")
        for field in sorted({*own, *known} - {*ABOUT, "name"}):
            if own.get(field) != known.get(field):
                yield from _unlike(f"model {name}: {field}", own.get(field), known.get(field))
    if own and model_id and not _is_path(model_id):
        try:
            meant = catalog.find(model_id)[0].name
        except InputError:  # a model of one's own, which no catalog knows
            return
        if meant != name:
            yield f"model_id {model_id}: is {meant} in the catalog, the embedded card is {name}"


def _is_path(model_id: str) -> bool:
    return model_id.startswith((".", "/", "~")) or model_id.endswith((".json", ".yaml", ".yml"))


def _unlike(what: str, own: object, known: object) -> Iterator[str]:
    """A line for each figure that differs; of mappings each key by itself."""
    if isinstance(own, Mapping) and isinstance(known, Mapping):
        for key in sorted({*own, *known}, key=str):
            yield from _unlike(f"{what}.{key}", own.get(key), known.get(key))
    elif own != known and not _same(own, known):
        yield f"{what} {_shown(own)}, in the catalog {_shown(known)}"


def _same(a: object, b: object) -> bool:
    """Whether two figures are one but for rounding: memory is also told in GiB."""
    numbers = isinstance(a, int | float), isinstance(b, int | float)
    return all(numbers) and math.isclose(float(str(a)), float(str(b)), rel_tol=ROUNDED)


def _shown(value: object) -> str:
    if value is None:
        return "not given"
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)[:40]
