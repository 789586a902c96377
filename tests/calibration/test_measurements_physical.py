"""What no device can do, by hand: Llama 3.1 8B in bf16 on H100 SXM (3.35e12 B/s, 989e12 FLOP/s)."""

from __future__ import annotations

import pytest

from planner.calibration.physical import impossible, tpot_floor_ms, ttft_floor_ms
from planner.calibration.runs import Measurement
from planner.predict.predictions import looked_up
from planner.predict.rows import parse

CELLS = {"model": "llama-3.1-8b", "device": "h100-sxm", "isl": "1000", "osl": "201", "concurrency": "1"}


def row(ttft: float | None, tpot: float | None, **cells: str) -> Measurement:
    return Measurement(CELLS | cells, ttft, tpot, "here")


def test_a_step_reads_all_weights_once() -> None:
    """6.98e9 weights of layers of 2 bytes, and the KV of one sequence: 4.2 ms, without the LM head."""
    group, parsed = looked_up(parse(CELLS))

    assert tpot_floor_ms(group, parsed, row(None, 5.0)) == pytest.approx(4.2, rel=0.02)
    assert impossible(row(None, 3.9)) is None  # 10 % slack
    assert "a step takes h100-sxm at least 4.2" in (impossible(row(None, 3.6)) or "")


def test_a_prompt_multiplies_all_weights() -> None:
    """2 x 6.98e9 x 1000 FLOP and its attention: 14.2 ms."""
    group, parsed = looked_up(parse(CELLS))

    assert ttft_floor_ms(group, parsed) == pytest.approx(14.2, rel=0.02)
    assert impossible(row(15.0, None)) is None
    assert "a hit of the prefix cache" in (impossible(row(10.0, None)) or "")


def test_what_the_cache_holds_is_not_computed() -> None:
    assert impossible(row(10.0, None, prefix_hit="0.5")) is None


def test_figures_in_seconds_are_told() -> None:
    assert "is it in seconds?" in (impossible(row(1.2, None)) or "")
    assert "is it in seconds?" in (impossible(row(None, 0.4)) or "")
    assert "speculative" in (impossible(row(None, 2.5)) or "")


def test_sequences_that_wait_are_not_in_the_step() -> None:
    """512 sequences of 8,100 tokens are 543 GB of KV, 162 ms a step: no 20 ms, unless nearly all wait."""
    crowd = {"isl": "8000", "concurrency": "512"}

    assert "a step takes" in (impossible(row(600.0, 20.0, **crowd)) or "")
    assert impossible(row(60_000.0, 20.0, **crowd)) is None
    assert impossible(row(None, 20.0, **crowd)) is None  # how many wait is not known


def test_a_role_is_held_to_its_own_phase() -> None:
    assert impossible(row(1.2, 20.0, role="decode")) is None
    assert impossible(row(60.0, 0.4, role="prefill")) is None
