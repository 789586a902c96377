"""Bands of rates by the share of prompts, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scores.rates import rate_sigma, rate_table
from tests.benchmarks.test_scores import held


def test_without_prompts_a_rate_is_off_by_what_decode_steps_are_and_of_prompts_alone_by_theirs():
    assert rate_sigma(np.array([0.0, 1.0]), np.array([0.1, 0.2])) == pytest.approx([0.1, 2 * 0.2])


def test_rows_are_counted_by_their_share_of_prompts():
    """TPOT's deviation of 0.1 reaches 13.7 % up; prompts alone 29 %, which holds a rate that is 15 % off."""
    rows = held([{}, {}, {}], [100.0, 115.0, 115.0], [100.0, 100.0, 100.0])
    still = np.full(3, 1e-9)
    rows = type(rows)(**(vars(rows) | {"measured_ttft": still, "ttft": still}))
    lines = [line.split() for line in rate_table(rows, np.array([0.05, 0.05, 0.95])).splitlines()]

    assert lines[1][3:] == ["2", "1", lines[1][5], "50.0%", "50.0%", "50.0%"]
    assert lines[2][3:5] + lines[2][6:] == ["1", "1", "100.0%", "0.0%", "0.0%"]
