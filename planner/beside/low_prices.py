"""Prices that nobody gave and of which the list of prices says that most pay more."""

from __future__ import annotations

from cluster_configs.price_list import Offer, usual_price
from cluster_configs.schema import NodeClass
from planner.plans.found import Found
from planner.plans.schema import PlanWarning
from planner.question.asked import Asked

PRICES = "cluster.nodes.price_usd_per_hour"


def low_prices(asked: Asked, found: Found) -> list[PlanWarning]:
    """Return a warning per device in use whose default price is a low bound, where prices decide."""
    decides = asked.objective.name == "cost" or asked.options.budget.usd_per_hour is not None
    if not decides or PRICES not in asked.cluster.defaulted:
        return []
    used = {name for c in found.solution.replicas for name, _ in found.candidates[c].blocks}
    low = {n.device.name: offer for n in asked.cluster.classes if n.id in used and (offer := low_offer(n))}
    return [PlanWarning(code="price_low", message=_message(name, offer)) for name, offer in low.items()]


def low_offer(node: NodeClass) -> Offer | None:
    """Return the offer that a node has its price from, where that is a low bound; None for other prices."""
    listed = usual_price(node.device.name)
    if listed is None or not listed.low_bound or node.price_usd_per_hour is None:
        return None
    each = listed.price_usd_per_gpu_hour or 0.0
    return listed if node.price_usd_per_hour == round(node.gpus_per_node * each, 6) else None


def _message(device: str, offer: Offer) -> str:
    return (
        f"the default price of {device}, ${offer.price_usd_per_gpu_hour:g} per GPU and hour, is a low bound "
        f"({offer.source}): write `price_usd_per_hour` of your nodes"
    )
