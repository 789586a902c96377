"""Small loads by a stated law, as files: lognormal popularity, and steps that drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np

EXPERTS, LAYERS = 16, 3


def drawn(seed: int = 0, steps: int = 1, drift: float = 0.1) -> np.ndarray:
    """Tokens (steps, layers, experts)."""
    rng = np.random.default_rng(seed)
    walk = np.concatenate(
        [np.zeros((1, LAYERS, EXPERTS)), rng.normal(0, drift, (steps - 1, LAYERS, EXPERTS))]
    )
    share = rng.lognormal(0, 0.7, (LAYERS, EXPERTS)) * np.exp(walk.cumsum(0))
    return np.asarray(np.round(10_000 * share / share.sum(2, keepdims=True)) + 1)


def saved(path: Path, tokens: np.ndarray, layers: range | None = range(3, 3 + LAYERS)) -> str:
    """An npz of loads; its path."""
    named = {} if layers is None else {"layers": np.array(layers)}
    with path.open("wb") as file:
        np.savez(file, tokens=tokens, **named)
    return str(path)
