"""Expert maps as files: our form, read and written, and the engines' (`planner/launch/expert_maps.py`)."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

from planner.errors import InputError
from planner.expert_maps.schema import ExpertMap
from planner.inputs.arrays import numbers, read_any
from planner.inputs.expert_loads import ExpertLoads
from planner.launch import expert_maps
from planner.version import __version__
from solvers.experts.types import Place

Format = Literal["meshwright", "sglang", "trtllm"]


def written(made: ExpertMap, form: Format) -> str:
    """The map as text. Raises InputError where the form cannot say it."""
    if form == "meshwright":
        return json.dumps(as_document(made), separators=(",", ":")) + "\n"
    if len(set(made.slots)) > 1:
        message = (
            f"{form} wants equal slots on all GPUs, and they have {min(made.slots)} to {max(made.slots)}"
        )
        raise InputError(message, "--format", "give one number of --slots")
    rows = {
        layer: [e for gpu in place for e in gpu] for layer, place in zip(made.layers, made.place, strict=True)
    }
    if form == "sglang":
        return expert_maps.sglang(rows, made.experts, max(made.model_layers, made.layers[-1] + 1))
    return expert_maps.trtllm(rows)


def as_document(made: ExpertMap) -> dict[str, Any]:
    """Our form."""
    return {
        "meshwright_version": __version__,
        "kind": "expert_map",
        "model": made.model,
        "layers": list(made.layers),
        "experts": made.experts,
        "gpus": made.gpus,
        "gpus_per_node": list(made.nodes),
        "slots": list(made.slots),
        "map": made.place,
        "balance": [round(b, 6) for b in made.balance],
        "bound": [round(b, 6) for b in made.bound],
    }


def read_map(path: str | Path, loads: ExpertLoads, gpus: int) -> list[Place]:
    """The places of `loads`' layers on `gpus` GPUs. Raises InputError where it is a map of something else."""
    data, name = read_any(path), str(path)
    if isinstance(data, dict) and "physical_to_logical_map" in data:
        places = _sglang(data["physical_to_logical_map"], name, loads, gpus)
    elif isinstance(data, dict) and isinstance(data.get("experts"), dict):
        places = _ours({"map": _of_plan(data["experts"], name, gpus)}, name, loads)
    elif isinstance(data, dict) and "map" in data:
        places = _ours(data, name, loads)
    else:
        hint = "a map that `meshwright experts -o` wrote, a plan with one, or SGLang's JSON"
        raise InputError(f"`{name}` is no expert map", name, hint)
    experts = loads.tokens.shape[2]
    for at, place in enumerate(places):
        _check(place, f"layer {loads.name(at)}", name, experts, gpus)
    return places


def _check(place: Place, layer: str, path: str, experts: int, gpus: int) -> None:
    if len(place) != gpus:
        message = f"{layer}: the map has {len(place)} GPUs, and --gpus {gpus}"
        raise InputError(message, path, "a map for other GPUs: place anew, without --previous")
    held = {e for gpu in place for e in gpu}
    if beyond := sorted(e for e in held if not 0 <= e < experts):
        message = f"{layer}: the map has expert {beyond[-1]}, and the loads have {experts}"
        raise InputError(message, path, "the map is for another model")
    if gone := sorted(set(range(experts)) - held):
        message = f"{layer}: expert {gone[0]} is on no GPU of the map"
        raise InputError(message, path, "the map is for another model")


def _of_plan(experts: dict[str, Any], path: str, gpus: int) -> Any:
    """The map of a plan's replicas with so many ep ranks."""
    entries = [entry for entry in experts.get("replicas", []) if entry.get("map")]
    for entry in entries:
        if len(entry["map"][0]) == gpus:
            return entry["map"]
    message = f"the plan has no expert map for {gpus} GPUs"
    ranks = ", ".join(str(len(entry["map"][0])) for entry in entries)
    raise InputError(message, path, f"it has one for {ranks}" if ranks else "plan with --expert-loads")


def _ours(data: dict[str, Any], path: str, loads: ExpertLoads) -> list[Place]:
    try:
        places = [[[int(e) for e in gpu] for gpu in layer] for layer in data["map"]]
        layers = tuple(int(i) for i in data.get("layers") or loads.layers or range(len(places)))
    except (TypeError, ValueError):
        form = "map[layer][gpu] = [experts]"
        raise InputError(f"`map` in `{path}` is not {form}", path) from None
    count = loads.tokens.shape[1]
    if len(places) != count or len(layers) != count:
        message = f"the map has {len(places)} layers, and the loads {count}"
        raise InputError(message, path, "the map is for another model")
    if loads.layers is not None and layers != loads.layers:
        other = next(a for a, b in zip(layers, loads.layers, strict=True) if a != b)
        message = f"layer {other} of the map is none of the loads'"
        raise InputError(message, path, "the map is for another model, or give --model")
    return places


def _sglang(rows: Any, path: str, loads: ExpertLoads, gpus: int) -> list[Place]:
    table = numbers(rows, path, ("layer", "slot"))
    count = loads.tokens.shape[1]
    if table.ndim != 2 or (table % 1 != 0).any():
        raise InputError("`physical_to_logical_map` is not a table [layers, slots] of experts", path)
    which = list(range(count)) if loads.layers is None else list(loads.layers)
    if len(table) == count:
        which = list(range(count))
    elif loads.layers is None or which[-1] >= len(table):
        message = f"the map has {len(table)} layers, and the loads {count}"
        raise InputError(message, path, "the map is for another model, or give --model")
    if table.shape[1] % gpus:
        raise InputError(f"{table.shape[1]} slots of the map do not divide over {gpus} GPUs", path)
    ends = list(accumulate([table.shape[1] // gpus] * gpus, initial=0))
    return [[[int(e) for e in table[i, a:b]] for a, b in pairwise(ends)] for i in which]
