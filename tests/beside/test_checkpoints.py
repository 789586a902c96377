"""Other precisions of the weights: known checkpoints by name, only where asked for, never taken."""

import pytest

from model_zoo import catalog
from planner import plan
from planner.beside.checkpoints import known
from planner.check import check
from planner.errors import InputError

SMALL = {"gpus": "4xL40S", "isl": 500, "osl": 100, "engine": "vllm", "work_limit": 200}


@pytest.fixture(scope="module")
def made():
    return plan(None, "llama-3.1-8b", precisions="fp8, int4_wo", **SMALL)


def test_a_known_checkpoint_is_named_and_its_fleet_is_the_best_of_it(made):
    line = next(a for a in made.alternatives if a.what.startswith("weights in fp8"))
    alone = plan(None, "llama-3.1-8b-fp8", explain=False, simple=0.0, **SMALL)

    assert "(llama-3.1-8b-fp8)" in line.what
    assert line.objective == pytest.approx(alone.proof.objective, rel=0.02)
    assert "GiB fewer" in line.why
    assert "check the quality" in line.why


def test_a_precision_that_no_engine_runs_there_says_why():
    """An MI300X has no fp4."""
    made = plan(None, "llama-3.1-8b", precisions="nvfp4", **SMALL | {"gpus": "1xMI300X"})
    line = next(a for a in made.alternatives if a.what.startswith("weights in nvfp4"))

    assert line.objective is None
    assert "no nvfp4 weights on mi300x" in line.why


def test_it_is_never_taken_by_itself(made):
    assert {r.precision.weights for r in made.replicas} == {"bf16"}
    assert check(made) == []


def test_nothing_is_tried_that_nobody_asked_for():
    bare = plan(None, "llama-3.1-8b", **SMALL)

    assert not [a for a in bare.alternatives if a.what.startswith("weights in")]
    assert "precisions" not in bare.problem.options


@pytest.mark.parametrize(
    ("name", "precision", "found"),
    [
        ("llama-3.1-70b", "fp8", "llama-3.1-70b-fp8"),
        ("llama-3.1-70b", "awq", "llama-3.1-70b-awq-int4"),
        ("glm-5", "nvfp4", "glm-5-nvfp4"),
        ("llama-3.1-70b", "nvfp4", None),
        ("mistral-7b", "fp8", None),
    ],
)
def test_checkpoints_of_the_same_model_are_found_by_their_precision(name, precision, found):
    other = known(catalog.load(name), precision)

    assert (other and other.name) == found


def test_a_precision_that_does_not_exist_is_refused():
    with pytest.raises(InputError) as error:
        plan(None, "llama-3.1-8b", precisions="fp8,fp7", **SMALL)

    assert error.value.where == "--precisions"
    assert "`fp8`" in error.value.hint
