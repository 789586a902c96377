"""Measured runs of small machines: read whole, predicted near, and without them skipped aloud."""

import numpy as np
import pytest

from benchmarks import offload

needs_data = pytest.mark.skipif(not offload.FILE.is_file(), reason="no measurements beside the repository")


def test_without_measurements_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(offload, "FILE", tmp_path / "none.csv")
    monkeypatch.setattr("sys.argv", ["offload"])
    offload.main()

    assert "skipped" in capsys.readouterr().err


@needs_data
def test_every_run_of_the_two_engines_is_read():
    rows = list(offload.rows())

    assert (len(rows), sum(not row.ran for row in rows)) == (159, 40)
    assert sum(row.sockets > 0 for row in rows) == 19


@needs_data
def test_median_errors_are_within_a_quarter_and_verdicts_right():
    rows = list(offload.rows())
    ran = [offload.timed(row) for row in rows if row.ran]
    for phase in ("decode", "prefill"):
        off = np.expm1([x.off[phase] for x in ran if phase in x.off])
        assert np.median(np.abs(off)) < 0.25
    right = [row.ran == offload.fits(row) for row in rows if not row.sockets]
    assert np.mean(right) >= 0.95
