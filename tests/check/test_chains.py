"""The verifier on plans of chains: each broken rule is named, figures agree with counts by hand."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from planner.check import check
from planner.check.case import Case, open_case
from planner.plans.schema import Plan
from tests.check.chain_mutations import CHAIN_BREAKING
from tests.check.chain_plans import CHAINS, three
from tests.check.mutations import Mutation

SEEDS = range(4)


@cache
def written(name: str) -> str:
    return CHAINS[name]().model_dump_json(by_alias=True)


def document(name: str) -> Any:
    return json.loads(written(name))


def codes(found: Any) -> list[str]:
    return [violation.code for violation in check(Plan.model_validate(found))]


@pytest.mark.parametrize("mutation", CHAIN_BREAKING, ids=lambda m: m.name)
def test_a_broken_rule_of_chains_is_named(mutation: Mutation) -> None:
    applied = 0
    for name in CHAINS:
        for seed in SEEDS:
            broken = document(name)
            if not mutation.applied(broken, f"{name} {seed}"):
                continue
            applied += 1
            found = set(codes(broken))
            assert found & mutation.codes, f"{name}, seed {seed}: {sorted(found)}"
    assert applied


def test_every_rule_of_chains_is_broken_by_some_mutation() -> None:
    """Rules that only chains have."""
    named = {code for mutation in CHAIN_BREAKING for code in mutation.codes}

    assert named >= {
        "chain_count", "chain_gap", "chain_not_covered", "chain_overlap", "chain_shares", "chain_stages",
        "chains_unused", "hop_elsewhere", "hop_empty", "hop_outside", "layers_outside", "no_chains",
        "node_over", "node_twice",
    }  # fmt: skip


def test_all_requests_of_a_chain_visit_each_of_its_nodes() -> None:
    case = open_case(three())
    assert isinstance(case, Case)
    visits = {name: load.rps / case.rps for name, load in case.loads.items()}

    assert visits == pytest.approx({"c1": 0.6, "c2": 0.4, "c3": 1.0})


def test_a_link_carries_every_token_of_the_chains_over_it_once_each_way() -> None:
    """By hand: all chains of `three` go from zone a to b with (mean prompt 640 + steps 79) tokens x 4,096 x 2
    bytes a request. Nothing but a token's number comes back."""
    found = document("three")
    flow = found["predicted"]["rps"]["value"] * (640 + 79) * 4096 * 2 / 1e9
    for scale, expected in ((1.03, []), (0.97, ["link_over"])):
        found["problem"]["cluster"]["links"][0].update(gb_per_s=scale * flow, latency_ms=0)
        for chain in found["chains"]:
            chain["ttft_s"] = 1.0
        for replica in found["replicas"]:
            replica["max_batch"] = 32
        found["predicted"]["ttft_ms"] = {"value": 1000.0, "low": 900.0, "high": 1100.0}

        assert [code for code in codes(found) if code == "link_over"] == expected


def test_a_node_that_hops_use_in_part_is_busy_in_part() -> None:
    """c3 holds 18 layers; 0.6 of the requests run 14 of them, 0.4 all 18: 13 of 15 of its full work."""
    found = document("three")
    step, rps = found["replicas"][2]["step"], found["predicted"]["rps"]["value"]
    part = 0.6 * 14 / 18 + 0.4
    step["prefill_s"] = 1.03 / (rps * part) - 79 * step["decode_s"] / 32
    assert part == pytest.approx(13 / 15)
    assert "node_over" in codes(found)
    step["prefill_s"] = 1.0 / (rps * part) - 79 * step["decode_s"] / 32

    assert "node_over" not in codes(found)


def test_a_plan_without_a_model_has_no_chains() -> None:
    found = document("three")
    found["problem"]["model"] = {}

    assert "chain_without_model" in codes(found)


def test_a_request_served_whole_takes_no_place_in_a_chain() -> None:
    """In `beside` an H100 serves the model whole; moving its requests to the chains is too much for them."""
    found = document("beside")
    whole = next(route for route in found["routing"] if route["replica"])
    assert 0.1 < whole["share"] < 0.99
    found["routing"] = [route | {"share": 1.0} for route in found["routing"] if route["chains"]]

    assert {"batch_over", "node_over"} & set(codes(found))
