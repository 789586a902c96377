"""How requests come over time: a rate a slot, and how far counts of short windows spread around it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from planner.errors import Misplaced
from planner.inputs.reuse import Share, Strict

Rate = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


TOPS = ("peak_rps", "needed_rps")
"""Fields of what slots have beyond their mean."""


class Dispersion(Strict):
    """Variance over mean of the counts of requests in windows of `window_s`, around the rate of their slot:
    1 where they come at random (Poisson)."""

    window_s: Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
    index: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Traffic(Strict):
    """Requests/s of slots of `slot_s` seconds that follow each other, `rate_rps` their means; `peak_rps`: of
    the busiest minute of each, where it is known; `needed_rps`: that a queue of each needs so that the
    workload's percentile of requests waits no longer than half its limit on TTFT; `shares`: of each bucket
    in each slot, where lengths are other ones by the hour (none where they are the same)."""

    slot_s: Annotated[float, Field(ge=1, le=1e7, allow_inf_nan=False)]
    rate_rps: Annotated[list[Rate], Field(min_length=1, max_length=100_000)]
    peak_rps: list[Rate] = []
    needed_rps: list[Rate] = []
    dispersion: list[Dispersion] = []
    shares: list[list[Share]] = []

    def scaled(self, by: float) -> Traffic:
        """Of `by` times as many users: rates and minutes grow with them, and what a queue needs beyond its
        mean with their root, as bursts of seconds are each user's own (counts as dispersed as before)."""
        more = {name: [by * x for x in getattr(self, name)] for name in ("rate_rps", "peak_rps")}
        beyond = zip(self.rate_rps, self.needed_rps, strict=False)
        queues = [by * mean + by**0.5 * (need - mean) for mean, need in beyond]
        return self.model_copy(update={**more, "needed_rps": queues})

    @model_validator(mode="after")
    def _a_peak_a_slot(self) -> Traffic:
        for name in TOPS:
            if (top := getattr(self, name)) and len(top) != len(self.rate_rps):
                raise Misplaced(f"`{name}` has {len(top)} slots, `rate_rps` {len(self.rate_rps)}", name)
        if self.shares and len(self.shares) != len(self.rate_rps):
            text = f"`shares` has {len(self.shares)} slots, `rate_rps` {len(self.rate_rps)}"
            raise Misplaced(text, "shares")
        for t, row in enumerate(self.shares):
            if len(row) != len(self.shares[0]) or abs(sum(row) - 1) > 0.01:
                text = f"shares of slot {t} add up to {sum(row):g}, or are not as many as those of slot 0"
                raise Misplaced(text, "shares", t)
        if not any(self.rate_rps):
            raise Misplaced("no slot has any requests", "rate_rps")
        return self
