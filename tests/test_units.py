"""Units of fields by their names, and parallelism in words."""

import pytest

from planner.reading.units import sizes_in_words, unit_of


@pytest.mark.parametrize(
    ("field", "unit"),
    [
        ("price_usd_per_hour", "US dollars per hour"),
        ("price_usd_per_gpu_hour", "US dollars per GPU and hour"),
        ("nic_gb_per_s", "GB/s (1e9 bytes a second, one direction)"),
        ("kv_bytes_per_s", "bytes a second"),
        ("kv_bytes", "bytes"),
        ("ttft_ms", "milliseconds"),
        ("keep_s", "seconds"),
        ("memory_gb", "GB (1e9 bytes)"),
        ("isl", "tokens"),
        ("nodes", None),
    ],
)
def test_the_longest_ending_of_a_field_tells_its_unit(field, unit):
    assert unit_of(field) == unit


def test_ones_are_left_out_and_the_order_stays():
    assert sizes_in_words(tp=4, pp=1, dp=8) == "tp4 dp8"
    assert sizes_in_words(pp=2, tp=2) == "pp2 tp2"
