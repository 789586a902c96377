"""From what was asked to a question that can be solved: default limits give way, asked ones do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.errors import Infeasible
from planner.inputs.options import Options
from planner.question.asked import Asked, read
from planner.question.posed import ask_of, pooled, pose


def asked(model: str = "llama-3.1-8b", gpus: str = "2xH100", loads: Any = None, **options: Any) -> Asked:
    return read(None, model, gpus, "chat", loads or {}, options)


def test_a_question_that_can_be_met_stays_as_it_is():
    given = asked(engine="vllm")
    posed, pool, question = pose(given)

    assert posed is given
    assert question.workload is given.workload
    assert pool.candidates
    assert {c.engine for c in pool.candidates} == {"vllm"}


def test_what_candidates_are_asked_for_follows_the_options():
    ask = ask_of(asked(precision="fp8", engine="sglang", risk=0.1, budget="watts=5000"))

    assert (ask.precisions.gemm, ask.precisions.kv) == ("fp8", "bf16")
    assert ask.engines == ("sglang",)
    assert ask.watts_limited
    assert ask.risk_z == pytest.approx(1.2816, abs=1e-4)  # what nine in ten are below
    assert not ask_of(asked()).watts_limited
    assert set(ask_of(asked()).engines) > {"sglang", "vllm"}
    assert ask_of(asked()).busiest == Options().max_utilisation


def test_a_default_limit_that_nothing_meets_is_relaxed_and_told():
    """No token of 70 billion parameters in a millisecond; the limit on the first token was asked for."""
    given = asked("llama-3.1-70b", "8xL40S", {"ttft_ms": 20_000}, engine="vllm")
    assert "slo.tpot_ms" in given.defaulted
    assert "slo.ttft_ms" not in given.defaulted
    slo = given.workload.slo.model_copy(update={"tpot_ms": 1.0})
    given = replace(given, workload=given.workload.model_copy(update={"slo": slo}))

    posed, pool, question = pose(given)
    (note,) = [w for w in posed.warnings if w.code == "slo_relaxed"]
    reached = posed.workload.slo

    assert reached.tpot_ms is not None
    assert reached.tpot_ms > 1.0
    assert note.message.endswith(f": TPOT 1 -> {reached.tpot_ms:g} ms")
    assert reached.ttft_ms == 20_000
    assert question.workload is posed.workload
    assert pool.candidates


def test_a_limit_that_was_asked_for_is_not_relaxed():
    with pytest.raises(Infeasible, match="TPOT"):
        pose(asked("llama-3.1-70b", "8xL40S", {"tpot_ms": 1.0}, engine="vllm"))


def test_a_model_that_fits_nowhere_is_refused_with_what_would_hold_it():
    with pytest.raises(Infeasible, match="does not fit") as error:
        pose(asked("llama-3.1-70b", "1xL4", precision="bf16"))
    assert error.value.hint


def test_only_some_designs_are_kept_where_that_is_asked():
    def single(pool: Any, ask: Any, cluster: Any) -> Any:
        kept = tuple(c for c in pool.candidates if c.gpus == 1)
        return replace(pool, candidates=kept)

    pool, _ = pooled(replace(asked(engine="vllm"), only=single))
    assert {c.gpus for c in pool.candidates} == {1}
