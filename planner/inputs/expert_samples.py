"""Sampled tokens, and transitions between experts of layers in a row: what traffic is counted on.

Tokens       `[layers, tokens, experts a token]`, the experts that each sampled token went to
Transitions  `[layers - 1, experts, experts]`, tokens from an expert to one of the next layer

JSON, .npy or .npz (alone, or named `tokens` or `transitions`), or the dump of SGLang's recorder in mode
`per_token`. Transitions are counted where sampled tokens are given for them: a token of k experts goes each
of its k * k ways.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    found = _array(path, "tokens", ("layer", "token", "choice"), loads)
    return list(_checked(found, str(path), loads))


def read_transitions(path: str | Path, loads: ExpertLoads) -> Floats:
    """Tokens (layers - 1, experts, experts) of `loads`' layers. Raises InputError, naming the layer."""
    found = _array(path, "transitions", ("layer", "expert", "next expert"), loads)
    layers, experts = loads.tokens.shape[1:]
    if len(found) == layers:
        return counted(_checked(found, str(path), loads), experts)
    if found.shape != (layers - 1, experts, experts):
        want = " x ".join(map(str, (layers - 1, experts, experts)))
        got = " x ".join(map(str, found.shape))
        message = f"transitions are {got}: {layers} layers of {experts} experts want {want}"
        raise InputError(message, str(path), "or sampled tokens, [layers, tokens, experts a token]")
    for layer, expert, after in np.argwhere(~np.isfinite(found) | (found < 0))[:1]:
        message = f"layer {loads.name(layer)}, expert {expert} to {after}: a count is negative or no number"
        raise InputError(message, str(path))
    return found


def counted(tokens: Ints, experts: int) -> Floats:
    """Transitions of sampled tokens (layers, tokens, experts a token).

    >>> counted(np.array([[[0, 1]], [[1, 2]]]), 3)[0].tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """
    out = np.zeros((len(tokens) - 1, experts, experts))
    for table, now, after in zip(out, tokens[:-1], tokens[1:], strict=True):
        np.add.at(table, (now[:, :, None], after[:, None, :]), 1.0)
    return out


def _checked(found: Floats, path: str, loads: ExpertLoads) -> Ints:
    layers, experts = loads.tokens.shape[1:]
    if len(found) != layers:
        raise InputError(f"sampled tokens of {len(found)} layers, and loads of {layers}", path)
    wrong = (found % 1 != 0) | (found < 0) | (found >= experts)
    for layer, token, choice in np.argwhere(wrong)[:1]:
        message = f"layer {loads.name(layer)}, token {token}: {found[layer, token, choice]:g} is no expert"
        raise InputError(message, path, f"experts are 0 to {experts - 1}")
    return found.astype(np.int64)


def _array(path: str | Path, name: str, axes: tuple[str, str, str], loads: ExpertLoads) -> Floats:
    data: Any = read_any(path)
    if data is None:
        raise InputError(f"`{path}` is neither JSON, .npy nor .npz", str(path))
    if isinstance(data, dict) and "records" in data:
        return _recorded(data, str(path), loads)
    found = numbers(member(data, (name,), str(path)) if isinstance(data, dict) else data, str(path), axes)
    if found.ndim != 3 or 0 in found.shape:
        shape = " x ".join(str(n) for n in found.shape)
        form = ", ".join(f"{a}s" for a in axes)
        raise InputError(f"want an array [{form}], got {shape or 'one number'}", str(path))
    return found


def _recorded(data: dict[str, Any], path: str, loads: ExpertLoads) -> Floats:
    """Tokens of `loads`' layers from SGLang's recorder: physical experts by token, -1 where there is none."""
    try:
        which = np.asarray(data["last_physical_to_logical_map"], dtype=np.int64)
        passes: Sequence[Any] = [np.asarray(r["topk_ids_of_layer"], dtype=np.int64) for r in data["records"]]
        physical = np.concatenate(passes, axis=1)
    except (KeyError, TypeError, ValueError):
        message = "the dump has no tokens: record them with `--expert-distribution-recorder-mode per_token`"
        raise InputError(message, path) from None
    own = list(loads.layers or range(len(physical)))
    if own[-1] >= len(physical) or len(which) != len(physical) or physical.max() >= which.shape[1]:
        raise InputError(f"the dump has {len(physical)} layers, and the loads others", path)
    physical, which = physical[own], which[own]
    physical = physical[:, :, (physical >= 0).any((0, 1))]
    whole = (physical >= 0).all((0, 2))
    if not whole.any():
        raise InputError("no token of the dump has its experts in all layers", path)
    chosen = physical[:, whole]
    return np.take_along_axis(which, chosen.reshape(len(own), -1), 1).reshape(chosen.shape).astype(float)
