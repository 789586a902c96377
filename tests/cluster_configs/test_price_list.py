"""One list of prices: what a node costs in `plan` and `schedule` is what `buy` may have it for."""

from __future__ import annotations

import pytest

from cluster_configs.devices import find, names
from cluster_configs.price_list import FOLDER, PriceList, usual_price
from cluster_configs.reading import from_gpus
from planner.buy.market import market, read_prices
from planner.reading.documents import read
from planner.reading.validation import validate

RENTED = validate(read(FOLDER / "rented.yaml"), PriceList).nodes


@pytest.mark.parametrize("offer", RENTED, ids=lambda o: o.name)
def test_each_price_has_a_device_a_source_and_a_date(offer):
    assert find(offer.device).name == offer.device  # under its catalog name: else its device had no price
    assert offer.source
    assert offer.date
    assert offer.gpus_per_node
    assert offer.price_usd_per_gpu_hour


@pytest.mark.parametrize("name", names())
def test_no_offer_that_is_no_low_bound_is_cheaper_than_the_default(name):
    own = find(name).price_usd_per_gpu_hour
    listed = [o.price_usd_per_gpu_hour for o in RENTED if o.device == name and not o.low_bound]

    assert own == min(listed) if listed else own is None or usual_price(name).low_bound


def test_an_l40s_costs_the_same_in_plan_and_in_buy():
    """The marketplace's 0.44 is listed as a low bound, and neither takes it."""
    (node,) = from_gpus("1xL40S").classes
    offers, _ = market(*read_prices("rented"), "usd_per_hour", 4.0, None)

    assert node.price_usd_per_hour == 1.5484
    assert [offers.takes[o] for o, n in offers.offers.items() if n.device == "l40s"] == [1.5484]
    assert min(o.price_usd_per_gpu_hour for o in RENTED if o.device == "l40s") == 0.44


def test_levels_of_prices_are_no_offers():
    offers, left_out = market(*read_prices("rented"), "usd_per_hour", 4.0, None)

    assert {*offers.offers} == {o.name for o in RENTED if o.offered}
    assert {o.name for o in RENTED if not o.offered}
    assert left_out == []
