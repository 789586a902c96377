"""Small tiers problems: one by hand, many at random."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from solvers.tiers.types import Line, TiersProblem

COLUMNS = (("weights", "gpu"), ("weights", "cpu"), ("cache", "gpu"), ("cache", "cpu"))
BUSY = (("decode", "link"), ("decode", "compute"))
FITS = (("gpu", "decode"), ("cpu", "decode"))


def line(key=1, tokens=1.0, most=4, link=1.0):
    """A layer of 8 GB of weights and 1 GB of cache a batch, a link of 1 GB/s; a batch computes for 1 s."""
    none = [[[8 / link, 8 / link, 0, 0, 0], [0, 0, 0, 0, 0]], [[0] * 5, [0] * 5]]
    none[0][0][0] = 0.0
    each = [[[0, 0, 0, 1 / link, 0], [0, 0, 0, 0, 0]], [[0] * 5, [0, 0, 0, 0, 1.0]]]
    held = [[[8, 0, 0, 0, 0], [0, 8, 0, 0, 0]], [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]]
    pieces = {"weights": (4, 0), "cache": (0, 1)}
    return Line(key, tokens, np.array([none, each], float), np.array(held, float), most, pieces)


SMALL = TiersProblem(
    columns=COLUMNS,
    busy=BUSY,
    times={"decode": 1.0},
    fits=FITS,
    room={"gpu": 6.0, "cpu": 8.0},
    rate={"link": 1.0, "compute": 1.0},
    lines=[line()],
)
"""By hand, with k batches: weights w on the GPU and c GB of cache there leave max(8 - w + k - c, k) seconds
with w + c <= 6 and 8 - w + k - c <= 8: 2 + k seconds, so k / (2 + k) tokens/s: 2/3 at 4 batches."""


@st.composite
def problems(draw, tensors=("weights", "cache", "activations"), tiers=("gpu", "cpu", "disk")):
    """Two phases, one to three lines of up to six batches; often tight, at times too small."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = [(q, t) for q in tensors for t in tiers]
    busy = [("prefill", "a"), ("prefill", "b"), ("decode", "a"), ("decode", "b"), ("decode", "c")]
    fits = [(t, moment) for t in tiers for moment in ("prefill", "decode")]
    lines = [random_line(rng, len(columns), len(busy), len(fits), key) for key in range(rng.integers(1, 4))]
    room = {
        t: float(x)
        for t, x in zip(tiers, rng.uniform(0.1, 1.0, len(tiers)) * [4, 8, 12][: len(tiers)], strict=True)
    }
    times = {"prefill": 1.0, "decode": float(rng.uniform(0.5, 20))}
    pieces = {q: (int(rng.integers(1, 5)), int(rng.integers(0, 2))) for q in tensors}
    lines = [replace(line, pieces=pieces) for line in lines]
    return TiersProblem(columns, busy, times, fits, room, {"first": 1.0, "second": 3.0}, lines)


def random_line(rng, columns, busy, fits, key):
    """Half of the coefficients are zero, as in what it stands for."""

    def some(*shape):
        return rng.uniform(0, 1, shape) * (rng.uniform(0, 1, shape) < 0.5)

    seconds, held = some(2, 2, busy, columns + 1), some(2, fits, columns + 1)
    seconds[..., -1] += 0.05
    held[..., -1] *= 0.2
    return Line(key, float(rng.uniform(1, 3)), seconds, held, int(rng.integers(1, 7)))
