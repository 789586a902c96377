"""Drafts that fill a pipeline: the estimate beside plans of pipelines with few requests."""

from pathlib import Path

import pytest

from planner import plan
from planner.beside.pipelined_drafts import WHAT, pipelined_drafts, token_s
from tests.beside.solved import alone

told = alone(pipelined_drafts)

BOXES = Path(__file__).resolve().parents[2] / "cluster_configs" / "examples" / "four-small-boxes.yaml"
ASKED = {"model": "llama-3.1-70b", "precision": "int4_wo", "work_limit": 100, "loop": "closed"}


def test_what_is_always_accepted_comes_at_a_stages_pace_and_what_never_is_at_a_steps():
    assert token_s(0.4, 4, 1.0) == pytest.approx(0.1)
    assert token_s(0.4, 4, 0.0) == pytest.approx(0.4)


def test_tokens_of_a_chain_and_the_one_after_it():
    """p = 2/3: two tokens at 0.1 s each, then one that takes four stages: 0.6 s for three tokens."""
    assert token_s(0.4, 4, 2 / 3) == pytest.approx(0.2)


def test_a_pipeline_that_few_requests_fill_has_the_line():
    """Requests/s of one request at a time: its prompt, and osl - 1 tokens at that pace."""
    made = plan(BOXES, speculation="ngram", acceptance=0.7, **ASKED)
    (group,), (bucket,) = made.replicas, made.problem.workload["buckets"]
    (line,) = (a for a in made.alternatives if a.what == WHAT)
    each = token_s(group.step.decode_s, group.pp, 0.7)
    seconds = group.step.prefill_s + (bucket["osl"] - 1) * each

    assert group.pp == 4
    assert line.status == "estimate"
    assert line.objective == pytest.approx(group.count / seconds, rel=1e-3)


def test_where_nothing_is_drafted_there_is_none():
    assert WHAT not in [a.what for a in plan(BOXES, **ASKED).alternatives]
