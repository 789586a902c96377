"""Default prices that are low bounds are warned of where prices decide."""

import pytest

from planner import plan


def warned(gpus=None, cluster=None, **options):
    """Messages of `price_low`."""
    made = plan(cluster, "llama-3.1-8b", gpus=gpus, engine="vllm", explain=False, **options)
    return [w.message for w in made.warnings if w.code == "price_low"]


def test_a_low_bound_is_named_with_its_source_and_figure():
    (message,) = warned("2xrtx-3090", rate=0.5, objective="cost")

    assert "rtx-3090, $0.13 per GPU and hour, is a low bound (HexGen-3" in message


@pytest.mark.parametrize(
    ("gpus", "options"),
    [
        ("2xrtx-3090", {}),  # the most requests: prices decide nothing
        ("1xL40S", {"rate": 0.5, "objective": "cost"}),  # a cloud's price, not a low bound
    ],
)
def test_other_prices_are_not_warned_of(gpus, options):
    assert warned(gpus, **options) == []


def test_a_price_that_was_given_is_not_warned_of(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("nodes: [{device: rtx-3090, gpus_per_node: 2, price_usd_per_hour: 0.26}]\n")

    assert warned(cluster=str(path), rate=0.5, objective="cost") == []
