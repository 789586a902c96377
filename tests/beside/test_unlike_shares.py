"""Unlike shares of a long prompt: by hand, by trying all, as the cost model's numbers."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from planner.beside import unlike_shares as module
from planner.beside.planned import Planned
from planner.beside.unlike_shares import around_s, divided, passed_bytes, share_of, shares, unlike_shares
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits

ONE = np.ones(2)
EACH_S = np.array([1e-5, 3e-5])


def parts(cluster, *tps: int, name="llama-3.1-8b"):
    card = catalog.find(name)[0]
    models = [CostModel(card, c, "vllm", precisions(card)) for c in cluster.classes]
    return list(zip(models, tps, strict=True))


def test_both_finish_together():
    """By hand: a third as fast takes a quarter; 750,000 x 10 us = 250,000 x 30 us = 7.5 s."""
    seconds, x = shares(1e6, ONE, 0 * ONE, EACH_S, 1e9 * ONE)

    assert x == pytest.approx([750_000, 250_000])
    assert seconds == pytest.approx(7.5)


def test_two_slow_groups_take_twice_a_share():
    """By hand: 3 parts of 5 and 1 of 5 on either."""
    _, x = shares(1e6, np.array([1, 2]), 0 * ONE, EACH_S, 1e9 * ONE)

    assert x == pytest.approx([600_000, 200_000])


@settings(max_examples=60)
@given(
    *(
        st.tuples(number, number, number)
        for number in (st.floats(0.0, 2.0), st.floats(1e-6, 1e-4), st.floats(2e5, 3e6))
    )
)
def test_no_shares_on_a_grid_are_through_sooner(fixed_s, each_s, most):
    fixed_s, each_s, most = (np.array(x) for x in (fixed_s, each_s, most))
    if most.sum() < 1e6:
        return
    seconds, x = shares(1e6, np.ones(3), fixed_s, each_s, most)
    grid = [np.array([a, b, 60 - a - b]) / 60e-6 for a, b in product(range(61), repeat=2) if a + b <= 60]
    tried = [np.where(own > 0, fixed_s + each_s * own, 0.0).max() for own in grid if (own <= most).all()]

    assert x.sum() == pytest.approx(1e6)
    assert (x <= most * (1 + 1e-9)).all()
    assert seconds == pytest.approx(np.where(x > 0, fixed_s + each_s * x, 0.0).max())
    assert seconds <= min(tried, default=np.inf) * (1 + 1e-9)


def test_a_share_takes_what_the_cost_model_says_of_a_half_and_one_and_a_half_of_even_ones():
    """Two chunks of four groups, each of which has room for so many tokens as its cache divides."""
    ((m, tp),) = parts(from_gpus("4xh100"), 2)
    isl, even = 2 * module.CHUNK, module.CHUNK / 4
    fixed_s, each_s, most = share_of(m, tp, isl, 4)

    for own in (even / 2, 1.5 * even):
        step_s = m.step_s(like(1, tp), Load.of(tokens=own, keys=isl / 2))[0]
        assert fixed_s + each_s * 2 * own == pytest.approx(2 * step_s)
    room = m.memory(like(1, tp), int(2 * even), isl / 4).kv_bytes[0]
    assert most == pytest.approx(room / (131_072 / tp), rel=0.01)


def test_chunks_make_all_tokens_so_far_pass(monkeypatch):
    """By hand: 4 chunks of 1,000 tokens: 1,000 + 2,000 + 3,000 + 4,000 tokens of 131,072 bytes on 4 ranks."""
    monkeypatch.setattr(module, "CHUNK", 1000)
    ((m, tp),) = parts(from_gpus("4xh100"), 4)

    assert passed_bytes(m, tp, 4000) == pytest.approx(10_000 * 131_072 / 4)


def test_windows_pass_no_more_than_they_hold(monkeypatch):
    """gpt-oss-120b: 18 layers see all, 18 see 128 tokens; 2,048 bytes a token and layer."""
    monkeypatch.setattr(module, "CHUNK", 1000)
    ((m, tp),) = parts(from_gpus("8xh100"), 1, name="gpt-oss-120b")

    assert passed_bytes(m, tp, 4000) == pytest.approx(2048 * 18 * (10_000 + 4 * 128))


def test_the_ring_takes_what_its_slowest_way_takes():
    """Two groups of either class: the slow one gets three quarters of all over a link of 1 GB/s."""
    nodes = [Node(device=d, gpus_per_node=2, zone=d) for d in ("h100-sxm", "l40s")]
    link = Link(between=("h100-sxm", "l40s"), gb_per_s=1, latency_ms=0.1)
    joined, apart = (resolve(Cluster(nodes=nodes, links=links)) for links in ([link], []))
    both, x = parts(joined, 2, 2), np.array([75_000.0, 25_000.0])

    assert around_s(joined, both, x, 100_000) == pytest.approx(
        2 * passed_bytes(*both[0], 100_000) * 0.75 / 1e9
    )
    assert around_s(apart, both, x, 100_000) is None


def test_who_takes_over_a_slow_nic_is_waited_for():
    """The L40S have a tenth, and take the other nine over 1 GB/s."""
    nodes = [
        Node(device="h100-sxm", gpus_per_node=2, nic_gb_per_s=50),
        Node(device="l40s", gpus_per_node=2, nic_gb_per_s=1),
    ]
    cluster = resolve(Cluster(nodes=nodes))
    _, (slow, tp) = both = parts(cluster, 2, 2)
    all_s = slow.links.hop_s(np.array([passed_bytes(slow, tp, 100_000)]), np.array([9]))[0]

    assert around_s(cluster, both, np.array([90_000.0, 10_000.0]), 100_000) == pytest.approx(0.9 * all_s)


def test_groups_of_one_class_pass_the_ring_too():
    """Four L40S, each with a tenth, on PCIe slower than all NICs."""
    nodes = [Node(device=d, gpus_per_node=4, nic_gb_per_s=400) for d in ("h100-sxm", "l40s")]
    cluster = resolve(Cluster(nodes=nodes))
    _, (slow, tp) = both = parts(cluster, 4, 1)
    all_s = slow.links.hop_s(np.array([passed_bytes(slow, tp, 100_000)]), np.array([4]))[0]

    assert around_s(cluster, both, np.array([60_000.0, 10_000.0]), 100_000) == pytest.approx(0.9 * all_s)


def test_no_room_for_weights_or_too_many_groups_have_no_shares():
    cluster = from_gpus("2xh100,2xl40s")
    assert divided(cluster, parts(cluster, 1, 1, name="llama-3.1-70b"), 128_000) is None
    large = from_gpus("2xh200,2xl40s")
    assert divided(large, parts(large, 2, 1, name="llama-3.1-70b"), 10_000) is None  # no L40S holds it
    assert divided(cluster, parts(cluster, 2, 2), 128_000) is not None
    assert divided(cluster, parts(cluster, 2, 2), 100_000_000) is None
    assert divided(cluster, parts(cluster, 2, 2)[:1], 128_000) is None
    many = from_gpus("16xh100,8xl40s")
    assert divided(many, parts(many, 1, 1), 128_000) is None


def test_unlike_gpus_take_unlike_shares_that_add_up():
    load = {"isl": 100_000, "osl": 200, "ttft_ms": 60_000}
    asked, pool, question = pose(read(None, "llama-3.1-8b", "4xh100,4xl40s", "chat", load, {}))
    (way,) = unlike_shares(Planned(asked, question, find(question, pool, Limits(gap=0.1)), Limits()))
    shares = {c: float(p) for p, c in re.findall(r"(\d+)% on \d+ x tp\d ([\w-]+)", way.what)}

    assert shares["h100-sxm"] > shares["l40s"] > 0
    assert sum(shares.values()) == pytest.approx(100, abs=1)
    assert way.started_by is None
    assert way.kv_tokens > 100_000
