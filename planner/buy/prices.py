"""Price lists: a cluster file whose entries are offers. An entry without `count` may be had as often as
wanted; one with `price_usd` is bought, and its hour costs that over the years it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from cluster_configs.schema import Cluster, Count, Node, Positive
from planner.buy.money import HOURS_PER_YEAR
from planner.errors import InputError, nearest
from planner.reading.documents import Document, read
from planner.reading.validation import validate

FOLDER = Path(__file__).parents[2] / "cluster_configs" / "prices"
"""Lists that are shipped."""


class Offer(Node):
    """Nodes that may be had, each for a price."""

    count: Count | None = None  # type: ignore[assignment]  # None: as many as wanted
    price_usd: Positive | None = None  # of a node that is bought


class PriceList(Cluster):
    """Offers, and where they stand: links as in a cluster."""

    nodes: Annotated[list[Offer], Field(min_length=1)]  # type: ignore[assignment]


def shipped() -> list[str]:
    """Names of the lists that come along."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


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
