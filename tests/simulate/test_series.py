"""What a sampler sees of servers over time: even looks, ever more seldom where a replay goes on."""

from types import SimpleNamespace

import numpy as np
import pytest

from planner.simulate import pools as series
from planner.simulate.pools import Sampler


class Fake:
    """A server with one request waiting and, at second t, t requests in work that hold 10 t tokens each."""

    queue = 1

    def seen(self, at_s: float) -> tuple[int, float]:
        return int(at_s), 10.0 * at_s


def pool(servers: int = 2, kv_tokens: float = 1000.0):
    group = SimpleNamespace(rules=SimpleNamespace(kv_tokens=kv_tokens))
    return SimpleNamespace(servers=[Fake() for _ in range(servers)], group=group)


def test_all_servers_of_a_group_are_seen_together():
    sampler = Sampler({"a": pool(2), "b": pool(3)}, span_s=240.0)
    sampler.until(4.5)
    seen = sampler.series()

    assert seen.times_s.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert seen.waiting["a"].tolist() == [2.0] * 5
    assert seen.waiting["b"].tolist() == [3.0] * 5
    assert seen.running["a"].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert seen.held["a"].tolist() == pytest.approx([2 * 10 * t / 2000 for t in range(5)])


def test_looks_go_on_where_the_last_ended():
    sampler = Sampler({"a": pool()}, span_s=240.0)
    sampler.until(1.5)
    sampler.until(1.6)
    sampler.until(3.0)

    assert sampler.series().times_s.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_replay_that_goes_on_is_seen_half_as_often():
    sampler = Sampler({"a": pool()}, span_s=240.0)
    sampler.until(2400.0)
    times = sampler.series().times_s
    steps = np.diff(times)

    assert times[0] == 0.0
    assert len(times) < 2 * series.SAMPLES
    assert sampler.every_s in (2.0, 4.0, 8.0, 16.0)
    assert np.allclose(steps, sampler.every_s)
    assert times[-1] > 2400 - 2 * sampler.every_s


def test_large_fleets_are_seen_at_fewer_times_but_at_some():
    assert Sampler({"a": pool(1)}, 1.0).samples == series.SAMPLES
    assert Sampler({"a": pool(1000)}, 1.0).samples == 100
    assert Sampler({"a": pool(100_000)}, 1.0).samples == series.SAMPLES // 4


def test_a_fleet_that_was_never_looked_at_has_one_empty_look():
    seen = Sampler({"a": pool()}, 10.0).series()

    assert (seen.times_s.tolist(), seen.held["a"].tolist()) == ([0.0], [0.0])


def test_a_span_that_is_unknown_begins_with_milliseconds_and_time_never_ends_a_look():
    sampler = Sampler({"a": pool()}, 0.0)
    sampler.until(float("inf"))

    assert sampler.every_s == 1e-3
    assert sampler.rows == []
