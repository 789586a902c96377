"""What a column costs at any load, from below: lines that the fleet's program may add up.

Watts and latency depend on how busy a server is, and that is the program's to choose. Each column is asked
at some loads; through each goes the line that touches there, moved down where it would lie above another
one. The largest of the lines is then never more than the true cost, and equal to it where that bends
upwards:

    watts       W(u)        >= a_k + slope_k R u                                   R [1/s] at u = 1
    latency     Σ f_w L_w(u) >= Σ f_w [L_w(u_k) + R u_k L'_k use_w] - R u_k² L'_k     L' the mean slope

u the share of the column's load, u = Σ use_w f_w a replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.points import Points, batched, draw, prefilling
from planner.cost.shape import Floats
from planner.inputs.options import Objective

if TYPE_CHECKING:
    from planner.candidates.offers import Offer

SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0])
"""Of a column's load at which it is asked."""


@dataclass(frozen=True)
class Tangents:
    """`a` (m, k) and `b` (m, k, w): n replicas with f_w requests/s cost a n + Σ b_w f_w at least."""

    a: Floats
    b: Floats

    def named(self, i: int, buckets: list[int]) -> tuple[tuple[float, dict[str, float]], ...]:
        """Those of column `i`, by bucket."""
        return tuple(
            (float(a), {str(w): float(b[w]) for w in buckets})
            for a, b in zip(self.a[i], self.b[i], strict=True)
        )


def tangents_of(offer: Offer, objective: Objective, watts_limited: bool) -> Tangents | None:
    """Of latency where that is minimised, of watts where they count; None: neither does."""
    if objective == "latency":
        return _latency(offer)
    return _watts(offer) if objective == "energy" or watts_limited else None


def _asked(offer: Offer) -> list[Points]:
    """The columns at each of SHARES of their load."""
    s, points = offer.setup, offer.points
    if offer.role == "prefill" or s.mix.steps == 0:
        return [prefilling(s, points.index, share * points.load) for share in SHARES]
    return [batched(s, points.index, share * points.sequences, offer.role) for share in SHARES]


def _full(offer: Offer) -> tuple[Floats, Floats]:
    """Shares (m, w) of a replica's load that one request/s fills, 0 where it is not served, and requests/s
    (m,) of the mix that fill it."""
    use = offer.least.max(axis=1)
    use = np.where(np.isfinite(use), use, 0.0)
    share = np.where(use > 0, offer.setup.mix.share, 0.0)
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-30)
    return use, 1 / np.maximum((use * share).sum(axis=1), 1e-30)


def _watts(offer: Offer) -> Tangents:
    role = "prefill" if offer.setup.mix.steps == 0 else offer.role
    asked = _asked(offer)
    watts = np.stack([draw(offer.setup, p, role) for p in asked], axis=1)
    ranks = offer.designs.attn_dp
    rate = np.stack([p.rate * ranks for p in asked], axis=1)
    slope = np.maximum(_slopes(watts, rate), 0.0)
    a = _below(watts - slope * rate, slope, rate, watts)
    use, full = _full(offer)
    return Tangents(a, slope[:, :, None] * (use * full[:, None])[:, None, :])


def _latency(offer: Offer) -> Tangents:
    s, asked = offer.setup, _asked(offer)
    each = np.stack([_seconds(offer, p) for p in asked], axis=1)  # (m, k, w)
    use, full = _full(offer)
    share = np.where(use > 0, s.mix.share, 0.0)
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-30)
    mean = (each * share[:, None, :]).sum(axis=2)
    level = np.stack([p.rate * offer.designs.attn_dp for p in asked], axis=1) / full[:, None]
    steeper = np.maximum(_slopes(mean, level), 0.0)  # seconds by level
    b = each + (full[:, None] * level * steeper)[:, :, None] * use[:, None, :]
    rate = full[:, None] * level
    slope = (b * share[:, None, :]).sum(axis=2)
    a = _below(-full[:, None] * level**2 * steeper, slope, rate, rate * mean)
    return Tangents(a, b)


def _seconds(offer: Offer, p: Points) -> Floats:
    """What a request of each bucket waits at the column, (m, w): to its first token, and for its tokens."""
    s = offer.setup
    if offer.role == "prefill":
        sent = np.where(np.isfinite(offer.handed.s), offer.handed.s, 0.0)
        return p.ttft_s + np.maximum(sent - offer.handed.hidden_s, sent * offer.handed.last)
    first = p.tpot_s if offer.role == "decode" else p.ttft_s
    return np.asarray(first + s.mix.osl * np.where(s.mix.osl > 1, p.tpot_s, 0.0))


def _slopes(y: Floats, x: Floats) -> Floats:
    """dy/dx (m, k) at samples (m, k) that ascend in x: of the chord between both neighbours."""
    out, step = np.empty_like(y), np.maximum(np.diff(x, axis=1), 1e-30)
    chords = np.diff(y, axis=1) / step
    out[:, 0], out[:, -1] = chords[:, 0], chords[:, -1]
    before, after = step[:, :-1], step[:, 1:]
    out[:, 1:-1] = (chords[:, :-1] * after + chords[:, 1:] * before) / (before + after)
    return out


def _below(a: Floats, slope: Floats, x: Floats, y: Floats) -> Floats:
    """Intercepts `a` (m, k) of lines with `slope`, lowered so that none lies above a sample (x, y)."""
    lines = a[:, :, None] + slope[:, :, None] * x[:, None, :]
    return np.asarray(a - np.maximum((lines - y[:, None, :]).max(axis=2), 0.0))
