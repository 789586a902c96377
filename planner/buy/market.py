"""What may be had beside what is there already, as one cluster: the space that a purchase is looked for in.

A node of an offer takes so much of what a budget counts: dollars an hour, dollars, or watts. In the market's
cluster that is its price, whatever it is in. Of an offer without a number there are as many nodes as no
purchase within the limit can exceed: with B to spend and a node for p, floor(B / p). A fleet that needs more
is no answer, so that nothing is cut off, and the program stays small.

A price list is a cluster file whose entries are offers. An entry without `count` may be had as often as
wanted; one with `price_usd` is bought, and its hour costs that over the years it is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, inf
from pathlib import Path

from cluster_configs.feeds import refuse
from cluster_configs.price_list import FOLDER, Offer, PriceList, shipped
from cluster_configs.resolving import MAX_NODES, resolve
from cluster_configs.schema import Cluster, Node, ResolvedCluster
from planner.buy.money import HOURS_PER_YEAR, Measure
from planner.errors import Infeasible, InputError, nearest
from planner.reading.documents import Document, read
from planner.reading.validation import validate


@dataclass(frozen=True)
class Market:
    """Offers, each a class of its own, what a node of each takes, and the nodes that are there already."""

    offers: Mapping[str, Node]  # by the name of the class; `count` of those that are limited
    takes: Mapping[str, float]  # of the measure, one node
    usd_per_hour: Mapping[str, float | None]  # one node
    limited: frozenset[str]
    own: ResolvedCluster | None
    form: Cluster

    def most(self, name: str, limit: float) -> int:
        """No more nodes of an offer than these can be in a purchase within the limit."""
        most = min(floor(limit / self.takes[name] + 1e-9), MAX_NODES)
        return min(most, self.offers[name].count) if name in self.limited else most

    def most_nodes(self, limit: float) -> int:
        """Nodes of the market's cluster, however many that are."""
        counts = {name: floor(limit / self.takes[name] + 1e-9) for name in self.offers.keys() - self.dearer}
        return sum(min(n, self.offers[k].count) if k in self.limited else n for k, n in counts.items())

    def all_within(self, limit: float) -> bool:
        """Whether a larger limit buys no more nodes of any offer."""
        counts = {name: self.offers[name].count for name in self.limited}
        return counts == {name: self.most(name, limit) for name in self.offers}

    @cached_property
    def dearer(self) -> frozenset[str]:
        """Offers of which another one is the same node for less, in any number: no best mix has them."""
        linked = {end for link in self.form.links for end in link.between}
        least = dict[str, float]()
        for name in self.offers.keys() - self.limited:
            form = self._form(name)
            least[form] = min(self.takes[name], least.get(form, inf))
        return frozenset(
            name
            for name in self.offers
            if name not in linked and self.takes[name] > least.get(self._form(name), inf)
        )

    def only(self, names: Collection[str]) -> Market:
        """The same market with these of its offers."""
        offers = {name: node for name, node in self.offers.items() if name in names}
        return replace(self, offers=offers, limited=self.limited & offers.keys())

    def _form(self, name: str) -> str:
        """What a node of an offer is, whatever it is called and takes."""
        return self.offers[name].model_dump_json(exclude={"name", "count", "price_usd_per_hour"})

    def cluster(self, limit: float, dearer: bool = False) -> ResolvedCluster:
        """All that may be had within the limit, and what is there, by the measure; with `dearer` also what no
        best mix has. Raises Infeasible: nothing."""
        left = self.offers.keys() if dearer else self.offers.keys() - self.dearer
        counts = {name: self.most(name, limit) for name in self.offers if name in left}
        if not any(counts.values()) and self.own is None:
            raise Infeasible("no offer is that cheap", "--budget")
        return self._resolved(counts, self.takes)

    def bought(self, counts: Mapping[str, int]) -> ResolvedCluster:
        """So many nodes of each offer by what they cost an hour, if that is known, beside what is there."""
        return self._resolved(counts, self.usd_per_hour)

    def _resolved(self, counts: Mapping[str, int], prices: Mapping[str, float | None]) -> ResolvedCluster:
        own = list(self.own.source.nodes) if self.own else []
        there = [node.model_copy(update={"price_usd_per_hour": 0.0}) for node in own]
        nodes = [
            self.offers[name].model_copy(update={"count": count, "price_usd_per_hour": prices[name]})
            for name, count in counts.items()
            if count
        ]
        here = {end for node in (*there, *nodes) for end in (node.name, node.zone)}
        links = [
            *(self.own.source.links if self.own else []),
            *(link for link in self.form.links if {*link.between} <= here),
        ]
        devices = {**(self.form.devices or {}), **((self.own.source.devices or {}) if self.own else {})}
        changes = {**self.form.device_overrides, **(self.own.source.device_overrides if self.own else {})}
        name = self.own.name if self.own else self.form.name
        power = {**(self.form.energy or {}), **((self.own.source.energy or {}) if self.own else {})}
        form = Cluster(
            name=name,
            nodes=[*there, *nodes],
            links=links,
            device_overrides=changes,
            devices=devices or None,
            energy={zone: power[zone] for zone in power if zone in here} or None,
        )
        return resolve(form)


