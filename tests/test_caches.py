"""What a process keeps between questions is bounded, so that a service may plan for weeks."""

from __future__ import annotations

import functools
import gc
import importlib
import pkgutil
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cluster_configs
import model_zoo
import planner
import solvers
from planner.candidates import dominance, known
from tests.candidates.samples import one_setup
from tests.candidates.test_dominance import NEITHER, candidate

ONE = one_setup()

FINITE = {
    "cluster_configs.devices.load": "a shipped device",
    "cluster_configs.price_list.usual_price": "a shipped device",
    "model_zoo.catalog.load": "a shipped model",
    "planner.cost.efficiency.reading.load": "a shipped table",
    "planner.cost.experts._largest": "a number of ranks",
    "planner.cost.host.host_use": "an engine, and sockets of a node",
    "planner.imports.flags.table": "an engine",
    "planner.operating.known._fields": "a class of ours",
    "planner.reports.page.templates._environment": "the library",
    "solvers.affinity.search._states": "GPUs that are dealt anew, of few",
}
"""Caches without a limit of their own, and what there is one entry for."""


def caches() -> Iterator[tuple[str, Any]]:
    """Every cache of a function of ours, by its name."""
    for package in (planner, solvers, model_zoo, cluster_configs):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for each in vars(importlib.import_module(found.name)).values():
                if isinstance(each, functools._lru_cache_wrapper) and each.__module__ == found.name:
                    yield f"{each.__module__}.{each.__qualname__}", each


def test_every_cache_has_a_limit_or_few_keys() -> None:
    unbounded = {
        name
        for name, each in caches()
        if each.cache_parameters()["maxsize"] is None and each.__wrapped__.__code__.co_argcount
    }

    assert unbounded == set(FINITE)


def test_survivors_of_pools_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dominance, "MOST_CANDIDATES", 5)
    dominance.SURVIVORS.clear()
    pool = (candidate("a"), candidate("b", use=2.0))
    for room in (1, 2, 4, 8, 16):
        assert dominance._kept(pool, room, NEITHER, False) == {"a"}
        assert len(dominance.SURVIVORS) in (1, 2)  # of two candidates each

    assert (tuple(map(weakref.ref, pool)), 16, NEITHER, False) in dominance.SURVIVORS


def test_candidates_go_with_their_plan() -> None:
    dominance.SURVIVORS.clear()
    pool = (candidate("a"), candidate("b", use=2.0))
    there = weakref.ref(pool[0])
    assert dominance._kept(pool, 8, NEITHER, False) == {"a"}
    assert dominance._kept(pool, 8, NEITHER, False) is dominance._kept(pool, 8, NEITHER, False)
    del pool
    gc.collect()

    assert dominance.SURVIVORS
    assert there() is None


def test_the_largest_loads_that_are_known_take_no_more_than_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "MOST_BYTES_IN_ALL", 100)
    known.KNOWN.clear()
    loads = known.once(lambda s, index, asked: (np.zeros(2), np.ones(2)))
    for k in range(20):
        loads(ONE, np.array([0]), k)
        assert 32 * len(known.KNOWN) <= 100

    assert known.KNOWN
