"""Sampled tokens, and transitions between experts of layers in a row: what traffic is counted on.

Tokens       `[layers, tokens, experts a token]`, the experts that each sampled token went to
Transitions  `[layers - 1, experts, experts]`, tokens from an expert to one of the next layer

JSON, .npy or .npz (alone, or named `tokens` or `transitions`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.inputs.arrays import member, numbers, read_any
from planner.inputs.expert_loads import ExpertLoads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def read_tokens(path: str | Path, loads: ExpertLoads) -> list[Ints]:
    """Sampled tokens (tokens, experts a token) of each layer of `loads`. Raises InputError with the layer."""
    found = _array(path, "tokens", ("layer", "token", "choice"))
    layers, experts = loads.tokens.shape[1:]
    if len(found) != layers:
        raise InputError(f"sampled tokens of {len(found)} layers, and loads of {layers}", str(path))
    wrong = (found % 1 != 0) | (found < 0) | (found >= experts)
    for layer, token, choice in np.argwhere(wrong)[:1]:
        value = found[layer, token, choice]
        message = f"layer {loads.name(layer)}, token {token}: {value:g} is no expert"
        raise InputError(message, str(path), f"experts are 0 to {experts - 1}")
    return list(found.astype(np.int64))


def read_transitions(path: str | Path, loads: ExpertLoads) -> Floats:
    """Tokens (layers - 1, experts, experts) of `loads`' layers. Raises InputError, naming the layer."""
    found = _array(path, "transitions", ("layer", "expert", "next expert"))
    layers, experts = loads.tokens.shape[1:]
    if found.shape != (layers - 1, experts, experts):
        want = " x ".join(map(str, (layers - 1, experts, experts)))
        got = " x ".join(map(str, found.shape))
        message = f"transitions are {got}: {layers} layers of {experts} experts want {want}"
        raise InputError(message, str(path))
    for layer, expert, after in np.argwhere(~np.isfinite(found) | (found < 0))[:1]:
        message = f"layer {loads.name(layer)}, expert {expert} to {after}: a count is negative or no number"
        raise InputError(message, str(path))
    return found


def _array(path: str | Path, name: str, axes: tuple[str, str, str]) -> Floats:
    data: Any = read_any(path)
    if data is None:
        raise InputError(f"`{path}` is neither JSON, .npy nor .npz", str(path))
    found = numbers(member(data, (name,), str(path)) if isinstance(data, dict) else data, str(path), axes)
    if found.ndim != 3 or 0 in found.shape:
        shape = " x ".join(str(n) for n in found.shape)
        form = ", ".join(f"{a}s" for a in axes)
        raise InputError(f"want an array [{form}], got {shape or 'one number'}", str(path))
    return found
