"""What is asked of several models: parts of all requests, what holds for all, and what one cannot ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from planner.errors import InputError
from planner.inputs.options import Budget
from planner.inputs.several import Wanted
from planner.inputs.workload import Bucket, Workload
from planner.several.asked import NOT_BUILT, read_several, refuse, wanted

GPUS = from_gpus("4xh100")
NAMES = ("llama-3.1-8b", "qwen3-8b", "qwen3-32b")


def load(rate: float | None = None, **given: object) -> Workload:
    return Workload(buckets=[Bucket(isl=100, osl=10)], rate_rps=rate, **given)


def of(*workloads: Workload, weights=(1.0, 1.0, 1.0), **options: object):
    models = [
        Wanted(name, w, ["slo.ttft_ms", "options.risk"], None, weight, f"models[{i}]")
        for i, (name, w, weight) in enumerate(zip(NAMES, workloads, weights, strict=False))
    ]
    return read_several(GPUS, None, models, options)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=3))
def test_rates_are_parts_of_all_and_add_up(rates):
    found = of(*map(load, rates), weights=(5.0, 1.0, 1.0))  # beside rates, weights say nothing

    assert found.rate_rps == pytest.approx(sum(rates))
    assert found.weights == pytest.approx([rate / sum(rates) for rate in rates])


def test_without_rates_weights_are_parts_of_all():
    found = of(load(), load(), load(), weights=(1.0, 2.0, 5.0))

    assert (found.rate_rps, found.weights) == (None, (0.125, 0.25, 0.625))


def test_every_model_has_its_own_question_on_the_same_cluster():
    found = of(load(3.0), load(1.0, prefix_hit=0.5), engine="vllm")

    assert [one.card.name for one in found.asked] == list(NAMES[:2])
    assert all(one.cluster is GPUS for one in found.asked)
    assert [one.workload.prefix_hit for one in found.asked] == [0.0, 0.5]
    assert {one.options.engine for one in found.asked} == {"vllm"}
    for name in ("slo.ttft_ms", "options.risk"):  # the second is found to be defaulted when it is read, too
        assert [one.defaulted.count(name) for one in found.asked] == [1, 1]


def test_an_engine_of_its_own_goes_before_that_of_all():
    own, all_ = Wanted(NAMES[0], load(1.0), engine="sglang"), Wanted(NAMES[1], load(1.0))
    found = read_several(GPUS, None, [own, all_], {"engine": "vllm"})

    assert [one.options.engine for one in found.asked] == ["sglang", "vllm"]


@pytest.mark.parametrize(
    ("workloads", "options", "where", "words"),
    [
        ((load(1.0), load()), {}, "models[1]", "qwen3-8b has no rate, others have"),
        ((load(), load(1.0)), {}, "models[0]", "llama-3.1-8b has no rate, others have"),
        ((load(), load()), {"objective": "cost"}, "--objective", "cost needs a rate of every model"),
        ((load(), load()), {"objective": "gpus"}, "--objective", "gpus needs a rate of every model"),
        ((load(1.0), load(1.0, reuse=[{"name": "chat", "tokens": 50}])), {}, "models[1]", "idle"),
    ],
)
def test_what_models_cannot_ask_together_is_refused_by_its_place(workloads, options, where, words):
    with pytest.raises(InputError) as error:
        of(*workloads, **options)

    assert error.value.where == where
    assert words in error.value.message


def test_a_model_by_two_names_is_named_twice():
    models = [
        Wanted(name, load(1.0), where=f"models[{i}]") for i, name in enumerate((NAMES[0], "LLaMA 3.1 8B"))
    ]

    with pytest.raises(InputError, match=r"llama-3.1-8b is named twice") as error:
        read_several(GPUS, None, models, {})
    assert error.value.where == "models[1]"


@pytest.mark.parametrize(("cluster", "gpus"), [(None, None), (GPUS, "4xh100")])
def test_one_cluster_is_named(cluster, gpus):
    with pytest.raises(InputError, match="name one cluster"):
        read_several(cluster, gpus, [Wanted(NAMES[0], load(1.0))], {})


@pytest.mark.parametrize("name", NOT_BUILT)
def test_what_is_planned_for_one_model_is_refused_by_its_option(name):
    refuse({name: None})
    refuse({"speculation": "off"})
    with pytest.raises(InputError) as error:
        refuse({name: "something" if name == "speculation" else "off"})  # a file may be called so
    assert error.value.where == "--" + name.replace("_", "-")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"engine": "chains"}, "--engine"),
        ({"engine": "vllm"}, None),
        ({"budget": "watts=500"}, "--budget"),
        ({"budget": "gpus=4,watts=500"}, "--budget"),
        ({"budget": Budget(watts=500)}, "--budget"),
        ({"budget": "gpus=4"}, None),
        ({"budget": Budget(gpus=4)}, None),  # its form names watts, and limits none
        ({"objective": "latency"}, "--objective"),
        ({"objective": "energy"}, "--objective"),
        ({"objective": "gpus"}, None),
    ],
)
def test_goals_and_budgets_that_one_program_of_all_has_no_row_for(options, where):
    if where is None:
        refuse(options)
    else:
        with pytest.raises(InputError) as error:
            refuse(options)
        assert error.value.where == where


def test_models_of_the_command_line_share_the_workload_that_is_named_there():
    given_load, already = load(2.0), Wanted(NAMES[1], load(1.0))
    found = wanted([NAMES[0], already], given_load, {"rate": None}, "vllm")

    assert (found[0].workload, found[0].engine, found[0].where) == (given_load, "vllm", "--model")
    assert found[1] is already
    assert wanted([NAMES[0]], "chat", {"rate": 7.0}, None)[0].workload.rate_rps == 7.0


@pytest.mark.parametrize(
    ("models", "loads", "where"),
    [
        ([NAMES[0]], {}, "--model"),
        ([], {"ttft_ms": 100.0}, "--ttft-ms"),
        ([], {"rate": 2.0, "isl": None}, "--rate"),
        ([], {"rate": None}, None),
    ],
)
def test_what_a_file_says_is_not_said_again(tmp_path, models, loads, where):
    path = tmp_path / "both.yaml"
    path.write_text(f"models:\n  - {{model: {NAMES[0]}, isl: 100, osl: 10, rate_rps: 3}}\n")
    if where is None:
        (found,) = wanted(models, path, loads, None)
        assert (found.model, found.workload.rate_rps) == (NAMES[0], 3)
    else:
        with pytest.raises(InputError) as error:
            wanted(models, path, loads, None)
        assert error.value.where == where
