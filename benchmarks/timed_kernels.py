"""Kernels timed by ourselves on an H100 and an H200, and what the cost model says of them:
`python -m benchmarks.timed_kernels`.

The fits come from tables that others measured with the engines' own kernels. These are PyTorch's (2.11, CUDA
13: cuBLAS, cuDNN), so agreement says that a card in another rack under another library does what the fits
say; differences are the libraries' as well. kernel_timer.py times them on the GPU at hand.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.kernel_timer import HEADS, WIDTH
from benchmarks.scores.render import share, signed, table
from cluster_configs import devices
from model_zoo.schema import WEIGHT_BYTES, Attention
from planner.cost.attention import Load, prefill_work
from planner.cost.compute import Matmul, kernel_s, matmul_s
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.designs.precision import ROUTER_BYTES

TIMED = Path(__file__).with_name("timed_kernels.csv")
ENGINES = ("vllm", "sglang", "trtllm")

Row = Mapping[str, str]


def said_s(row: Row, engine: str) -> float:
    """Seconds of a timed kernel by the fits of an engine; activations come quantised."""
    device = devices.find(row["device"])
    chip, fits = Chip.of(device), Efficiency(device, engine)
    rows = np.array([float(row["rows"])])
    kind, precision = row["kernel"].split()
    if kind == "prompt":
        work = prefill_work(
            Attention(heads=HEADS, kv_heads=HEADS, head_dim=WIDTH),
            Load.of(tokens=rows, keys=rows / 2),
            np.array([1]),
        )
        return float(kernel_s(fits.fit("prefill", precision, WIDTH), chip, work, rows > 0)[0])
    each = (ROUTER_BYTES | WEIGHT_BYTES)[precision]
    n, k = (np.array([float(row[name])]) for name in ("n", "k"))
    fit = replace(fits.fit("gemm", precision), quantise=0.0)
    return float(matmul_s(fit, chip, Matmul(n, k, each), rows)[0])


def main() -> None:
    """One line a card, kernel and engine."""
    with TIMED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    print(table(["", "kernels", "bias", "median", "P90"], list(lines(rows))))


def lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """One line a device, kernel and engine: how far off the cost model is."""
    for device, kernel in dict.fromkeys((row["device"], row["kernel"]) for row in rows):
        own = [row for row in rows if (row["device"], row["kernel"]) == (device, kernel)]
        for engine in ENGINES[:1] if kernel.startswith("router") else ENGINES:  # routers' fits are any's
            ratio = [said_s(row, engine) * 1e6 / float(row["us"]) for row in own]
            off = np.abs(np.array(ratio) - 1)
            figures = [
                signed(statistics.median(ratio) - 1),
                share(np.median(off)),
                share(np.quantile(off, 0.9)),
            ]
            name = "any" if kernel.startswith("router") else engine
            yield [f"{device} {kernel} {name}", str(len(own)), *figures]


if __name__ == "__main__":
    main()
