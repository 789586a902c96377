"""What one more of each limit would bring: solved again with it, from the same start; LP duals only as
"marginal"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from planner.beside.cache_worth import memory_tries
from planner.beside.feed_prices import feed_prices
from planner.beside.planned import Planned
from planner.inputs.options import Budget
from planner.plans.found import Found
from planner.plans.schema import Price
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import EXACT, Limits

BUDGET_STEP = 0.1
"""How much more of a budget is tried."""

PART = 0.05
"""Of what one more can be worth, which a solve may leave open."""

STEPS = {
    "usd_per_hour": lambda x: f"${x:,.2f}/h",
    "gpus": lambda x: f"{x:g} GPUs",
    "watts": lambda x: f"{x:,.4g} W",
}
"""A budget's step in words."""


def prices(planned: Planned) -> list[Price]:
    """One more node of each class, a tenth more of each budget and feed, and a GB more on each GPU; the
    most valuable first."""
    budget = planned.asked.options.budget
    found = priced(planned.found, planned.limits, budget, memory_tries(planned))
    return sorted([*found, *feed_prices(planned)], key=lambda p: -p.worth)


def node_prices(planned: Planned) -> list[Price]:
    """One more node of each class and a tenth more of each budget; the most valuable first."""
    return priced(planned.found, planned.limits, planned.asked.options.budget)


def priced(
    found: Found, limits: Limits, budget: Budget, more: Iterable[tuple[FleetProblem, str, str]] = ()
) -> list[Price]:
    """Prices of nodes, of each `budget` that was asked for (others only cut the search short), and of what
    `more` states as problems, limits and steps, the most valuable first; none of what nothing is known of."""
    space, marginal = found.space, fleet.marginals(found.space, limits)
    tries: list[tuple[FleetProblem, str, str, float | None]] = []
    for node in found.cluster.classes:
        stock = space.stocks[node.id]
        larger = replace(space, stocks={**space.stocks, node.id: replace(stock, nodes=stock.nodes + 1)})
        gpus = f"{node.gpus_per_node} GPUs" if node.gpus_per_node > 1 else "1 GPU"
        one = f"{gpus} ({f'of this kind in a node as {node.box}' if node.box else 'a node'})"
        tries.append((larger, f"nodes {node.id}", one, marginal.get(("nodes", node.id))))
    asked_for = budget.model_dump(exclude_none=True)
    for name in asked_for:
        step = BUDGET_STEP * space.budget[name]
        larger = replace(space, budget={**space.budget, name: space.budget[name] + step})
        tries.append((larger, f"budget {name}", STEPS[name](step), marginal.get(("budget", name))))
    tries += [(*one, None) for one in more]
    base = Base(found, replace(limits, seconds=limits.seconds / max(len(tries), 1)), bool(asked_for))
    unit, made = found.objective.unit, list[Price]()
    for problem, limit, one, dual in tries:
        worth, known = _worth(base, problem), None if dual is None else abs(dual)
        if worth is not None:
            made.append(Price(limit=limit, one_more=one, worth=worth, unit=unit, marginal=known))
    return sorted(made, key=lambda p: -p.worth)


@dataclass(frozen=True)
class Base:
    """What one more is compared with: the plan's own problem as it stands, with the kinds of replica that
    the plan may have. `limits`: of each solve; `budgeted`: whether a budget was asked for."""

    found: Found
    limits: Limits
    budgeted: bool

    @cached_property
    def relaxed(self) -> float | None:
        """What no fleet beats."""
        return fleet.relaxed(self.found.space, self.limits)

    @cached_property
    def best(self) -> FleetSolution:
        """The plan's fleet where it is proven to be the best, else one as good or better if it is found: what
        the plan gives up, for few kinds or within the gap asked for, is not what one more is worth. Raises
        KeyboardInterrupt."""
        s = self.found.solution
        if s.status == "optimal":
            return s
        closer = replace(self.limits, gap=self.limits.gap / 2)
        ours = fleet.solve(self.found.space, closer, None if s.among else s.point).unbroken()
        worse = ours.objective is None or self.gain(ours.objective, s.objective)
        return s if worse else ours

    @property
    def size(self) -> float:
        assert self.found.solution.objective is not None
        return abs(self.found.solution.objective)

    @property
    def loose(self) -> bool:
        """Whether a budget was asked for and the relaxation is far beyond the bound on whole nodes: it has
        parts of nodes that the budget does not pay whole, and hides what others are worth."""
        bound = self.found.solution.bound
        if not self.budgeted or self.relaxed is None or bound is None:
            return self.budgeted
        return self.gain(bound, self.relaxed) > 2 * self.limits.gap * abs(bound)

    def gain(self, one: float | None, other: float | None) -> float:
        """How much better the other objective is, by more than rounding; 0 where it is not, or one is not
        known."""
        if one is None or other is None:
            return 0.0
        better = -self.found.objective.sign * (other - one)
        return better if better > EXACT * self.size else 0.0


def _worth(base: Base, more: FleetProblem) -> float | None:
    """How much better the objective gets, >= 0, solved again to a `PART` of what it can be; None where the
    time for that was over before anything better was found, which says nothing of what it is worth.

    The relaxations, without and with `more`, say how much that is. Where it is less than the gap that solves
    leave open, they are the answer: on a large cluster they miss little. Where they are loose, fleets of
    whole nodes are the answer if they differ by more than both gaps; not those of other candidates, which
    differ by more than what is added.
    """
    s, limits, size, before = base.found.solution, base.limits, base.size, base.relaxed
    after = fleet.relaxed(more, limits)
    step = base.gain(before, after)
    if after is not None and not base.gain(s.objective, after):
        return 0.0  # not even a fraction of a replica more would help
    same = more.columns is base.found.space.columns
    sure = s.status == "optimal" or step > 2 * limits.gap * size
    related = step if before is not None and after is not None else None
    if not sure and not (same and base.loose):
        return related
    larger = max(abs(after) if after is not None else size, size)
    start = base.best.point if same and not base.best.among else None
    closer = replace(limits, gap=max(limits.gap / 2, PART * step / larger))
    again = fleet.solve(more, closer, start).unbroken()
    gain = base.gain(base.best.objective, again.objective)
    if not sure:
        return gain if gain > max(step, 2 * limits.gap * size) else related
    return None if not gain and again.status == "time_limit" else gain
