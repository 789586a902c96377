"""Pairs whose decode servers draft: a step that gives several tokens makes the first of them wait longer."""

from dataclasses import replace

import pytest

from planner.candidates.dominance import Counts, undominated
from planner.candidates.edges import Edges
from planner.problems.fleet import Traffic, _groups
from tests.drafts.test_plans import pool_of

TRAFFIC = Traffic({"0": 1.0}, {"0": 1e6}, {"0": 201}, 2.0)
EDGES = Edges((1.0, 2.0), (0.02, 0.05))


@pytest.fixture(scope="module")
def known():
    asked, pool = pool_of(speculation="mtp", draft_tokens=3, acceptance=0.5)
    return asked, pool, next(c for c in pool.candidates if c.role == "decode" and c.draft)


@pytest.mark.parametrize(("side", "late"), [("plan", 0.05 * 1.875), ("bound", 0.02 * 1.875)])
def test_what_decoding_adds_to_ttft_is_a_step_of_several_tokens(known, side, late):
    """The edge is 50 ms a token, the one before 20 ms: steps of 1.875 tokens take so many times as long."""
    asked, _, c = known
    nodes = {n.id: n for n in asked.cluster.classes}
    groups, _ = _groups([replace(c, late_s=0.05)], nodes, TRAFFIC, side, EDGES)

    assert c.emitted == 1.875
    assert groups["decode"][0].late_s == pytest.approx(late)


def test_sides_of_pairs_with_other_steps_do_not_make_each_other_pointless(known):
    """How late they are is counted in tokens, so only what has as many of a step compares."""
    _, _, c = known
    rows = {name: {w: 2 * u for w, u in row.items()} for name, row in c.use.items()}
    worse = replace(c, id="worse", use=rows, least=rows)

    def left(other):
        return {x.id for x in undominated([c, other], {"h100-sxm": 8}, Counts(latency=False, watts=False))}

    assert "worse" not in left(worse)
    assert "worse" in left(replace(worse, emitted=1.5))


def test_only_sides_that_decode_count_tokens_of_a_step(known):
    _, pool, _ = known

    assert {c.emitted for c in pool.candidates if c.role != "decode"} == {1.0}
    assert {c.emitted for c in pool.candidates if c.role == "decode"} == {1.0, 1.875}
