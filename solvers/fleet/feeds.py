"""Feeds: racks and zones whose GPUs may draw so many watts together, as rows of the fleet's model.

Sets       r in R   feeds: what each says is of some stocks
Data       feed[r]    watts of r beyond those that its GPUs draw at rest, in use or not     [W]
           more[c,r]  watts that the GPUs of a replica of c on r may draw beyond those     [W]
feed[r]    sum(c) more[c,r] * n[c]               <= feed[r]

What GPUs *may* draw is their limit, whatever they are busy with: the row holds at every moment.
"""

from __future__ import annotations

from solvers.fleet.types import Built, FleetProblem
from solvers.linear import total


def add(p: FleetProblem, b: Built) -> None:
    """Rows feed, as shares of the feed."""
    for r, watts in p.feeds.items():
        size = max(abs(watts), 1.0)
        taken = total(
            b.n[c] * (column.feeds[r] / size) for c, column in p.columns.items() if r in column.feeds
        )
        b.model.add("feed", r, taken <= watts / size)
