"""What to rent: within the budget, the cheapest for a rate, clear errors."""

import pytest

from planner.buy.find import buy
from planner.errors import InputError

LIST = """
name: two
nodes:
  - {name: small, device: l40s, gpus_per_node: 1, price_usd_per_hour: 1.0}
  - {name: dear, device: l40s, gpus_per_node: 1, price_usd_per_hour: 1.5}
"""


def asked(tmp_path, budget, **question):
    path = tmp_path / "two.yaml"
    path.write_text(LIST)
    return buy("llama-3.1-8b", str(path), budget, lambda text: None, engine="vllm", **question)


def test_a_budget_is_spent_on_the_cheaper_of_two_equal_offers_and_kept(tmp_path):
    found = asked(tmp_path, "3.2$/h", gap=0.0)

    assert {each.offer: each.nodes for each in found.rented} == {"small": 3}
    assert found.usd_per_hour == found.plan.predicted.usd_per_hour.value == 3.0


def test_a_rate_takes_as_few_nodes_as_serve_it(tmp_path):
    most = asked(tmp_path, "2$/h", gap=0.0).plan.predicted.rps.value
    found = asked(tmp_path, None, rate=0.5 * most, gap=0.0)

    assert {each.offer for each in found.rented} == {"small"}
    assert found.usd_per_hour <= 2.0


@pytest.mark.parametrize("budget", [None, "50", "50 euros", "50kW/h", "120kW", "2M$", "0.5$/h"])
def test_what_cannot_be_planned_with_is_refused(tmp_path, budget):
    with pytest.raises(InputError) as error:
        asked(tmp_path, budget)

    assert error.value.where == "--budget"
    assert error.value.hint
