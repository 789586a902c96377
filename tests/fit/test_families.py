"""The largest model of each family on given nodes, and tokens a second of readers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from model_zoo.derive import total_params
from planner.cli.app import run
from planner.fit.families import family, largest_of_each, size
from planner.fit.fits import Ask, fit
from planner.fit.grid import copies
from planner.fit.speeds import speeds
from planner.predict.predictions import Prediction, predict_rows

EXAMPLES = Path(__file__).parents[2] / "cluster_configs" / "examples"


def asks(*names: str) -> list[Ask]:
    return [Ask(catalog.load(name)) for name in names or catalog.names()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-3.1-405b-awq-int4", "llama-3.1"),
        ("qwen3-30b-a3b-2507-fp8", "qwen3"),
        ("qwen3-vl-2b", "qwen3-vl"),
        ("mixtral-8x22b", "mixtral"),
        ("deepseek-r1", "deepseek"),
        ("deepseek-v3.2-nvfp4", "deepseek"),
        ("phi-3.5-mini", "phi-3.5"),
        ("llama-4-scout", "llama-4"),
        ("gpt-oss-20b", "gpt-oss"),
        ("yi-34b", "yi"),
    ],
)
def test_a_family_is_the_name_up_to_its_size(name: str, expected: str):
    assert family(name) == expected


def test_no_larger_model_of_the_family_fits():
    """Each row against `fit` of every larger member, and of itself."""
    where = from_gpus("2xL40S")
    members = ("qwen2.5-0.5b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b", "qwen2.5-72b-awq", "phi-4")
    found = {one.family: one.model for one in largest_of_each(asks(*members), where)}

    assert set(found) == {"qwen2.5", "phi-4"}
    chosen = catalog.load(found["qwen2.5"])
    assert fit(Ask(chosen), where).fits
    larger = [n for n in members if n.startswith("qwen") and size(catalog.load(n)) > size(chosen)]
    assert larger
    assert not any(fit(Ask(catalog.load(n)), where).fits for n in larger)


def test_of_equals_the_least_quantised_that_fits_is_shown():
    members = ("llama-3.1-70b", "llama-3.1-70b-awq-int4", "llama-3.1-70b-fp8", "llama-3.1-8b")

    assert [largest_of_each(asks(*members), from_gpus(g))[0].model for g in ("2xH100", "1xH100", "1xL4")] == [
        "llama-3.1-70b",
        "llama-3.1-70b-fp8",
        "llama-3.1-8b",
    ]


def test_largest_come_first_and_what_fits_nowhere_is_left_out():
    found = largest_of_each(asks("kimi-k2", "phi-4", "mixtral-8x7b", "mistral-7b"), from_gpus("2xH100"))

    assert [one.family for one in found] == ["mixtral", "phi-4", "mistral"]
    assert [one.params for one in found] == [total_params(catalog.load(one.model)) for one in found]


def test_of_several_classes_the_one_that_is_quickest_for_the_reader_serves():
    alone = [largest_of_each(asks("phi-4"), from_gpus(g))[0] for g in ("1xH100", "1xL40S")]
    (both,) = largest_of_each(asks("phi-4"), from_gpus("1xL40S,1xH100"))

    assert alone[0].speed.tok_per_s > alone[1].speed.tok_per_s
    assert both.device == "h100-sxm"
    assert both.speed.tok_per_s == pytest.approx(alone[0].speed.tok_per_s)


@pytest.mark.parametrize(
    ("gpus", "model", "readers"), [("2xH100", "llama-3.1-70b", 1), ("8xL40S", "phi-4", 30)]
)
def test_speeds_are_those_that_predict_states(gpus: str, model: str, readers: int):
    where = from_gpus(gpus)
    (node,) = where.classes
    ask = Ask(catalog.load(model))
    found = speeds(ask, node, fit(ask, where).classes[0], readers)

    assert found
    for row, speed in found.items():
        asked = {
            "model": model,
            "device": node.device.name,
            "tp": str(row.tp),
            "pp": str(row.pp),
            "isl": "7936",
            "osl": "256",
            "concurrency": str(math.ceil(readers / copies(row.gpus, node))),
            "start": "steady",
        }
        (answer,) = predict_rows([asked], cluster=where)
        assert isinstance(answer, Prediction)
        assert speed.tok_per_s == pytest.approx(1e3 / (answer.tpot_ms or 0))
        assert speed.ttft_s == pytest.approx((answer.ttft_ms or 0) / 1e3)
        assert copies(row.gpus, node) * row.concurrency >= readers


def test_more_readers_never_get_more_each_and_some_replicas_hold_too_few():
    where = from_gpus("4xH100")
    ask = Ask(catalog.load("qwen3-32b"))
    part = fit(ask, where).classes[0]
    one, many = (speeds(ask, where.classes[0], part, n) for n in (1, 60))

    assert set(many) < set(one)
    assert all(many[row].tok_per_s <= one[row].tok_per_s for row in many)
    assert [s.tok_per_s for s in one.values()] == sorted((s.tok_per_s for s in one.values()), reverse=True)


def test_of_a_short_context_half_is_the_answer():
    where = from_gpus("1xH100")
    ask = Ask(catalog.load("llama-3.1-8b"), 100)

    found = speeds(ask, where.classes[0], fit(ask, where).classes[0], 1)
    assert {(speed.isl, speed.osl) for speed in found.values()} == {(50, 50)}


def test_any_engine_means_all_engines():
    """The first engine that serves a model may hold it on no design where another does."""
    where = from_gpus("8xL40S")
    card = catalog.load("opt-175b")

    assert not fit(Ask(card, engine="vllm"), where).fits
    (part,) = fit(Ask(card), where).classes
    assert part.engine == "llama.cpp"
    assert any(row.fits for row in part.rows)


# The command


def test_without_a_model_the_command_lists_families_in_80_columns(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xRTX-4060"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[0].split()[-3:] == ["context", "users", "tok/s"]
    assert any(line.startswith("llama-3.2-") for line in lines)
    assert "tokens a second of one reader alone" in "".join(lines)


def test_json_of_families_has_all_figures(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xRTX-4060", "--users", "2", "--isl", "4096", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert answer["left_out"] == []
    for one in answer["families"]:
        assert one["speed"]["readers"] == 2 <= one["row"]["concurrency"]
        assert one["context"] == 4096 <= one["row"]["max_context"]


def test_one_reader_comes_first(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "2xH100", "-m", "llama-3.1-70b", "--users", "1", "--json"]) == 0
    readers = json.loads(capsys.readouterr().out)["readers"][0]
    assert run(["fit", "--gpus", "2xH100", "-m", "llama-3.1-70b", "--users", "1"]) == 0
    text = capsys.readouterr().out

    assert [(one["row"]["tp"], one["row"]["pp"]) for one in readers] == [(2, 1), (1, 2)]
    assert f"One reader gets {readers[0]['tok_per_s']:.3g} tokens a second" in text


def test_more_readers_than_fit_at_once_are_infeasible(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "2xH100", "-m", "llama-3.1-70b", "--users", "4"]) == 3
    assert "all nodes together hold 3" in capsys.readouterr().err


def test_what_a_plan_may_use_beyond_one_class_is_said(capsys: pytest.CaptureFixture[str]):
    said = "over several classes of nodes are not looked at here: `meshwright plan` does"
    for args, code in ((["-m", "llama-3.1-70b"], 3), (["-m", "phi-4"], 0), ([], 0)):
        assert run(["fit", "--gpus", "1xH100,2xL40S", *args]) == code
        shown = capsys.readouterr()
        assert said in " ".join((shown.err if code else shown.out).split())
    assert run(["fit", "--gpus", "2xL40S", "-m", "phi-4"]) == 0
    assert said not in " ".join(capsys.readouterr().out.split())


def test_host_memory_is_named_only_where_the_nodes_have_it(capsys: pytest.CaptureFixture[str]):
    said = "weights in host memory are not looked at here"
    assert run(["fit", str(EXAMPLES / "workstation-512gb.yaml"), "-m", "deepseek-v3"]) == 3
    assert said in capsys.readouterr().err
    assert run(["fit", "--gpus", "1xRTX-4090", "-m", "deepseek-v3"]) == 3
    assert said not in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [["--max-users"], ["--isl", "0"], ["--isl", "100000000"], ["--users", "0"], ["--precision", "fp7"]],
)
def test_bad_input_without_a_model_exits_2(args: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xH100", *args]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_nothing_that_fits_exits_3(capsys: pytest.CaptureFixture[str]):
    assert run(["fit", "--gpus", "1xGTX-1080", "--isl", "9000000"]) == 3
    assert "no model known fits" in capsys.readouterr().err
