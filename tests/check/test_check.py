"""The verifier as a whole: sound plans pass, every seeded mutation that breaks a limit is named, harmless
ones pass."""

from __future__ import annotations

import copy
import json
from functools import cache
from random import Random
from typing import Any

import pytest

from planner.check import check
from planner.plans.schema import Plan
from tests.check.chain_plans import CHAINS
from tests.check.mutations import BREAKING, Mutation
from tests.check.plans import SOUND as WHOLE
from tests.check.plans import golden

SOUND = WHOLE | CHAINS
SEEDS = range(2)
CASES = [(name, mutation, seed) for mutation in BREAKING for name in SOUND for seed in SEEDS]


@cache
def document(name: str) -> str:
    return SOUND[name]().model_dump_json(by_alias=True)


def codes(found: Any) -> set[str]:
    return {violation.code for violation in check(Plan.model_validate(found))}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_plan_has_no_violation(name: str) -> None:
    assert check(SOUND[name]()) == []


def test_the_filled_example_of_the_contract_is_sound() -> None:
    assert check(golden()) == []


@pytest.mark.parametrize("mutation", BREAKING, ids=lambda m: m.name)
def test_a_broken_limit_is_named(mutation: Mutation) -> None:
    """Each mutation, at seeded random places of every plan that has such a place."""
    applied = 0
    for name in SOUND:
        for seed in SEEDS:
            broken = json.loads(document(name))
            if not mutation.applied(broken, f"{name} {seed}"):
                continue
            applied += 1
            found = codes(broken)
            assert found & mutation.codes, f"{name}, seed {seed}: {sorted(found)}"
    assert applied


def test_there_are_hundreds_of_mutations() -> None:
    assert len(CASES) > 500


def renamed(d: dict[str, Any]) -> None:
    """Groups get other names."""
    for replica in d["replicas"]:
        replica["id"] = f"group-{replica['id']}"
    for route in d["routing"]:
        for end in ("replica", "prefill", "decode"):
            route[end] = route[end] and f"group-{route[end]}"
    for entry in (d["experts"] or {"replicas": []})["replicas"]:
        entry["replica"] = f"group-{entry['replica']}"
    for chain in d["chains"]:
        for hop in chain["hops"]:
            hop["replica"] = f"group-{hop['replica']}"


def reordered(d: dict[str, Any]) -> None:
    """Groups, routes, memory and entries of the cluster stand in another order."""
    for part in (d["replicas"], d["routing"], d["chains"], d["problem"]["cluster"]["nodes"]):
        part.reverse()
    for replica in d["replicas"]:
        replica["memory"].reverse()


def routes_split(d: dict[str, Any]) -> None:
    """Each route is written as two halves."""
    d["routing"] = [
        route
        | {"share": route["share"] / 2, "kv_gb_per_s": route["kv_gb_per_s"] and route["kv_gb_per_s"] / 2}
        for route in d["routing"]
        for _ in range(2)
    ]


def class_in_two_entries(d: dict[str, Any]) -> None:
    """The nodes of each class are written as two entries of the cluster; nodes of the second have its
    name."""
    entries, moved = [], {}
    for node in d["problem"]["cluster"]["nodes"]:
        first = max(node["count"] // 2, 1)
        halves = [
            node | {"count": first},
            node | {"name": f"{node['name']}x", "count": node["count"] - first},
        ]
        entries += [half for half in halves if half["count"]]
        for i in range(first, node["count"]):
            moved[f"{node['name']}-{i}"] = f"{node['name']}x-{i - first}"
    d["problem"]["cluster"]["nodes"] = entries
    for replica in d["replicas"]:
        for stage in replica["stages"]:
            stage["nodes"] = [moved.get(name, name) for name in stage["nodes"]]
    for chain in d["chains"]:
        for hop in chain["hops"]:
            hop["node"] = moved.get(hop["node"], hop["node"])


def group_split(d: dict[str, Any]) -> None:
    """One group of several replicas becomes two groups."""
    big = next((r for r in d["replicas"] if r["count"] > 1 and r["role"] == "mixed"), None)
    if big is None:
        return
    twin = copy.deepcopy(big) | {"id": "twin", "count": 1}
    big["count"] -= 1
    d["replicas"].append(twin)
    for route in [route for route in d["routing"] if route["replica"] == big["id"]]:
        part = route["share"] / (big["count"] + 1)
        route["share"] -= part
        d["routing"].append(route | {"replica": "twin", "share": part})


def rounded(d: dict[str, Any]) -> None:
    """Predictions are rounded to five digits."""
    for band in d["predicted"].values():
        for edge in band or ():
            band[edge] = float(f"{band[edge]:.5g}")
    d["problem"]["workload"]["rate_rps"] = None


def slower_than_it_is(d: dict[str, Any]) -> None:
    """More warnings, wider bands, more room for other things in memory than needed: nothing is broken by
    caution."""
    d["warnings"].append({"code": "note", "message": "cautious"})
    for band in d["predicted"].values():
        band["low"], band["high"] = 0.5 * band["low"], 2 * band["high"]


@pytest.mark.parametrize(
    "change",
    [renamed, reordered, routes_split, class_in_two_entries, group_split, rounded, slower_than_it_is],
)
@pytest.mark.parametrize("name", SOUND)
def test_a_change_that_breaks_nothing_is_accepted(name: str, change: Any) -> None:
    found = json.loads(document(name))
    change(found)

    assert check(Plan.model_validate(found)) == []


def test_a_relaxed_slo_is_accepted_where_the_plan_says_so() -> None:
    found = json.loads(document("dense"))
    found["problem"]["workload"]["slo"]["tpot_ms"] = 1.0
    assert codes(found) == {"slo_missed"}
    found["warnings"].append({"code": "slo_relaxed", "message": "50 ms cannot be met"})

    assert codes(found) == set()


def test_numbers_too_large_to_compute_with_are_reported() -> None:
    found = json.loads(document("dense"))
    found["problem"]["workload"]["buckets"][0]["isl"] = 10**400

    assert codes(found)


@pytest.mark.parametrize("seed", range(200))
def test_no_single_edit_makes_the_verifier_fail(seed: int) -> None:
    """Any number of a plan replaced by any other: a list of violations comes back, never an exception."""
    rng = Random(seed)
    found = json.loads(document(rng.choice(sorted(SOUND))))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(value, dict | list):
                walk(value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                places.append((node, key))

    walk(found)
    node, key = rng.choice(places)
    node[key] = rng.choice([0, 1, 2, 10**9, 1e-300, 1e300, -1, 10**18])
    try:
        plan = Plan.model_validate(found)
    except ValueError:
        return

    assert isinstance(check(plan), list)
