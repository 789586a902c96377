"""Loads of experts, as measured: tables, arrays, and what engines' recorders dump.

| form | what |
| --- | --- |
| CSV | `layer, expert, tokens`, optionally `step`; every expert of every layer has its row |
| JSON, .npy, .npz | `[layers, experts]` or `[steps, layers, experts]`: alone, or `tokens` beside `layers` |
| SGLang | `.pt` of the expert distribution recorder: `stat`, `stat_approx`; `per_pass`, `per_token`: one |
| | file a rank, so a folder of them; or its `logical_count` as JSON |
| vLLM | JSON lines `eplb_load_stats` (tokens of physical experts, and what expert each of them is) |

SGLang's recorder counts all layers: those without load in any step have no experts and are left out.
Source: SGLang `srt/eplb/expert_distribution.py`; vLLM pull request 41141 (releases of vLLM record no file).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.inputs.arrays import member, numbers, read_any
from planner.inputs.tables import Row, read_csv

Floats = NDArray[np.float64]
AXES = ("step", "layer", "expert")
MOST_STEPS = 512
"""Steps that are kept apart of a dump: 60 MB for 58 layers of 256 experts."""
MOST_TOKENS = 1e18
MOST_EXPERTS = 100_000
ARRAYS = ("tokens", "loads", "logical_count")


@dataclass(frozen=True)
class ExpertLoads:
    """`tokens` (steps, layers, experts): tokens that each expert got. `layers` (layers,): numbers of these in
    the model; None where the input doesn't number them."""

    tokens: Floats
    layers: tuple[int, ...] | None = None

    @property
    def total(self) -> Floats:
        """Tokens (layers, experts) of all steps."""
        return np.asarray(self.tokens.sum(0))

    def name(self, layer: int) -> int:
        """The number by which a reader knows the layer."""
        return layer if self.layers is None else self.layers[layer]


def read_expert_loads(path: str | Path) -> ExpertLoads:
    """Loads in a file, or in a folder of SGLang's dumps. Raises InputError, naming step and layer."""
    path, name = Path(path), str(path)
    if path.is_dir():
        loads = _dumps([read_any(file) for file in sorted(path.glob("*.pt"))], name)
    elif (data := read_any(path)) is None:
        loads = _table(path)
    elif isinstance(data, dict) and ("records" in data or "logical_count" in data):
        loads = _dumps([data], name)
    elif isinstance(data, list) and any(isinstance(line, dict) for line in data):
        loads = _vllm(data, name)
    elif isinstance(data, dict) and data.get("record_type"):
        loads = _vllm([data], name)
    else:
        loads = _array(data, name)
    _check(loads, name)
    return loads


def _check(loads: ExpertLoads, path: str) -> None:
    tokens = loads.tokens
    for at in np.argwhere(~((tokens >= 0) & (tokens <= MOST_TOKENS)))[:1]:
        what = "a load is no number" if np.isnan(tokens[tuple(at)]) else f"a load is {tokens[tuple(at)]:g}"
        raise InputError(
            f"{_place(loads, *at[:2])}, expert {at[2]}: {what}",
            path,
            f"loads are tokens, 0 to {MOST_TOKENS:g}",
        )
    for step, layer in np.argwhere(tokens.sum(2) <= 0)[:1]:
        hint = "leave out layers without experts, and steps without tokens"
        raise InputError(f"{_place(loads, step, layer)}: no expert has any load", path, hint)


def _place(loads: ExpertLoads, step: int, layer: int) -> str:
    return (
        f"step {step}, layer {loads.name(layer)}" if len(loads.tokens) > 1 else f"layer {loads.name(layer)}"
    )


def _array(data: Any, path: str) -> ExpertLoads:
    named = data if isinstance(data, dict) else {}
    found = numbers(member(data, ARRAYS, path) if isinstance(data, dict) else data, path, AXES)
    tokens = _stepped(found, path)
    layers = None
    if "layers" in named:
        layers = tuple(_whole(numbers(named["layers"], path, ("layer",)).ravel(), path).tolist())
        if len(layers) != tokens.shape[1] or list(layers) != sorted(set(layers)):
            message = f"`layers` must number the {tokens.shape[1]} layers of the loads, in rising order"
            raise InputError(message, path)
    return ExpertLoads(tokens, layers)


def _stepped(found: Floats, path: str) -> Floats:
    tokens = found[None] if found.ndim == 2 else found
    if tokens.ndim != 3 or 0 in tokens.shape:
        shape = " x ".join(str(n) for n in found.shape) or "one number"
        message = f"want an array [layers, experts] or [steps, layers, experts], got {shape}"
        raise InputError(message, path)
    return tokens


def _table(path: Path) -> ExpertLoads:
    """Rows in any order."""
    table = read_csv(path, ("layer", "expert", "tokens"), ("step",), others=False)
    if not table.rows:
        raise InputError(f"`{path}` has a header but no rows", f"{path}:2")
    cells: dict[tuple[int, int, int], float] = {}
    for row in table.rows:
        key, tokens = _row(row, "step" in table.columns)
        if key in cells:
            raise InputError(f"layer {key[1]}, expert {key[2]} is given twice", f"{path}:{row.line}")
        cells[key] = tokens
    steps, layers, experts = (sorted({key[i] for key in cells}) for i in range(3))
    if len(cells) < len(steps) * len(layers) * (experts[-1] + 1):
        raise InputError(
            _missing(cells, steps, layers, experts[-1] + 1), str(path), "write 0 where none came"
        )
    of = [{name: i for i, name in enumerate(names)} for names in (steps, layers)]
    tokens_of = np.empty((len(steps), len(layers), experts[-1] + 1))
    for (step, layer, expert), value in cells.items():
        tokens_of[of[0][step], of[1][layer], expert] = value
    return ExpertLoads(tokens_of, tuple(layers))


