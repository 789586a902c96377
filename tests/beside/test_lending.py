"""What servers take of time and cache alone and where they lend each other room, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from planner.beside import lending
from planner.beside.lending import ANSWER_S, carried, lent_cache, use
from planner.beside.planned import Planned
from planner.plans.operation import index_of
from planner.plans.schema import LongPrompt
from solvers.linear import Limits
from tests.beside.solved import solved

PACE_S = 0.1
OWN = LongPrompt(what="the plan", ttft_ms=1000.0, kv_tokens=1e6, started_by="vllm", why="")


@pytest.fixture
def pair() -> Planned:
    """Two replicas of a GPU each that answer prompts of 96,000 tokens."""
    load = {"isl": 96_000, "osl": 500, "ttft_ms": 200_000, "tpot_ms": 1e3 * PACE_S, "loop": "closed"}
    planned = Planned(*solved("2xL40S", "llama-3.1-8b", **load), Limits())
    assert [(g.count, g.candidate.gpus) for g in planned.made] == [(2, 1)]
    return planned


def holding(planned: Planned, sequences: float) -> Planned:
    """The plan with room for so many sequences in a replica, and time for all of them."""
    (g,) = planned.made
    memory = replace(g.setup.memory, kv_bytes=sequences * g.setup.held_bytes[:, 0])
    fast = replace(g.candidate.step, prefill_s_per_token=np.zeros(1), prefill_s_per_pair=np.zeros(1))
    own = replace(g, setup=replace(g.setup, memory=memory), candidate=replace(g.candidate, step=fast))
    planned.__dict__["fleet"] = replace(planned.fleet)
    planned.fleet.__dict__["made"] = [own]
    return planned


def test_a_server_alone_holds_whole_sequences(pair):
    """2.6 fit: 499 steps of 0.1 s a request, on 2 places or on 2.6."""
    (g,) = holding(pair, 2.6).made

    assert use(g, PACE_S, False)["kv"]["0"] == pytest.approx(49.9 / 2)
    assert use(g, PACE_S, True)["kv"]["0"] == pytest.approx(49.9 / 2.6)


def test_who_lends_waits_for_answers_in_every_layer(pair):
    (g,) = pair.made
    left_s = PACE_S - g.candidate.step.t0_s[0]
    apart, lent = (use(g, PACE_S, lends)["busy"]["0"] for lends in (False, True))

    assert lent / apart == pytest.approx(left_s / (left_s - 32 * ANSWER_S))


def test_one_server_has_nobody_to_lend_to(pair):
    one = replace(pair.made[0], count=1)

    assert use(one, PACE_S, True) == use(one, PACE_S, False)


def test_attention_dp_ranks_divide_time_and_cache(pair, monkeypatch):
    (g,) = pair.made
    monkeypatch.setattr(lending, "index_of", lambda setup, candidate: index_of(setup, g.candidate))
    two = replace(g, candidate=replace(g.candidate, design=replace(g.candidate.design, attn_dp=2)))

    for lends in (False, True):
        one, both = use(g, PACE_S, lends), use(two, PACE_S, lends)
        assert both == {row: {"0": pytest.approx(own["0"] / 2)} for row, own in one.items()}


def test_two_replicas_with_room_for_two_and_a_half_hold_five_together(pair):
    planned = holding(pair, 2.5)
    (line,) = lent_cache(planned, OWN)

    assert carried(planned, False) == pytest.approx(4 / 49.9)
    assert carried(planned, True) == pytest.approx(5 / 49.9)
    assert line.why.startswith("25% more requests/s")
    assert line.kv_tokens == pytest.approx(2 * 2.5 * 96_000, rel=0.01)
    assert line.started_by is None


def test_a_request_that_fits_no_server_fits_two(pair):
    planned = holding(pair, 0.6)
    (line,) = lent_cache(planned, OWN)

    assert carried(planned, False) == 0
    assert carried(planned, True) == pytest.approx(1.2 / 49.9)
    assert line.why.startswith("serves all buckets")


def test_nothing_is_said_where_nothing_is_left_over(pair):
    assert list(lent_cache(holding(pair, 3.0), OWN)) == []
