"""Decode servers with less room than their requests need: told as it is, and found."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from planner import plan
from planner.check import check
from planner.plans.schema import Plan


@cache
def split() -> dict[str, Any]:
    """A fleet whose decode servers have much more room than they need."""
    asked: dict[str, Any] = {"engine": "vllm", "risk": 0.5, "simple": 0.0, "explain": False}
    made = plan(None, "qwen3-32b", gpus="8xH200", isl=1000, osl=1000, ttft_ms=5000.0, **asked)
    return made.model_dump()


def with_room(share: float, delayed: float) -> set[str]:
    """Codes where decode servers have room for `share` times what their sequences hold on average, and say
    what comes of it."""
    document = copy.deepcopy(split())
    groups = [r for r in document["replicas"] if r["role"] == "decode"]
    assert groups
    for group in groups:
        less = group["cache"]["used"] * share
        group["kv_tokens"] *= less
        group["cache"]["tokens_per_gpu"] *= less
        group["cache"] |= {"used": min(1 / share, 1.0), "delayed": delayed}
        for part in group["memory"]:
            part["kv_bytes"] *= less
    return {violation.code for violation in check(Plan.model_validate(document))}


def test_a_split_as_planned_lets_in_what_its_caches_hold():
    assert check(Plan.model_validate(split())) == []
    assert "cache_overfull" not in with_room(1.5, 0.0)


@pytest.mark.parametrize("delayed", [0.3, 0.45])
def test_servers_that_decode_with_room_for_the_mean_alone_are_found(delayed: float):
    """Half of the time their requests hold more than the mean. That they say so makes it no better."""
    assert "cache_overfull" in with_room(1.02, delayed)


def test_servers_that_hold_more_than_there_is_room_for_are_found_whatever_they_say():
    assert "kv_over" in with_room(0.95, 0.0)