def _row(row: Row, stepped: bool) -> tuple[tuple[int, int, int], float]:
    if row.problem:
        raise InputError(row.problem, f"{row.path}:{row.line}")
    key = tuple(_index(row, column) for column in (("step",) if stepped else ()) + ("layer", "expert"))
    step, layer, expert = key if stepped else (0, *key)
    try:
        tokens = float(row.text("tokens"))
    except ValueError:
        tokens = np.nan
    if not 0 <= tokens <= MOST_TOKENS:
        given = row.cells["tokens"][:20]
        message = f"layer {layer}, expert {expert}: `tokens` must be 0 to {MOST_TOKENS:g}, got {given}"
        raise InputError(message, row.where("tokens"))
    return (step, layer, expert), tokens


def _index(row: Row, column: str) -> int:
    text = row.text(column)
    if not text.isdecimal() or len(text) > 6:
        raise InputError(f"`{column}` must be a number from 0 on, got {text[:20]}", row.where(column))
    return int(text)


def _missing(
    cells: dict[tuple[int, int, int], float], steps: Sequence[int], layers: Sequence[int], experts: int
) -> str:
    for step in steps:
        for layer in layers:
            gone = [e for e in range(experts) if (step, layer, e) not in cells]
            if gone:
                at = f"step {step}, layer {layer}" if len(steps) > 1 else f"layer {layer}"
                shown = ", ".join(str(e) for e in gone[:3]) + (
                    f" and {len(gone) - 3} more" if gone[3:] else ""
                )
                return f"{at}: no row for expert{'s' if gone[1:] else ''} {shown}, and others have {experts}"
    raise AssertionError("nothing is missing")


def _dumps(files: Sequence[Any], path: str) -> ExpertLoads:
    """SGLang's recorder, one or several files: steps in a row, ranks of a forward pass together."""
    if not files:
        raise InputError(f"`{path}` has no .pt file", path, "name a file, or a folder of SGLang's dumps")
    steps: list[Floats] = []
    passes: dict[int, Floats] = {}
    for data in files:
        if isinstance(data, dict) and "logical_count" in data:
            steps += list(_stepped(numbers(data["logical_count"], path, AXES), path))
        elif isinstance(data, dict) and "records" in data:
            _add_passes(passes, data, path)
        else:
            raise InputError("not a dump of SGLang's expert distribution recorder", path)
    steps += [passes[i] for i in sorted(passes)]
    return _recorded(steps, path)


def _add_passes(passes: dict[int, Floats], data: dict[str, Any], path: str) -> None:
    """Tokens of physical experts, of one rank, by forward pass."""
    try:
        which = _whole(np.asarray(data["last_physical_to_logical_map"], float), path)
        for record in data["records"]:
            at = int(record["forward_pass_id"])
            logical = _logical(np.asarray(record["global_physical_count"], float), which, path)
            passes[at] = logical + passes[at] if at in passes else logical
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not a dump of SGLang's expert distribution recorder: {error!r}", path) from None


def _vllm(lines: Sequence[Any], path: str) -> ExpertLoads:
    steps = []
    for i, line in enumerate(lines):
        kind = line.get("record_type") if isinstance(line, dict) else None
        if kind == "eplb_load_stats" and "expert_load" in line and "p2l_map" in line:
            load = numbers(line["expert_load"], path, AXES[1:])
            which = _whole(numbers(line["p2l_map"], path, AXES[1:]), path)
            steps.append(_logical(load, which, path))
        elif not (isinstance(kind, str) and kind.startswith("eplb_")):
            raise InputError("neither an array nor a record of vLLM's EPLB", f"{path}:{i + 1}")
    if not steps:
        raise InputError("no record `eplb_load_stats` in it", path)
    return ExpertLoads(_busy(steps, path))


def _whole(numbers: Floats, path: str) -> NDArray[np.int64]:
    """Numbers of layers or experts. Raises InputError where one is none."""
    if not ((numbers >= 0) & (numbers < MOST_EXPERTS) & (numbers == np.floor(numbers))).all():
        raise InputError(f"layers and experts are numbered from 0 to {MOST_EXPERTS - 1:,}", path)
    return numbers.astype(np.int64)


def _logical(load: Floats, which: NDArray[np.int64], path: str) -> Floats:
    """Tokens (layers, experts) from those of physical experts (layers, physical) and their experts."""
    if load.ndim != 2 or load.shape != which.shape or not which.size:
        raise InputError(f"loads {load.shape} and the map of physical experts {which.shape} differ", path)
    out = np.zeros((len(load), int(which.max()) + 1))
    np.add.at(out, (np.arange(len(load))[:, None], which), load)
    return out


def _recorded(steps: Sequence[Floats], path: str) -> ExpertLoads:
    """Layers that have experts."""
    tokens = _busy(steps, path)
    layers = np.flatnonzero(np.abs(tokens).sum((0, 2)) > 0)
    return ExpertLoads(tokens[:, layers], tuple(int(i) for i in layers))


def _busy(steps: Sequence[Floats], path: str) -> Floats:
    """Steps in which something ran: a buffer that is not full yet has others. Many are summed in runs."""
    shapes = {step.shape for step in steps}
    if len(shapes) != 1:
        raise InputError(f"the steps differ in layers or experts: {sorted(shapes)}", path)
    ran = [step for step in steps if step.any()]
    if not ran:
        raise InputError("nothing was recorded: no expert has any load", path)
    runs = np.array_split(np.arange(len(ran)), min(MOST_STEPS, len(ran)))
    return np.stack([sum((ran[i] for i in run), np.zeros_like(ran[0])) for run in runs])
