"""Every config and card against the published table beside the repository."""

import pytest

from benchmarks import params

pytestmark = pytest.mark.skipif(not params.DATA.is_dir(), reason=f"no calibration data in {params.DATA}")


@pytest.fixture(scope="module", params=["configs", "cards"])
def rows(request):
    return list(getattr(params, request.param)())


def test_totals_are_within_half_a_per_cent(rows):
    assert len(rows) >= 80
    assert [r.name for r in rows if abs(r.difference) > 0.005 and not r.estimate] == []


def test_kv_bytes_are_exact(rows):
    assert [(r.name, r.kv, r.published_kv) for r in rows if r.kv != r.published_kv] == []


def test_active_parameters_are_within_one_per_cent(rows):
    assert [r.name for r in rows if abs(r.active / r.published_active - 1) > 0.01 and not r.estimate] == []
