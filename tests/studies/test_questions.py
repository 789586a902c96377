"""Questions of cells: what makes two the same, what makes them differ, and that they travel."""

import json
import pickle
import time
from dataclasses import replace
from pathlib import Path

import pytest

from planner.api import answer as plan_of
from planner.errors import InputError
from planner.objectives import OBJECTIVES
from planner.studies import questions
from planner.studies.questions import Unlike, answer, digest, key, made_by, resolve

SMALL = {"gpus": "1xL40S", "model": "llama-3.1-8b", "engine": "vllm"}


def asked(**more):
    return resolve({name: value for name, value in {**SMALL, **more}.items() if value is not None})[0]


@pytest.mark.parametrize(
    "same",
    [
        {"gpus": "1x l40s"},
        {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        {"objective": "throughput"},
        {"isl": 1024},  # what the preset has
        {"speculation": "off"},
        {"time_limit": 600.0},
    ],
)
def test_cells_that_come_to_the_same_have_one_digest(same):
    assert asked(**same) == asked()


@pytest.mark.parametrize(
    "other",
    [
        {"gpus": "2xL40S"},
        {"gpus": "1xL4"},
        {"model": "qwen3-8b"},
        {"isl": 1025},
        {"rate": 2.0},
        {"tpot_ms": 50},  # what the preset has, but asked for it does not give way
        {"engine": "sglang"},
        {"precision": "fp8"},
        {"simple": 0.0},
        {"gap": 0.02},
        {"seed": 1},
        {"risk": 0.1},
    ],
)
def test_cells_that_may_have_another_answer_have_another_digest(other):
    assert asked(**other) != asked()


def test_clusters_that_differ_by_name_alone_are_the_same(tmp_path):
    text = "nodes: [{device: l40s, gpus_per_node: 1}]\n"
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("name: other\n" + text)
    (tmp_path / "c.yaml").write_text(text.replace("}", ", price_usd_per_hour: 2}"))
    a, b, c = (asked(gpus=None, cluster=str(tmp_path / f"{name}.yaml")) for name in "abc")

    assert a == b != c


@pytest.mark.parametrize("option", ["expert_loads", "speculation"])
def test_a_cell_with_another_file_is_another_cell(option, tmp_path):
    path, prefix = tmp_path / "file.json", {"speculation": "draft:"}.get(option, "")
    path.write_text("one")
    before = key({option: f"{prefix}{path}"})
    path.write_text("two")

    assert key({option: f"{prefix}{path}"}) != before
    assert option in questions.READ_BY_NAME


@pytest.mark.parametrize("option", ["profile", "trace"])
def test_what_stands_in_a_file_that_is_named_counts(option, tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("one")
    before = questions.file_digest(path)
    path.write_text("two")

    assert questions.file_digest(path) != before
    asking = resolve(SMALL)[1]
    assert digest(asking, {option: "1"}) != digest(asking, {option: "2"})


def test_how_hard_a_question_is_thought_about_is_part_of_it():
    asking = resolve(SMALL)[1]
    other = replace(asking, limits=replace(asking.limits, work=5))

    assert digest(asking, {}) != digest(other, {})


def test_who_answers_is_part_of_the_question(monkeypatch):
    before = asked()
    monkeypatch.setattr(questions, "made_by", lambda: "another version")

    assert asked() != before


def test_bad_input_is_no_question():
    with pytest.raises(InputError, match="unknown model"):
        asked(model="no-such-model")


@pytest.mark.parametrize("more", [{}, {"rate": 2.0, "objective": "gpus"}, {"isl": 60000}, {"tpot_ms": 0.01}])
def test_a_question_that_has_travelled_has_the_figures_of_the_plan(more):
    """Also against the plan with all that explains it: a row has nothing of that."""
    asking = resolve({**SMALL, **more})[1]
    found = answer(questions.plan, made_by(), pickle.loads(pickle.dumps(asking)))
    whole = answer(lambda asking: plan_of(asking, time.perf_counter()), made_by(), asking)
    reasons = [(each.pop("error") or {}).get("code") for each in (found, whole)]

    assert json.dumps(found) == json.dumps(whole)
    assert reasons[0] == reasons[1] == ("infeasible" if "tpot_ms" in more else None)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_travels_as_the_one_that_it_is(objective):
    assert pickle.loads(pickle.dumps(objective)) is objective


def test_a_worker_that_is_not_the_same_does_not_answer():
    with pytest.raises(Unlike, match="other files of Meshwright"):
        answer(questions.plan, "another", None)


def test_every_file_of_ours_is_in_who_answers(tmp_path, monkeypatch):
    for name in ("planner/studies/questions.py", "planner/data.csv", "solvers/one.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(questions, "__file__", str(tmp_path / "planner/studies/questions.py"))
    seen = {made_by.__wrapped__()}
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
        path.write_text("2")
        seen.add(made_by.__wrapped__())
    Path(tmp_path, "solvers/__pycache__").mkdir()
    Path(tmp_path, "solvers/__pycache__/one.pyc").write_text("3")
    seen.add(made_by.__wrapped__())

    assert len(seen) == 4
