"""The batch at which a server serves most, against every batch looked at one by one."""

from __future__ import annotations

import numpy as np
import pytest

from model_zoo import catalog
from planner.candidates.columns import decoding
from planner.candidates.fastest import fastest
from planner.candidates.points import rate_at
from tests.candidates.samples import ask, one_setup

PCIE = one_setup(ask(catalog.find("llama-3.1-70b")[0]), gpus="8xL40S")
"""Eight cards without NVLink: all-reduces of more than 64 sequences take another way, and longer."""


@pytest.mark.parametrize("role", ["mixed", "decode"])
@pytest.mark.parametrize("largest", [40.0, 90.0, 316.0, 700.0, 6000.0])
def test_no_batch_serves_more_than_the_one_that_serves_most(role, largest):
    index = PCIE.fitting
    batch, bound = fastest(PCIE, index, role, np.full(len(index), largest))
    own = rate_at(PCIE, index, batch, role)

    for share in np.geomspace(1e-2, 1.0, 60):
        rates = rate_at(PCIE, index, np.full(len(index), largest * share), role)
        assert (rates <= bound * (1 + 1e-9)).all()
        assert (rates <= own * 1.002).all()
    assert (bound <= own * 1.01).all()
    assert (batch <= largest).all()


def test_a_column_has_the_batch_that_serves_most_and_not_the_largest():
    """Where a step of 65 sequences takes a third longer than one of 64 and no limit is met before 300, a
    server serves most with 64."""
    index = PCIE.fitting[PCIE.designs.tp[PCIE.fitting] == 8][:1]
    ((_, found),) = decoding(PCIE, index, [("decode", 10.0)])

    assert 60 < found.points.sequences[0] < 65
    assert found.points.rate[0] > 1.2 * rate_at(PCIE, index, np.array([300.0]), "decode")[0]
