"""Other designs beside a plan: as good as planning with them alone; a true reason where there are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import api
from planner.cli.app import run
from planner.errors import Infeasible, InputError, OutOfTime
from planner.explain.why_not import SIZES, asked_again, parse, solved, why_not
from solvers.linear import Limits
from tests.beside.solved import ended

SMALL = {"gpus": "4xL40S", "isl": 500, "osl": 100, "work_limit": 300, "simple": 0.0}
LIMITS = Limits(gap=0.005, seconds=60.0)


@pytest.fixture(scope="module")
def plan():
    return api.plan(None, "llama-3.1-8b", **SMALL)


@pytest.fixture(scope="module")
def beside(plan):
    found = solved(asked_again(plan), LIMITS)
    return lambda text: why_not(found, [parse(text)], LIMITS)[0]


def test_the_question_asked_again_has_the_plans_answer(plan):
    again = solved(asked_again(plan), LIMITS).best.solution

    assert again.objective == pytest.approx(plan.proof.objective, rel=0.01)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("time_limit", OutOfTime),
        ("interrupted", KeyboardInterrupt),
        ("optimal", OutOfTime),  # the program's fleet keeps no promise: another one may
        ("infeasible", Infeasible),
    ],
)
def test_a_search_that_was_stopped_is_not_told_as_no_fleet(plan, monkeypatch, status, error):
    found = solved(asked_again(plan), LIMITS)
    stopped = ended(found.best, status=status, objective=None)
    monkeypatch.setattr("planner.explain.why_not.find", lambda *given: stopped)

    with pytest.raises(error):
        solved(asked_again(plan), LIMITS)


def test_one_engine_alone_is_as_good_as_planning_with_it(plan, beside):
    """Though most of its designs were dominated by another engine's, and were no candidates any more."""
    alone = api.plan(None, "llama-3.1-8b", engine="vllm", explain=False, **SMALL)

    assert beside("engine=vllm").objective == pytest.approx(alone.proof.objective, rel=0.02)


def test_a_size_alone_is_no_better_than_the_best_and_is_named(plan, beside):
    line = beside("tp=2 pp=1")

    assert 0 < line.objective < plan.proof.objective
    assert line.loss == pytest.approx(1 - line.objective / plan.proof.own, abs=0.02)
    assert line.what == "only tp=2 pp=1"
    assert "tp2" in line.why


def test_split_and_mixed_are_roles(beside):
    assert "prefill" in beside("role=split").why
    assert "prefill" not in beside("role=mixed").why.split(";")[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tp=3", "no engine starts"),
        ("device=h100", "no engine starts"),
        ("tp=4 pp=2", "more GPUs than there are"),
    ],
)
def test_where_no_design_is_so_that_is_the_reason(beside, text, reason):
    line = beside(text)

    assert line.objective is None
    assert line.status == "infeasible"
    assert reason in line.why


def test_a_design_without_room_or_speed_has_that_reason():
    plan = api.plan(None, "llama-3.1-70b-fp8", gpus="4xL40S", isl=500, osl=100, tpot_ms=40, explain=False)
    found = solved(asked_again(plan), LIMITS)
    room, slow = why_not(found, [parse("tp=1 pp=1"), parse("tp=1 pp=4")], LIMITS)

    assert "find no room" in room.why
    assert "TPOT" in slow.why
    assert "the limit is 40 ms" in slow.why


@given(st.dictionaries(st.sampled_from(sorted(set(SIZES) - {"dp"})), st.integers(1, 64), min_size=1))
def test_sizes_are_read_as_they_are_written(sizes):
    spec = parse(", ".join(f"{name}={size}" for name, size in sizes.items()))

    assert spec.sizes == {SIZES[name]: size for name, size in sizes.items()}
    assert parse("dp=2").sizes == parse("attn_dp=2").sizes


@pytest.mark.parametrize(
    "text",
    [
        *["", "tp", "tp=", "tp=0", "tp=1.5", "tp=99999", "tpp=8", "engine=vlm", "role=both", "tp=²"],
        *["tp=2 tp=4", "dp=2 attn_dp=2", "engine=vllm engine=sglang"],
    ],
)
def test_what_is_no_design_is_refused(text):
    with pytest.raises(InputError) as error:
        parse(text)

    assert error.value.where == "--why-not"


@pytest.mark.parametrize(("text", "near"), [("engine=vlm", "vllm"), ("role=splt", "split")])
def test_a_word_that_is_none_has_the_nearest(text, near):
    with pytest.raises(InputError) as error:
        parse(text)

    assert f"`{near}`" in error.value.hint


def test_the_command_explains_a_plan_and_another_design(plan, tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())

    assert run(["explain", str(path)]) == 0
    told = capsys.readouterr().out
    assert "Bottleneck" in told
    assert "Alternatives considered" in told
    assert run(["explain", str(path), "--why-not", "tp=2", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert [line["what"] for line in form["why_not"]] == ["only tp=2"]
    assert form["prices"]
    assert run(["explain", str(path), "--why-not", "tpp=2"]) == 2
