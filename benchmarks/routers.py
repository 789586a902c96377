"""Routers in 32 bits: what the cost model says of their GEMM against published times:
`python -m benchmarks.routers`.

Measured on a GB200 by the authors of vLLM's kernel for it, with 6144 inputs and 256 experts, in replayed CUDA
graphs (vllm-project/vllm pull request 47973); PyTorch's kernels as they are without and with TF32.
"""

from __future__ import annotations

import numpy as np

from benchmarks.scores.render import table
from cluster_configs.devices import find
from model_zoo.schema import Gemm
from planner.cost.compute import matmul_s, sharded
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.designs.precision import ROUTER_BYTES

MEASURED = {
    "fp32": {
        1: 7.52,
        4: 20.2,
        8: 16.7,
        16: 22.3,
        32: 63.2,
        64: 63.3,
        128: 69.3,
        256: 77.8,
        512: 96.8,
        1024: 111.0,
    },
    "tf32": {
        1: 10.9,
        4: 12.0,
        8: 12.0,
        16: 12.2,
        32: 19.9,
        64: 20.1,
        128: 20.2,
        256: 22.6,
        512: 25.8,
        1024: 32.8,
    },
}
"""Precision -> rows -> microseconds. (2 rows in fp32, 71.8 us, are left out: more than 128 take.)"""

ROUTER = Gemm("router", 256, 6144, "none")


def said_us(precision: str, rows: int) -> float:
    """Microseconds of the GEMM by the cost model, kernels as measured alone."""
    device = find("gb200")
    matmul = sharded(ROUTER, np.array([1]), ROUTER_BYTES[precision])
    fit = Efficiency(device, "vllm").fit("gemm", precision)
    return 1e6 * float(matmul_s(fit, Chip.of(device), matmul, np.array([float(rows)]))[0])


def main() -> None:
    """One line a number of rows."""
    heads = ["rows", "fp32 measured", "said", "tf32 measured", "said", "bf16 said"]
    lines = []
    for rows in MEASURED["fp32"]:
        cells = [
            f"{us:.1f}"
            for precision in ("fp32", "tf32")
            for us in (MEASURED[precision][rows], said_us(precision, rows))
        ]
        lines.append([str(rows), *cells, f"{said_us('bf16', rows):.1f}"])
    print(table(heads, lines))


if __name__ == "__main__":
    main()
