"""Electricity by zone: what it costs and emits, by hand."""

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.errors import InputError
from planner.reports.figures import by_zone, electricity, figures

NODES = [
    {"name": "a", "device": "h100-sxm", "gpus_per_node": 2, "price_usd_per_hour": 5, "zone": "west"},
    {"name": "b", "device": "l4", "gpus_per_node": 1, "count": 3, "price_usd_per_hour": 9, "zone": "east"},
]
WEST = {"usd_per_kwh": 0.10, "gco2_per_kwh": 350, "overhead": 1.5}
EAST = {"usd_per_kwh": 0.20, "gco2_per_kwh": 50}
L4_AT_REST_W = 0.12 * 72


def planned(energy):
    cluster = resolve(Cluster.model_validate({"name": "two", "nodes": NODES, "energy": energy}))
    return api.plan(cluster, "llama-3.1-8b", rate=10.0, engine="vllm", explain=False)


@pytest.fixture(scope="module")
def both():
    return planned({"west": WEST, "east": EAST})


def test_zones_draw_what_their_gpus_draw_at_work_and_at_rest(both):
    watts = by_zone(both)

    assert watts["east"] == pytest.approx(3 * L4_AT_REST_W, rel=1e-6)  # the H100s alone serve
    assert sum(watts.values()) == pytest.approx(both.predicted.watts.value)


def test_electricity_and_carbon_are_those_of_each_zone(both):
    west, east = by_zone(both)["west"] * 1.5 / 1000, by_zone(both)["east"] / 1000
    said = {label: band.value for label, band, _ in electricity(both)}
    million_tokens_an_hour = both.predicted.out_tok_per_s.value * 3600 / 1e6

    assert said["electricity"] == pytest.approx(0.10 * west + 0.20 * east)
    assert said["cost with electricity"] == pytest.approx(5 + said["electricity"])
    assert said["CO2 of 1M output tokens"] == pytest.approx((350 * west + 50 * east) / million_tokens_an_hour)


def test_what_a_zone_does_not_say_is_not_said_of_the_plan():
    plan = planned({"west": WEST, "east": {"usd_per_kwh": 0.2}})
    labels = [f.label for f in figures(plan)]

    assert "electricity" in labels
    assert "CO2 of 1M output tokens" not in labels


def test_without_any_word_on_energy_plans_are_as_they_were():
    plan = planned(None)

    assert electricity(plan) == []
    assert "energy" not in plan.problem.cluster


def test_a_zone_without_nodes_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match="wset") as error:
        planned({"wset": WEST})

    assert "`west`" in (error.value.hint or "")
