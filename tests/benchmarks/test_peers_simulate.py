"""Other simulators' rules in the shipped event loop: steps by hand, and the stored cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import simulate
from benchmarks.peers.answer import adapter, stated
from benchmarks.peers.replays import distserve, splitwise

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "simulate"

DISTSERVE: dict[str, Any] = {
    "step_time_ms": {
        "prefill": [10.0, 0.1, 0.0],
        "decode_small": [5.0, 0.01, 1.0],
        "decode_large": [99.0, 0.0, 0.0],
        "batch_threshold": 95,
    },
    "policy": {
        "kind": "shared",
        "replicas": 1,
        "prefill_max_tokens": 150,
        "decode_context_cap": 1000,
        "overhead_ms": 2.0,
        "overhead_per_token_ms": 0.0,
        "prefill_constant_ms": 1.0,
    },
    "requests": [[0.0, 100, 1], [0.0, 100, 1]],
}


def test_distserves_prompts_go_one_by_one_where_two_do_not_fit_and_before_all_tokens():
    """By hand: 13 + 10 ms each; then both make their token in 7 + 0.01 x 2 x 101 + 2 ms."""
    fleet = distserve.replayed(DISTSERVE)
    out = fleet.run()

    assert out.ttft_s == pytest.approx([23.0, 46.0])
    assert out.end_s == pytest.approx([46.0 + 11.02, 46.0 + 11.02])


def test_distserves_decodes_take_turns_under_the_cap():
    """By hand: a cap of 150 holds one sequence of 101 or 102 at a time, the other waits its turn: each step
    lasts 8 + 0.01 x context ms."""
    capped = {**DISTSERVE["policy"], "decode_context_cap": 150}
    out = distserve.replayed({**DISTSERVE, "policy": capped, "requests": [[0, 100, 2], [0, 100, 2]]}).run()

    steps = np.cumsum([8 + 1.01, 8 + 1.01, 8 + 1.02, 8 + 1.02])
    assert out.end_s == pytest.approx([46.0 + steps[2], 46.0 + steps[3]])


SPLITWISE: dict[str, Any] = {
    "kv_bytes_per_token": 1.0,
    "weights_bytes": 0.0,
    "replicas": [{"device": "g", "count": 1, "role": "mixed", "memory_bytes": 1e9}],
    "step_time_tables": {"g": {"tokens": [1, 1001], "prompt_s": [1.0, 2.0], "token_s": [0.1, 0.1]}},
    "policy": {
        "kind": "mixed_replicas",
        "max_batch": 512,
        "max_batch_tokens": 2048,
        "max_passed_over": 4,
        "transfer_bytes_per_s": 100.0,
        "prompt_queue_tokens": 8192,
    },
    "requests": [[0.0, 501, 3], [1.55, 501, 1]],
}


def test_splitwises_prompts_hold_up_the_sequences_beside_them():
    """By hand: 1.5 s; a token of 0.1 s; then the second prompt and the first's last token together, 501 of
    the second prompt and 1: 1.501 x 1.1 s."""
    out = splitwise.replayed(SPLITWISE).run()

    assert out.ttft_s == pytest.approx([1.5, 1.6 + 1.501 * 1.1 - 1.55])
    assert out.end_s == pytest.approx([1.6 + 1.501 * 1.1] * 2)


def test_splitwises_caches_travel_beside_each_other():
    """By hand: each prompt's 502 tokens take 5.02 s to the token replica, which makes one token more."""
    two = [{"device": "g", "count": 1, "role": role, "memory_bytes": 1e9} for role in ("prompt", "token")]
    policy = {**SPLITWISE["policy"], "kind": "prompt_and_token_pools"}
    case = {**SPLITWISE, "replicas": two, "policy": policy, "requests": [[0.0, 501, 2], [0.0, 501, 2]]}
    out = splitwise.replayed(case).run()

    assert out.first_s == pytest.approx([2.001, 2.001])
    assert out.end_s == pytest.approx([2.001 + 5.02 + 0.1] * 2)


def test_a_full_prompt_replica_is_helped_out():
    """The third prompt finds more than is allowed to wait, and goes to the token replica."""
    two = [{"device": "g", "count": 1, "role": role, "memory_bytes": 1e9} for role in ("prompt", "token")]
    policy = {**SPLITWISE["policy"], "kind": "prompt_and_token_pools", "prompt_queue_tokens": 1100}
    rows = [[0.0, 501, 2], [0.1, 501, 2], [0.2, 501, 2]]
    fleet = splitwise.replayed({**SPLITWISE, "replicas": two, "policy": policy, "requests": rows})
    out = fleet.run()

    assert [(w.first, w.second) for w in fleet.way if w] == [("prompt", "token")] * 2 + [("token", None)]
    assert out.first_s[2] == pytest.approx(0.2 + 1.5)


def test_cases_of_simulators_have_one_adapter():
    case = stated({"peer": "splitwise-sim", "problem": {}})
    assert adapter(case["peer"]) is simulate
    assert case["simulator"] == "splitwise-sim"


@pytest.mark.skipif(not CASES.is_dir(), reason="the stored cases lie beside the repository and are not here")
@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda p: p.stem)
def test_stored_cases_come_out_as_their_simulators_say(path: Path) -> None:
    """Their tolerance is 2 %; an independent replay came within 0.4 %."""
    answer = simulate.solve(stated(json.loads(path.read_text())), "error", 30.0)
    assert answer.objective is not None
    assert answer.objective < 2e-3
