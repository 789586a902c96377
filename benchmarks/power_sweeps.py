"""Public sweeps of power limits: tokens/s of serving engines on GPUs told to draw less, as figures.

A sweep is one card, model, engine and load at several limits; a point is what the card drew [W] and its
tokens/s. The first point of each is the one that draws most: what the load draws where no limit holds it.
`arithmetic`: bound by arithmetic (prompts; two or more drafted tokens that are verified; a 3090 that unpacks
3-bit weights), in the words of its source; all else counts as bound by memory, of the RTX 4090 and the
RTX PRO 6000 without such words.

Sources: club, github.com/noonghunna/club-3090: docs/HARDWARE.md, "Cross-rig power-cap data", commit 0c9fb8e,
and docs/img/power-cap-3090-qwen36.py, commit 42afdbb (its 220 W row, measured cold, is left out); mtp,
github.com/sudoingX/qwen38-mtp: sweeps/rtx-5090.md, "the power cap taxes the flag", commit 17621a8; hq,
inventivehq.com/blog/gpu-power-limit-tokens-per-watt; eco, ecency.com/@themarkymark,
"nvidia-rtx-6000-pro-power-efficiency-testing" (watts are the limits told; that of 600 W, of which the draw is
not told, is left out).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sweep:
    """`points`: (watts drawn, tokens/s), the one that draws most first."""

    card: str
    load: str
    source: str
    arithmetic: bool
    points: tuple[tuple[float, float], ...]


_MTP_WATTS = {
    0: (537, 536, 509, 464, 407), 1: (554, 546, 509, 457, 408), 2: (602, 557, 508, 459, 407),
    3: (603, 554, 509, 454, 412), 4: (602, 555, 511, 453, 411), 5: (601, 560, 503, 456, 409),
    6: (601, 560, 510, 457, 408),
}  # fmt: skip
"""By drafted tokens a step; of limits of 600 to 400 W in steps of 50."""

_MTP_TOKENS = {
    0: (74.8, 74.8, 74.5, 73.5, 71.2), 1: (115.7, 115.8, 114.9, 113.2, 108.4),
    2: (144.4, 145.0, 139.8, 136.0, 129.3), 3: (156.0, 154.8, 152.9, 144.2, 133.8),
    4: (162.1, 158.8, 153.6, 142.7, 132.8), 5: (159.7, 155.2, 148.8, 138.8, 127.5),
    6: (153.2, 151.0, 142.7, 134.0, 123.3),
}  # fmt: skip

_DRAFTED = tuple(
    Sweep(
        "rtx-5090",
        f"27B 4-bit decode, {n} drafted",
        "mtp",
        n > 1,
        tuple(zip(_MTP_WATTS[n], _MTP_TOKENS[n], strict=True)),
    )
    for n in _MTP_WATTS
)

_DENSE_3090 = (
    (388.58, 35.84), (361.19, 35.24), (334.24, 34.39), (328.89, 34.25), (319.51, 33.81), (309.18, 33.23),
    (299.61, 32.74), (289.64, 32.08), (279.95, 30.74), (269.91, 29.18), (259.80, 27.75), (249.69, 26.21),
    (239.70, 23.29), (229.66, 21.07), (209.67, 17.55), (199.67, 15.56),
)  # fmt: skip

SWEEPS = (
    *_DRAFTED,
    Sweep("rtx-5090", "31B decode of a batch, drafted", "club", False, ((547, 600.65), (400, 571.45))),
    Sweep("rtx-5090", "27B prompts of 50,000 tokens", "club", True, ((600, 294.63), (400, 247.33))),
    Sweep("rtx-3090", "27B 3-bit decode", "club", True, _DENSE_3090),
    Sweep(
        "rtx-3090",
        "27B 3-bit decode, water-cooled",
        "club",
        True,
        ((388, 38.23), (330, 36.35), (230, 25.15)),
    ),
    Sweep(
        "rtx-3090",
        "27B prompts",
        "club",
        True,
        ((381.2, 1104.81), (355, 1080.0), (327.3, 1051.07), (249.6, 906.79)),
    ),
    Sweep("rtx-3090", "35B-A3B decode", "club", False, ((354.5, 136.84), (209.9, 114.59))),
    Sweep("rtx-3090", "35B-A3B prompts", "club", True, ((334.1, 2794.36), (249.5, 2461.22))),
    Sweep(
        "rtx-4090",
        "27B 3-bit decode",
        "club",
        False,
        ((393.0, 51.96), (300.0, 50.16), (280.0, 49.36), (260.0, 48.26)),
    ),
    Sweep(
        "rtx-pro-6000",
        "MoE in FP8, many users",
        "eco",
        False,
        ((360.0, 620.04), (300.0, 597.02), (250.0, 525.69)),
    ),
    Sweep("rtx-5060-ti", "7B decode", "hq", False, ((172.7, 81.2), (159.3, 81.4), (147.2, 80.4))),
)
