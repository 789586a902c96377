"""What kinds of replica beyond the second have of their own, by hand."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from planner.cost.bands import Z80
from planner.search import own_bands
from planner.search.own_bands import INSIDE, own_band, own_sigma


@dataclass
class Group:
    """A kind on a class: requests/s that it serves, and deviations of its rate, prompts and steps."""

    candidate: object
    served: dict
    whole: float = 0.2
    phases: tuple = (0.2, 0.1)


def group(kind, node_class, rate, role="mixed", whole=0.2):
    told = SimpleNamespace(kind=kind, engine="vllm", node_class=node_class, role=role)
    return Group(told, {"0": rate}, whole)


@pytest.fixture(autouse=True)
def sigmas(monkeypatch):
    monkeypatch.setattr(own_bands, "rate_sigma", lambda g: g.whole)
    monkeypatch.setattr(own_bands, "phase_sigmas", lambda g: g.phases)
    monkeypatch.setattr(own_bands, "groups", lambda made: made)


def off(sigma):
    return 2.718281828 ** (Z80 * sigma) - 1


def test_a_kind_counts_by_what_it_serves_and_the_two_that_serve_most_count_nothing():
    made = [group("a", "h", 60.0), group("b", "l", 10.0), group("c", "a", 30.0)]

    assert own_band(made, 2) == pytest.approx(0.1 * off(0.2))
    assert own_band(made, 1) == pytest.approx(0.4 * off(0.2))
    assert own_band(made, 3) == 0


def test_prefill_servers_serve_requests_that_others_decode():
    made = [group("a", "h", 50.0), group("p", "l", 50.0, "prefill"), group("d", "a", 50.0, "decode")]

    assert own_band(made, 2) == pytest.approx(0.5 * off(0.2))


def test_what_kinds_of_one_engine_and_class_share_cancels():
    """Fitted is 0.1 (steps, prompts twice that): 0.0625 of it is the layouts' own."""
    first, second, third = group("a", "h", 60.0), group("b", "h", 30.0), group("c", "l", 10.0)

    assert own_sigma(third, [first, second, third]) == 0.2
    assert own_sigma(second, [first, second, third]) == pytest.approx((0.04 - 0.01 + INSIDE**2) ** 0.5)
    assert own_sigma(first, [first, group("a", "h", 5.0)]) == 0.2  # the same kind twice is none beside it
