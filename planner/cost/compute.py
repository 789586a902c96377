"""Seconds of one kernel: the roofline with a smooth corner that all fits share, GEMMs, and bandwidth-bound
glue.

All quantities are arrays over operating points, shape (n,), or scalars; SI units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import Gemm
from planner.cost.efficiency.reading import Chip, Fit
from planner.designs.shape import Floats, Ints

ACTIVATION_BYTES = {"fp4": 0.5625, "fp8": 1.0, "int8": 1.0}
"""Bytes of one activation inside a GEMM run at that rate; two otherwise."""


SPLIT = 32.0
"""Rows from which such a GEMM no longer divides its inputs: of 6144 inputs and 256 outputs in fp32, 8 rows
take 17 us on a GB200, 16 take 22, and 32 to 128 take 63 to 69 (vllm-project/vllm pull request 47973)."""


@dataclass(frozen=True)
class Work:
    """What one kernel does on one GPU: FLOPs, bytes to and from memory, and items of fixed cost each."""

    flops: Floats
    bytes: Floats
    items: Floats


def kernel_s(
    fit: Fit, chip: Chip, work: Work, busy: NDArray[np.bool_], beside_s: Floats | float = 0.0
) -> Floats:
    """Seconds of a kernel: t0 + N(flops/(compute*peak), bytes/(memory*bandwidth), items*tau; p) and what goes
    on `beside_s`, 0 where not `busy`.

    Never faster than the device, nor are its FLOPs with all that than the best product that was measured.
    """
    peak, _ = chip.peak(fit.peak)
    terms: tuple[Floats, ...] = (
        work.flops / (fit.compute * peak),
        work.bytes / (fit.memory * chip.bytes_per_s),
    )
    if fit.tau_s:
        terms += (work.items * fit.tau_s,)
    floor = np.maximum(work.flops / peak, work.bytes / chip.bytes_per_s)
    t = fit.t0_s + np.maximum(pnorm(fit.p, *terms), floor) + beside_s
    return np.where(busy, np.maximum(t, work.flops / chip.most(fit.peak)), 0.0)


def pnorm(p: float, *terms: Floats) -> Floats:
    """(sum of terms^p)^(1/p) without overflow: the largest term for large p, their sum for p = 1.

    >>> float(pnorm(2.0, np.array([3.0]), np.array([4.0]))[0])
    5.0
    """
    largest = reduce(np.maximum, terms)
    if p >= 15:  # within 5 % of the maximum
        return largest
    if p == 1:
        return reduce(np.add, terms)
    unit = np.maximum(largest, 1e-30)
    if len(terms) == 2:  # one of the shares is one
        total = 1 + np.power(np.minimum(*terms) / unit, p)
    else:
        total = reduce(np.add, [np.power(term / unit, p) for term in terms])
    return np.asarray(largest * np.power(total, 1 / p))


@dataclass(frozen=True)
class Matmul:
    """A GEMM as one rank runs it: `n` outputs of `k` inputs (by design), stored in so many bytes a weight;
    `quantised`: the inputs are so already."""

    n: Floats
    k: Floats
    weight_bytes: float
    quantised: bool = False

    def work(self, m: Floats, activation_bytes: float = 2.0) -> Work:
        """FLOPs and bytes of `m` rows: 2mnk FLOPs; the weights once, inputs, and outputs in 16 bits."""
        weights = self.n * self.k * self.weight_bytes
        return Work(
            2 * m * self.n * self.k, weights + m * self.k * activation_bytes + 2 * m * self.n, m * 0.0
        )


def sharded(gemm: Gemm, ways: Ints, weight_bytes: float, quantised: bool = False) -> Matmul:
    """`gemm` on one of `ways` ranks: outputs or inputs divided, or whole.

    >>> sharded(Gemm("o", 8, 4, "in"), np.array([2]), 2.0).k
    array([2.])
    """
    n = gemm.n / ways if gemm.split == "out" else np.full(len(ways), float(gemm.n))
    k = gemm.k / ways if gemm.split == "in" else np.full(len(ways), float(gemm.k))
    return Matmul(n, k, weight_bytes, quantised)


def matmul_s(fit: Fit, chip: Chip, matmul: Matmul, m: Floats) -> Floats:
    """Seconds of `m` rows through `matmul`; no rows, no time.

    kernel_s + m*k*(2 + activation bytes)/(quantise*bandwidth) where it quantises them itself. Error: 5-15 %
    median on measured devices. A precision without tensor cores of its own is weights-only: FLOPs at the next
    wider rate, the weights keep their bytes. A fit with `tau` sums the inputs one after the other (`serial`).
    """
    activation = ACTIVATION_BYTES.get(chip.peak(fit.peak)[1], 2.0)
    work = matmul.work(m, activation)
    quantising_s: Floats | float = 0.0
    if fit.quantise and activation < 2 and not matmul.quantised:
        quantising_s = m * matmul.k * (2 + activation) / (fit.quantise * chip.bytes_per_s)
    work = replace(work, items=serial(matmul.k, m)) if fit.tau_s else work
    return kernel_s(fit, chip, work, m > 0, quantising_s)


def serial(k: Floats, m: Floats) -> Floats:
    """Of `k` inputs those that a GEMM without a kernel of its own for few rows adds one after the other: with
    `m` < SPLIT rows the library divides them among blocks.

    >>> serial(np.array([6144.0]), np.array([128.0])), serial(np.array([6144.0]), np.array([8.0]))
    (array([6144.]), array([96.]))
    """
    return np.asarray(k * np.minimum(m / SPLIT, 1.0) ** 3)


def glue_s(fit: Fit, chip: Chip, moved_bytes: Floats, kernels: float) -> Floats:
    """Seconds of `kernels` small kernels that move `moved_bytes` in all: norms, rotary embedding,
    activations."""
    t = kernels * fit.t0_s + moved_bytes / (fit.memory * chip.bytes_per_s)
    return np.where(moved_bytes > 0, t, 0.0)
