"""Shares of the TTFT promise that prefill and decode sides of a pair may take: where columns of a pair
begin and end.

A pair is in time where TTFT(prefill) + transfer + a decode step is within the promise. Both sides may carry
the more the more of it they take. Columns stand at edges: a prefill server at the largest load with its own
TTFT within t_k, a decode server at the largest batch with its step within s_j. A plan counts them with t_k
and s_j; the bound, whose columns stand for all loads between two edges, with the edges before, t_(k-1) and
s_(j-1). Finer edges bring the two together: `planner.search` adds them where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.candidates.mix import Promise

PARTS = (0.5,)
"""Shares of the TTFT promise at which sides that prefill have edges to begin with."""

WIDE = 0.06
"""A decode step that takes less than this share of the TTFT promise has no edges to begin with."""

STEPS = (0.5,)
"""Shares of the longest decode step at which sides that decode have edges to begin with."""


@dataclass(frozen=True)
class Edges:
    """Cautious seconds, ascending, the last the most that either side may take: `prefill` of TTFT, `decode`
    of a step. Infinite where nothing is promised."""

    prefill: tuple[float, ...]
    decode: tuple[float, ...]

    @staticmethod
    def of(promise: Promise) -> Edges:
        """To begin with."""
        whole, step = promise.ttft_s, promise.tpot_s
        if whole == float("inf"):
            return Edges((whole,), (step,))
        longest = min(step, whole)
        steps = tuple(x * longest for x in STEPS) if longest > WIDE * whole else ()
        first = {x * whole for x in PARTS} | {whole - s for s in (*steps, longest) if s < whole}
        return Edges((*sorted(first), whole), (*steps, longest))

    def before(self, seconds: float, role: str) -> float:
        """The edge before: what the bound counts of a column that stands at `seconds`."""
        own = self.prefill if role == "prefill" else self.decode
        below = [e for e in own if e < seconds]
        return below[-1] if below and seconds < float("inf") else 0.0

    def finer(self, prefill: set[float], decode: set[float]) -> Edges:
        """With more of them."""
        return replace(
            self,
            prefill=tuple(sorted({*self.prefill, *prefill})),
            decode=tuple(sorted({*self.decode, *decode})),
        )


NO_EDGES = Edges((), ())
"""Pools without pairs have these."""
