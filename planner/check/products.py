"""FLOP/s that no product of matrices was measured to exceed: a table of the checker's own.

A device that is not in it, or whose peak the plan's cluster states otherwise, may reach its peak.
"""

from __future__ import annotations

from cluster_configs.schema import Device

TERA = 1e12

MEASURED: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {
    ("h100-sxm", "h800-sxm"): {"bf16": (989, 794.5), "fp8": (1978, 1402.6)},
    ("h200-sxm",): {"bf16": (989, 794.5), "fp8": (1978, 1453.4)},
    ("gh200-96gb", "gh200-144gb"): {"bf16": (989.5, 828.6), "fp8": (1979, 1535.0)},
    ("a100-sxm", "a100-sxm-40gb", "a800-sxm"): {"bf16": (312, 271.2), "int8": (624, 585.7)},
    ("a100-pcie", "a100-pcie-40gb"): {"bf16": (312, 256.4)},
    ("b200-sxm",): {"bf16": (2250, 1745.0), "fp8": (4500, 3432.5), "fp4": (9000, 5123.5)},
    ("b300-sxm",): {"bf16": (2250, 1769.0), "fp8": (4500, 3353.3), "fp4": (14000, 6069.5)},
    ("gb200",): {"bf16": (2500, 1822.0), "fp8": (5000, 3615.6), "fp4": (10000, 5547.7)},
    ("gb300",): {"bf16": (2500, 2106.8), "fp8": (5000, 3749.2), "fp4": (15000, 6436.3)},
    ("l40s",): {"bf16": (362.05, 271.0), "fp8": (733, 423.8)},
    ("rtx-pro-6000-server",): {
        "bf16": (467.8, 457.6),
        "fp8": (935.6, 905.3),
        "fp4": (1871.2, 1608.2),
        "int8": (935.6, 845.4),
    },
    ("b60",): {"bf16": (98.304, 98.24)},
    ("mi355x",): {"bf16": (2516.6, 1565.0)},
    ("mi325x",): {"bf16": (1307.4, 784.9)},
    ("mi300x",): {"bf16": (1307.4, 781.9)},
    ("mi250x-die",): {"bf16": (191.5, 147.0)},
    ("mi250x",): {"bf16": (383, 294.0)},
    ("mi250-die", "mi210"): {"bf16": (181.05, 139.0)},
    ("mi250",): {"bf16": (362.1, 278.0)},
    ("gaudi2",): {"bf16": (432, 429.3), "fp8": (865, 826.5)},
    ("gaudi3",): {"bf16": (1835, 1288.8), "fp8": (1835, 1289.5)},
}
"""Devices of one chip and form → rate → TFLOP/s of the data sheet, and of the best product found. Sources:
the table of maximum achievable matmul FLOPS of stas00/ml-engineering (CC BY-SA 4.0), the higher of its two
versions; fp4, int8, GB300, L40S and B60: aiconfigurator's kernel tables (Apache-2.0); RTX PRO 6000:
xzwgit/gpu-flops-bench (MIT)."""

SAME = {"fp16": "bf16"}
"""Both have one rate on all of these."""

NEAR = 1e-3
"""Relative difference below which a stated peak is the table's: two of one chip round differently."""


def reached(device: Device, rate: str) -> float:
    """FLOP/s of the best product of a rate that the device has: measured, or its peak.

    >>> from cluster_configs.devices import find
    >>> round(reached(find("h100"), "fp16") / TERA, 1), round(reached(find("l4"), "bf16") / TERA, 1)
    (794.5, 121.0)
    """
    peaks = {str(name): float(tflops) for name, tflops in device.tflops.items()}
    table = next((rates for names, rates in MEASURED.items() if device.name in names), {})
    peak, best = table.get(SAME.get(rate, rate), (0.0, 0.0))
    own = abs(peaks[rate] - peak) <= NEAR * peak and "matmul_tflops" not in device.sources.get(
        "overrides", ""
    )
    return TERA * (best if own and peak else peaks[rate])
