"""Price lists: offers of nodes with price, source and date, and the price of a device that follows from them.

A list is a cluster file whose entries are offers. An entry without `count` may be had as often as wanted.
`rented` is what devices cost where a cluster does not say, so that catalog, `buy` and `schedule` agree.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cluster_configs.schema import Cluster, Count, Node, Positive
from planner.reading.documents import read
from planner.reading.validation import validate

FOLDER = Path(__file__).parent / "prices"
"""Lists that are shipped."""

USUAL = "rented"
"""The list from which devices have their prices; the default of `buy`."""


class Offer(Node):
    """Nodes that may be had, each for a price."""

    count: Count | None = None  # type: ignore[assignment]  # None: as many as wanted
    price_usd: Positive | None = None  # of a node that is bought
    source: str | None = None  # where the price stands
    date: str | None = None  # when it stood there
    low_bound: bool = False  # most pay more
    offered: bool = True  # False: a level of prices, not nodes that can be had

    @property
    def price_usd_per_gpu_hour(self) -> float | None:
        """The rent of one of its GPUs; None where it is not for rent."""
        if self.price_usd_per_hour is None or self.gpus_per_node is None:
            return None
        return round(self.price_usd_per_hour / self.gpus_per_node, 6)


class PriceList(Cluster):
    """Offers, and where they stand: links as in a cluster."""

    nodes: Annotated[list[Offer], Field(min_length=1)]  # type: ignore[assignment]


def shipped() -> list[str]:
    """Return the names of the lists that come along."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def usual_price(device: str) -> Offer | None:
    """Return the offer that gives a device of the catalog its price; None: the list has none.

    The cheapest per GPU that is not a low bound, else the cheapest low bound.

    >>> [(o.name, o.price_usd_per_gpu_hour) for d in ("l40s", "h100-sxm") if (o := usual_price(d))]
    [('nebius-l40s', 1.5484), ('hyperstack-8xh100', 2.4)]
    """
    priced = [o for o in _usual().nodes if o.device == device and o.price_usd_per_gpu_hour]
    return min(priced, key=lambda o: (o.low_bound, o.price_usd_per_gpu_hour), default=None)


@cache
def _usual() -> PriceList:
    return validate(read(FOLDER / f"{USUAL}.yaml"), PriceList)
