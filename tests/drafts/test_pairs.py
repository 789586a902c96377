"""Pairs whose decode servers draft: a step that gives several tokens makes the first of them wait longer."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from planner.candidates.dominance import undominated
from planner.candidates.needs import Counts
from planner.candidates.pairing import Edges
from planner.candidates.tangents import _seconds
from planner.drafts.model import draft_of
from planner.plans import found
from planner.problems.pairs import Traffic, groups_of
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits
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
    groups, _ = groups_of([replace(c, late_s=0.05)], nodes, TRAFFIC, side, EDGES)

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


def test_a_request_waits_for_a_whole_step_of_the_server_that_decodes(monkeypatch):
    """Beside its prompt and the transfer, here of no time: as many tokens as come at once, at TPOT each."""
    monkeypatch.setattr(found, "transfer_s", lambda *_: 0.0)
    loads = {"isl": 4000, "osl": 201, "rate": None, "ttft_ms": 400, "tpot_ms": 6, "percentile": None}
    asked = read(
        None, "mimo-7b", "2xh100-sxm", "chat", loads, {"engine": "vllm", "speculation": "mtp", "risk": 0.5}
    )
    asked, pool, question = pose(asked)
    best = find(question, pool, Limits(0.01, 10.0, 200))
    (path, *_) = found.paths(best, made := found.groups(best))
    step_s = path.decoder.operation.tpot_s[0] * (1 + draft_of(path.decoder.setup.model).accepted)

    assert {g.candidate.role for g in made} == {"prefill", "decode"}
    assert path.ttft_s == pytest.approx(path.first.operation.ttft_s[0] + step_s)


def test_latency_of_a_server_that_decodes_begins_with_a_whole_step():
    """10 ms a token, two tokens a step, 100 tokens: 20 ms to the first, and 99 of 10 ms."""
    setup = SimpleNamespace(mix=SimpleNamespace(osl=np.array([100.0]), emitted=2.0))
    columns = SimpleNamespace(setup=setup, role="decode")
    points = SimpleNamespace(tpot_s=np.array([[0.01]]), ttft_s=np.array([[5.0]]))

    assert _seconds(columns, points)[0, 0] == pytest.approx(1.01)
