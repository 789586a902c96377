"""What an oracle leaves: by hand, on two groups of which one is predicted twice too slow."""

import numpy as np
import pytest

from benchmarks.scores.floor import GROUP, MEDIANS, centred, floor_table, widened
from tests.benchmarks.test_scores import held

ROW = {"system": "h100_sxm", "backend": "vllm", "model_path": "x", "precision": "fp8", "backend_version": ""}
ROWS = [ROW | {"family": family, "concurrency": c} for family in ("a", "b") for c in ("8", "16", "32")]
MEASURED = [10.0, 14.0, 30.0] * 2
PREDICTED = [20.0, 28.0, 60.0, 10.0, 14.0, 33.0]
HELD = held(ROWS, MEASURED, PREDICTED)


def test_a_groups_median_error_is_taken_off_and_the_rest_stays():
    assert centred(HELD, GROUP).tpot == pytest.approx([10, 14, 30, 10, 14, 33])


def test_bands_are_as_wide_as_what_is_left():
    found = centred(HELD, GROUP)
    left = np.abs(np.log(found.tpot / found.measured_tpot))

    assert (left <= 1.2816 * found.sigma_tpot + 1e-12).mean() >= 0.8


def test_widths_tell_how_far_a_row_or_a_group_is_off():
    rows, groups = widened(HELD), widened(HELD, GROUP)

    assert rows.tpot.tolist() == groups.tpot.tolist() == PREDICTED
    assert rows.sigma_tpot == pytest.approx([np.log(2)] * 3 + [0.01, 0.01, np.log(1.1)])
    assert groups.sigma_tpot[:3] == pytest.approx(np.log(2) / 1.2816, rel=1e-4)


def test_the_table_has_a_line_for_whatever_is_known():
    lines = floor_table(HELD).splitlines()

    assert len(lines) == 1 + 1 + len(MEDIANS) + 2
    assert lines[1].startswith("nothing")
    assert lines[2].split()[:7] == ["median", "error", "of", "a", "model", "x", "device"]
    assert lines[2].split()[7] == "2"
