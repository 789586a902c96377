"""Mixed pipelines in a shortlist: by trying every way to run each, and by impossibility."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import packing, pipeline
from tests.solvers.pipelines import best_rates, packed, random_problem


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), even=st.booleans(), alike=st.booleans(), cost=st.booleans())
def test_each_of_a_shortlist_is_run_the_best_way_and_all_are_there(seed, even, alike, cost):
    p = random_problem(np.random.default_rng(seed), even=even, alike=alike)
    rates = {
        use: rate
        for use, rate in best_rates(p).items()
        if len({p.kinds[k].group for k in np.flatnonzero(use)}) > 1
    }
    asked = replace(p, objective="cost", demand=0.1) if cost else p

    best, ranked = pipeline.shortlist(asked, 1000)

    found = {tuple(sum(k == x for x, _ in f.stages) for k in range(len(p.kinds))): f.rate for f in best}
    assert found == pytest.approx({use: rates[use] for use in found})
    assert found.keys() >= {use for use in rates if packed(p, [use])}
    assert ranked == len(found)


def test_every_row_of_the_docstring_is_in_the_model():
    p = replace(random_problem(np.random.default_rng(0)), objective="cost", demand=0.2)
    columns = pipeline.Columns.of(p, pipeline.every(p, 100))
    families = {family for family, _ in pipeline.build(p, columns).rows}

    assert families <= {"serve", "nodes", "fit", "full", "cover"}
    assert {"serve", "nodes"} <= families
    assert "\nserve" in pipeline.__doc__
    assert "\nnodes" in pipeline.__doc__
    assert "\nfit, full, cover" in pipeline.__doc__
    assert "fit" in packing.__doc__


def test_without_points_there_is_no_pipeline():
    nothing = replace(random_problem(np.random.default_rng(0)), points=[])

    assert len(pipeline.every(nothing, 10)) == 0
    assert pipeline.shortlist(nothing, 4) == ([], 0)
