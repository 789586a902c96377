"""What a tenth more of what a rack or zone may draw is worth: by relaxations over all candidates, as those
that fleets near the best one run are at its limits, and what more watts bring is at higher ones.
"""

from __future__ import annotations

from dataclasses import replace

from planner.beside.planned import Planned
from planner.plans.schema import Price
from planner.question.posed import pooled
from solvers import fleet

STEP = 0.1
"""How much more of a feed is tried."""


def feed_prices(planned: Planned) -> list[Price]:
    """One for each feed; none where a relaxation has no answer in time."""
    feeds = {feed.name: feed for feed in planned.asked.cluster.feeds}
    if not feeds:
        return []
    pool, question = pooled(planned.asked)
    problem, found = question.state(pool, "bound"), list[Price]()
    limits = replace(planned.limits, seconds=planned.limits.seconds / (len(feeds) + 2))
    before, marginal = fleet.relaxed(problem, limits), fleet.marginals(problem, limits)
    for name, most in problem.feeds.items():  # in one order, however they are written
        feed = feeds[name]
        watts = {**problem.feeds, name: most + STEP * feed.watts}
        after = fleet.relaxed(replace(problem, feeds=watts), limits)
        if before is None or after is None:
            continue
        found.append(
            Price(
                limit=f"power of {name}",
                one_more=f"{STEP * feed.watts:,.4g} W",
                worth=max(question.sign * (before - after), 0.0),
                unit=planned.found.objective.unit,
                marginal=marginal.get(("feed", name), 0.0),
            )
        )
    return found
