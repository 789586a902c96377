"""What may be had beside what is there already, as one cluster: the space that a purchase is looked for in.

Of an offer without a number there are as many nodes as no purchase within the limits can exceed: with B
dollars an hour to spend and a node for p dollars, floor(B / p). A fleet that needs more is no answer, so that
nothing is cut off, and the program stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

from cluster_configs.resolving import MAX_NODES, resolve
from cluster_configs.schema import Cluster, Node, ResolvedCluster
from planner.buy.money import HOURS_PER_YEAR, Money
from planner.buy.prices import Offer, PriceList, hourly
from planner.cost.power import idle_watts
from planner.errors import InputError
from planner.reading.documents import Document


@dataclass(frozen=True)
class Market:
    """Offers with their hourly prices, each a class of its own, and the nodes that are there already."""

    name: str
    offers: Mapping[str, Node]  # by the name of the class; `count` of those that are limited
    price: Mapping[str, float]  # dollars an hour of a node
    limited: frozenset[str]
    own: ResolvedCluster | None
    form: Cluster
    document: Document

    def most(self, name: str, usd_per_hour: float | None, watts: float | None) -> int:
        """No more nodes of an offer can be in a purchase of so many dollars an hour, or watts."""
        node, price = self.offers[name], self.price[name]
        most = node.count if name in self.limited else MAX_NODES
        if usd_per_hour is not None and price > 0:
            most = min(most, floor(usd_per_hour / price + 1e-9))
        if watts is not None:
            gpus = node.gpus_per_node or 1
            most = min(most, floor(watts / (gpus * self.idle(name))))
        return max(min(most, MAX_NODES), 0)

    def idle(self, name: str) -> float:
        """Watts that a GPU of an offer draws at least."""
        device = next(c.device for c in self.resolved({name: 1}, own=False).classes)
        return idle_watts(device.tdp_watts)

    def cluster(self, usd_per_hour: float | None, watts: float | None) -> ResolvedCluster:
        """All that may be had within the limits, and what is there. Raises InputError: nothing."""
        counts = {name: self.most(name, usd_per_hour, watts) for name in self.offers}
        if not any(counts.values()) and self.own is None:
            cheapest = min(self.price.values())
            raise InputError(
                "no offer is that cheap", "--budget", f"the cheapest node costs ${cheapest:,.4g}/h"
            )
        return self.resolved(counts)

    def resolved(
        self, counts: Mapping[str, int], own: bool = True, free: Sequence[str] = ()
    ) -> ResolvedCluster:
        """So many nodes of each offer as a cluster, beside what is there; those of `free` are free."""
        there = (
            [node.model_copy(update={"price_usd_per_hour": 0.0}) for node in self._own_nodes] if own else []
        )
        nodes = [
            self.offers[name].model_copy(
                update={"count": count, "price_usd_per_hour": 0.0 if name in free else self.price[name]}
            )
            for name, count in counts.items()
            if count
        ]
        links = [*(self.own.source.links if own and self.own else []), *self.form.links]
        devices = {**(self.form.devices or {}), **((self.own.source.devices or {}) if self.own else {})}
        form = Cluster(
            name=self.name,
            nodes=[*there, *nodes],
            links=links,
            device_overrides=self.form.device_overrides,
            devices=devices or None,
        )
        return resolve(form)

    @property
    def _own_nodes(self) -> list[Node]:
        return [] if self.own is None else list(self.own.source.nodes)


def repriced(cluster: ResolvedCluster, name: str, price: float) -> ResolvedCluster:
    """The same nodes, those of one class for another price."""
    classes = tuple(
        replace(node, price_usd_per_hour=price) if node.id == name else node for node in cluster.classes
    )
    return replace(cluster, classes=classes)


def market(
    prices: PriceList, document: Document, money: Money, years: float, own: ResolvedCluster | None
) -> tuple[Market, list[str]]:
    """The offers of a list, and the names of those that have no price of the kind that `money` asks for.
    Raises InputError."""
    form = Cluster.model_validate(
        {**prices.model_dump(exclude={"nodes"}), "nodes": [_node(offer) for offer in prices.nodes]}
    )
    whole = resolve(form, document)
    taken = {node.name for node in own.source.nodes} if own else set()
    offers, cost, limited, left_out = dict[str, Node](), dict[str, float](), set[str](), list[str]()
    for offer, node in zip(prices.nodes, whole.source.nodes, strict=True):
        name = str(node.name)
        if name in taken:
            raise InputError(f"offer `{name}` has the name of nodes that are there", "--prices", "rename one")
        price = hourly(offer, years, node.price_usd_per_hour)
        if money.usd is not None:
            price = None if offer.price_usd is None else offer.price_usd / (years * HOURS_PER_YEAR)
        if price is None:
            left_out.append(name)
            continue
        offers[name], cost[name] = node, price
        if offer.count is not None:
            limited.add(name)
    if not offers:
        what = "price_usd, which a budget in dollars needs" if money.usd is not None else "price"
        raise InputError(f"no offer of `{prices.name}` has a {what}", "--prices", "add it to the offers")
    return Market(prices.name, offers, cost, frozenset(limited), own, form, document), left_out


def _node(offer: Offer) -> dict[str, object]:
    return {**offer.model_dump(exclude={"price_usd", "count"}), "count": offer.count or 1}
