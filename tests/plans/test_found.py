"""What of a group counts against what it may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from planner.plans.strain import fullness


@pytest.mark.parametrize(
    ("role", "utilisation", "full"),
    [("prefill", 0.9972, True), ("prefill", 0.97, False), ("decode", 0.9972, False)],
)
def test_a_server_that_only_prefills_has_the_rule_of_operation_for_time_and_cache(role, utilisation, full):
    """Where its cache is fuller than its time is busy, too: the plan states the fuller of the two."""
    group = SimpleNamespace(
        setup=SimpleNamespace(busiest=0.98),
        candidate=SimpleNamespace(role=role),
        operation=SimpleNamespace(utilisation=utilisation, busy=0.9, does=role),
    )

    assert (fullness(group) > 1) is full
