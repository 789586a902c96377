"""Generations of devices, as cluster files name them, that engines' pages speak of together."""

from __future__ import annotations

from typing import Final

BLACKWELL: Final = frozenset({"blackwell_dc", "blackwell_rtx"})
FROM_HOPPER: Final = frozenset({"hopper"}) | BLACKWELL
FROM_ADA: Final = frozenset({"ada"}) | FROM_HOPPER
FROM_AMPERE: Final = frozenset({"ampere"}) | FROM_ADA
FROM_TURING: Final = frozenset({"turing"}) | FROM_AMPERE
MI300: Final = frozenset({"cdna3", "cdna4"})
GAUDI: Final = frozenset({"gaudi2", "gaudi3"})
INT8: Final = frozenset({"turing", "ampere", "ada", "hopper"})
"""With kernels for 8-bit integers."""
