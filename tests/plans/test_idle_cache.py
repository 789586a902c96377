"""Idle cache of a group at its real load: counted again by hand from the setup and the load."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node
from planner.candidates.candidate import Candidate, Key
from planner.candidates.columns import decoding
from planner.candidates.idle_cache import levels, places
from planner.candidates.offers import Offer, Standing
from planner.cost.idle_cache import resting_of
from planner.inputs.reuse import Reuse
from planner.inputs.workload import Bucket, Slo, Workload
from planner.plans import idle_cache as module
from planner.plans.found import Group
from planner.plans.operation import index_of, operate
from planner.replicas.alike import setup
from tests.candidates.samples import ask

LOAD = Workload(
    buckets=[Bucket(isl=8000, osl=200)],
    slo=Slo(ttft_ms=8000, tpot_ms=100),
    reuse=[
        Reuse(name="system", tokens=1000, share=0.8, distinct=4),
        Reuse(name="turns", gap_s=60, gap_cv=1.5, again=0.7, part=0.9),
    ],
)
RESTING = resting_of(LOAD)


@cache
def group(place: str, level: int = 1) -> Group:
    """Replicas of two GPUs that keep idle cache in one place, a part of their load on them."""
    host = Host(memory_gb=512, gb_per_s=300, pcie_gb_per_s=25)
    form = Node(name="n", device="l40s", gpus_per_node=2, host=host)
    node = resolve(Cluster(nodes=[form])).classes[0]
    wanted = ask(workload=LOAD, resting=RESTING)
    names = ["hbm", *(p.name for p in places(node, "vllm", wanted.card))]
    some = [k for k in levels(RESTING, np.array([1.0]), names) if k.place == place]
    keep = some[min(level, len(some) - 1)]
    plain = setup(node, "vllm", wanted, one_more=False)
    s = replace(wanted, keep=keep).setup(plain.model, plain.designs, [node])
    ((_, columns),) = decoding(s, s.fitting[s.designs.gpus[s.fitting] == 2], [("mixed", s.promise.tpot_s)])
    offer = Offer.of(columns, s, Standing(node, Key("n", "vllm")), "mixed", None)
    c: Candidate = offer.candidates(wanted.counts)[0]
    rate = 0.9 / max(row["0"] for row in c.use.values())
    return Group("r1", c, 1, {"0": rate}, operate(s, c, {"0": rate}, 1), s)


def told(place: str):
    return module.kept(group(place), LOAD)


@pytest.mark.parametrize("place", ["hbm", "host"])
def test_what_is_held_and_found_is_littles_law_of_the_level(place):
    """Tokens x seconds that each request leaves, times its rate, on each GPU; and what is found."""
    g, k = group(place), told(place)
    at, keep = index_of(g.setup, g.candidate), g.setup.keep
    rate = g.operation.rate[0]
    each = g.setup.idle_token_bytes[at, 0]

    assert (k.place, k.keep_s) == (place, keep.keep_s)
    assert k.bytes == pytest.approx(2 * rate * each * keep.token_s[0])
    assert k.hit == pytest.approx(np.round(keep.found[0]) / 8000, rel=1e-3)
    assert k.found_tokens == pytest.approx(keep.found, abs=1)
    assert k.shared_bytes == pytest.approx(2 * 4000 * each)


def test_what_lies_beside_the_gpu_is_loaded_and_what_lies_on_it_is_not():
    """By hand: what is found but the shared beginnings, of every request."""
    g = group("host")
    at, keep, rate = index_of(g.setup, g.candidate), g.setup.keep, g.operation.rate[0]
    apart = keep.found[0] - min(keep.found[0], keep.shared[0])

    assert told("hbm").loads_gb_per_s == 0
    assert told("host").loads_gb_per_s == pytest.approx(
        2 * rate * g.setup.idle_token_bytes[at, 0] * apart / 1e9
    )


def test_the_room_lasts_as_long_as_it_takes_to_fill():
    """Che's time of host memory, and of what running requests leave of the GPU."""
    g, k = group("host"), told("host")
    at = index_of(g.setup, g.candidate)
    each = g.operation.rate * g.setup.idle_token_bytes[at]

    assert k.lasts_s == pytest.approx(min(RESTING.keep_s(g.setup.place.bytes, each), module.LONGEST_S))
    own, here = group("hbm"), told("hbm")
    at = index_of(own.setup, own.candidate)
    free = own.setup.memory.kv_bytes[at] * (1 - own.operation.kv_used) - own.setup.shared_bytes[at]
    held = float(own.operation.rate @ own.setup.idle_byte_s[at])
    each = own.operation.rate * own.setup.idle_token_bytes[at]
    assert here.lasts_s == pytest.approx(min(RESTING.keep_s(max(free, held), each), module.LONGEST_S))


@pytest.mark.parametrize("place", ["hbm", "host"])
def test_the_best_times_save_no_less_and_each_gb_is_worth_its_time(place):
    k, g = told(place), group(place)

    assert k.best_adds >= 0
    assert {t.kind for t in k.times} <= set(RESTING.names)
    assert [p.limit for p in k.prices] == ["hbm of r1", "host of r1"]
    assert all(p.worth >= 0 and p.unit == "tok/s" for p in k.prices)
    most = g.operation.rate[0] * 200 / g.operation.busy
    assert all(p.worth <= most for p in k.prices)


def test_a_gb_for_the_replica_is_half_a_gb_for_each_of_two_gpus(monkeypatch):
    """By hand: of the seconds that it saves, as output tokens of time that the server is busy."""
    g = group("host")
    monkeypatch.setattr(module.keeping, "worth", lambda p, best, i, more, limits: 0.01 * more)
    price = module.kept(g, LOAD).prices[0]

    assert price.worth == pytest.approx(g.operation.rate[0] * 200 / g.operation.busy * 0.01 / 2)


def test_what_the_best_times_add_is_over_what_one_time_for_all_saves(monkeypatch):
    """By hand: 3 saved a second for 2."""
    monkeypatch.setattr(module.keeping, "saved", lambda p, kept: 2.0)
    real = module.keeping.solve
    monkeypatch.setattr(module.keeping, "solve", lambda *given: replace(real(*given), saved=3.0))

    assert told("host").best_adds == pytest.approx(0.5)


def test_groups_that_keep_nothing_say_nothing():
    g = group("hbm")
    plain = replace(g, setup=replace(g.setup, keep=None))

    assert module.kept(plain, LOAD) is None
    assert module.kept(g, LOAD.model_copy(update={"reuse": []})) is None


def test_only_what_lies_beside_the_gpus_is_a_tier():
    made = [SimpleNamespace(id=x) for x in ("r1", "r2", "r3")]
    found = {"r1": told("host"), "r2": told("hbm"), "r3": None}
    (tier,) = module.tiers(made, found)
    (note,) = module.routing(found)

    assert (tier.replica, tier.tier, tier.what, tier.bytes) == ("r1", "host", "cache", told("host").bytes)
    assert note.code == "session_routing"
    assert note.message.startswith("r1, r2: what is kept")
    assert module.routing({"r3": None}) == []
