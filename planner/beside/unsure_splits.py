"""Splits of prefill and decode that measured ones give little reason to trust: those for a small gain.

Plans have such splits where the best itself was asked for (`--simple 0`); what is known of them:
planner/search/splits.py. A split over what none was measured to win over (PCIe, Ethernet) is among the plan's
evidence: planner/plans/evidence.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.beside.alternatives import UNSPLIT
from planner.objectives import Objective
from planner.plans.found import Found
from planner.plans.schema import Alternative, PlanWarning
from planner.search.splits import APART, SURE, gain_of


def unsure_splits(found: Found, objective: Objective, others: Iterable[Alternative]) -> list[PlanWarning]:
    """A warning where a fleet splits for little; `others`: fleets beside it, that without a split among
    them."""
    if all(found.candidates[c].role == "mixed" for c, _ in found.solution.flows):
        return []
    return [PlanWarning(code="split_unsure", message=message) for message in _small(found, objective, others)]


def _small(found: Found, objective: Objective, others: Iterable[Alternative]) -> Iterator[str]:
    """That the fleet without a split is nearly as good; nothing where it is not, or none is known."""
    own = found.solution.objective
    for line in others:
        if UNSPLIT in line.what.split(", ") and line.objective and own and objective.spends not in APART:
            gain = gain_of(objective, own, line.objective)
            if gain <= 1:  # a plan of fewer kinds may be a little worse than one without a split
                yield f'a prefill/decode split brings nothing here: "{line.what}" is the safer choice'
                return
            if gain <= SURE:
                yield (
                    f"a prefill/decode split is predicted to bring {100 * (gain - 1):.2g} %: in public "
                    f"comparisons gains predicted below {100 * (SURE - 1):.0f} % were not worth it; "
                    f'"{line.what}" is the safer choice'
                )
                return
