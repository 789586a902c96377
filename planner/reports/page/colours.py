"""Colours of the page and of pictures, for light and for dark surroundings.

Every text keeps a contrast of 4.5 : 1 or more with what lies under it, and every drawn part 3 : 1 with the
card (WCAG 2.2, success criteria 1.4.3 and 1.4.11): the tests compute both.
"""

from __future__ import annotations

from typing import Final

ROLES: Final = ("mixed", "prefill", "decode", "attention", "ffn", "chain")
"""Roles of replicas: each has a colour of its own, and a tint of it to write on."""

PARTS: Final = (
    *ROLES,
    *("weights", "kv", "activations", "reserve"),
    *("matmul", "attend", "experts", "communication", "engine", "drafts", "other", "wait"),
    *("plain", "best", "band"),
)
"""What parts of bars may be."""

INK: Final = ("ink", "dim", "good", "warn", "accent")
"""Colours of text."""

GROUNDS: Final = ("page", "card", "well", *(f"{role}-tint" for role in ROLES))
"""What text is written on."""

LIGHT: Final[dict[str, str]] = {
    "page": "#f6f6f3",
    "card": "#ffffff",
    "well": "#f0f0ec",
    "line": "#d9d9d2",
    "track": "#e6e6e0",
    "ink": "#1b1f24",
    "dim": "#50575f",
    "accent": "#0a55a0",
    "good": "#0b5d3b",
    "warn": "#7c4003",
    "mixed": "#0f766e",
    "mixed-tint": "#def1ee",
    "prefill": "#b4540a",
    "prefill-tint": "#fdeed6",
    "decode": "#1d5fd1",
    "decode-tint": "#e2edfd",
    "attention": "#6d3fd0",
    "attention-tint": "#eee8fd",
    "ffn": "#b3246b",
    "ffn-tint": "#fce6f0",
    "chain": "#4b7a12",
    "chain-tint": "#eaf3dd",
    "weights": "#4a4fd0",
    "kv": "#0b8578",
    "activations": "#c26a06",
    "reserve": "#868e97",
    "matmul": "#4a4fd0",
    "attend": "#0b8578",
    "experts": "#b3246b",
    "communication": "#c26a06",
    "engine": "#6f7882",
    "drafts": "#6d3fd0",
    "other": "#868e97",
    "wait": "#868e97",
    "plain": "#5f7fa8",
    "best": "#0b5d3b",
    "band": "#1b1f24",
}

DARK: Final[dict[str, str]] = {
    "page": "#111417",
    "card": "#1a1e22",
    "well": "#22272c",
    "line": "#363c43",
    "track": "#2b3138",
    "ink": "#eceef0",
    "dim": "#aab2bb",
    "accent": "#79b8ff",
    "good": "#6fdca4",
    "warn": "#f5b95f",
    "mixed": "#35c2b2",
    "mixed-tint": "#12332f",
    "prefill": "#f0a64a",
    "prefill-tint": "#3a2a12",
    "decode": "#6ea8fe",
    "decode-tint": "#172a47",
    "attention": "#ab8bfa",
    "attention-tint": "#2b2148",
    "ffn": "#f27fb4",
    "ffn-tint": "#42192d",
    "chain": "#a2d45a",
    "chain-tint": "#24320f",
    "weights": "#8b90ff",
    "kv": "#2fbfae",
    "activations": "#e9a23b",
    "reserve": "#7b848e",
    "matmul": "#8b90ff",
    "attend": "#2fbfae",
    "experts": "#f27fb4",
    "communication": "#e9a23b",
    "engine": "#8d96a0",
    "drafts": "#ab8bfa",
    "other": "#7b848e",
    "wait": "#7b848e",
    "plain": "#55769f",
    "best": "#6fdca4",
    "band": "#eceef0",
}


def contrast(one: str, other: str) -> float:
    """Contrast of two colours by WCAG 2.2, from 1 to 21.

    >>> contrast("#ffffff", "#000000"), round(contrast("#777777", "#ffffff"), 2)
    (21.0, 4.48)
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))