def repriced(cluster: ResolvedCluster, name: str, price: float) -> ResolvedCluster:
    """The same nodes, those of one class for another price."""
    classes = tuple(
        replace(node, price_usd_per_hour=price) if node.id == name else node for node in cluster.classes
    )
    return replace(cluster, classes=classes)


def market(
    prices: PriceList, document: Document, measure: Measure, years: float, own: ResolvedCluster | None
) -> tuple[Market, list[str]]:
    """The offers of a list, and the names of those that do not say what the measure counts. Raises
    InputError."""
    form = Cluster.model_validate(
        {**prices.model_dump(exclude={"nodes"}), "nodes": [_node(offer) for offer in prices.nodes]}
    )
    whole = resolve(form, document)
    refuse((*whole.feeds, *(own.feeds if own else ())), "purchases are planned")
    of_node = {run.stem: node for node in whole.classes for run in node.nodes.runs}
    taken = {node.name for node in own.source.nodes} if own else set()
    offers, takes, cost, limited, left_out = dict[str, Node](), {}, {}, set[str](), list[str]()
    for i, (offer, node) in enumerate(zip(prices.nodes, whole.source.nodes, strict=True)):
        name = str(node.name)
        if not offer.offered:
            continue
        if node.gpus:
            raise document.error("an offer has GPUs of one kind", ("nodes", i, "gpus"), "leave it out")
        if name in taken:
            raise InputError(f"offer `{name}` has the name of nodes that are there", "--prices", "rename one")
        price = hourly(offer, years, node.price_usd_per_hour)
        each = {"usd": offer.price_usd, "usd_per_hour": price}.get(measure)
        if measure == "watts":
            each = of_node[name].gpus_per_node * of_node[name].gpu_most_watts
        if not each:
            left_out.append(name)
            continue
        offers[name], takes[name], cost[name] = node, each, price
        if offer.count is not None:
            limited.add(name)
    if not offers:
        field = {"usd": "price_usd", "usd_per_hour": "price_usd_per_hour", "watts": "power_cap_watts"}
        what = f"no offer of `{prices.name}` says what a node costs"
        raise InputError(what, "--prices", f"add `{field[measure]}` to the offers")
    return Market(offers, takes, cost, frozenset(limited), own, form), left_out


def _node(offer: Offer) -> dict[str, object]:
    own = {*Offer.model_fields} - {*Node.model_fields}
    return {**offer.model_dump(exclude={*own, "count"}), "count": offer.count or 1}


def read_prices(name_or_path: str | Path) -> tuple[PriceList, Document]:
    """A shipped list by name, or a file's. Raises InputError."""
    text = str(name_or_path)
    path = FOLDER / f"{text}.yaml" if text in shipped() else Path(text)
    if not path.exists():
        near = ", ".join(f"`{name}`" for name in nearest(text, shipped(), 3))
        raise InputError(f"no such price list: {text}", "--prices", f"a file, or one that is shipped: {near}")
    document = read(path)
    return validate(document, PriceList), document


def hourly(offer: Offer, years: float, default: float | None) -> float | None:
    """Dollars an hour of a node: the rent, else the price over `years`, else the catalog's; None: unknown.

    >>> round(hourly(Offer(device="l4", price_usd=8766.0), 2.0, None), 3)
    0.5
    """
    if offer.price_usd_per_hour is not None:
        return offer.price_usd_per_hour
    if offer.price_usd is not None:
        return offer.price_usd / (years * HOURS_PER_YEAR)
    return default
