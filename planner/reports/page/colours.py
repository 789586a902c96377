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

COLOURS: Final[dict[str, tuple[str, str]]] = {
    "page": ("#f6f6f3", "#111417"),
    "card": ("#ffffff", "#1a1e22"),
    "well": ("#f0f0ec", "#22272c"),
    "line": ("#d9d9d2", "#363c43"),
    "track": ("#e6e6e0", "#2b3138"),
    "ink": ("#1b1f24", "#eceef0"),
    "dim": ("#50575f", "#aab2bb"),
    "accent": ("#0a55a0", "#79b8ff"),
    "good": ("#0b5d3b", "#6fdca4"),
    "warn": ("#7c4003", "#f5b95f"),
    "mixed": ("#0f766e", "#35c2b2"),
    "mixed-tint": ("#def1ee", "#12332f"),
    "prefill": ("#b4540a", "#f0a64a"),
    "prefill-tint": ("#fdeed6", "#3a2a12"),
    "decode": ("#1d5fd1", "#6ea8fe"),
    "decode-tint": ("#e2edfd", "#172a47"),
    "attention": ("#6d3fd0", "#ab8bfa"),
    "attention-tint": ("#eee8fd", "#2b2148"),
    "ffn": ("#b3246b", "#f27fb4"),
    "ffn-tint": ("#fce6f0", "#42192d"),
    "chain": ("#4b7a12", "#a2d45a"),
    "chain-tint": ("#eaf3dd", "#24320f"),
    "weights": ("#4a4fd0", "#8b90ff"),
    "kv": ("#0b8578", "#2fbfae"),
    "activations": ("#c26a06", "#e9a23b"),
    "reserve": ("#868e97", "#7b848e"),
    "matmul": ("#4a4fd0", "#8b90ff"),
    "attend": ("#0b8578", "#2fbfae"),
    "experts": ("#b3246b", "#f27fb4"),
    "communication": ("#c26a06", "#e9a23b"),
    "engine": ("#6f7882", "#8d96a0"),
    "drafts": ("#6d3fd0", "#ab8bfa"),
    "other": ("#868e97", "#7b848e"),
    "wait": ("#868e97", "#7b848e"),
    "plain": ("#5f7fa8", "#55769f"),
    "best": ("#0b5d3b", "#6fdca4"),
    "band": ("#1b1f24", "#eceef0"),
}
"""Every colour by its name: in light surroundings, and in dark ones."""

LIGHT: Final = {name: light for name, (light, _) in COLOURS.items()}
DARK: Final = {name: dark for name, (_, dark) in COLOURS.items()}
