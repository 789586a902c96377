"""`meshwright devices` and `meshwright schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from cluster_configs.devices import find, load, names
from model_zoo import catalog
from planner.cli.devices import describe, devices, table
from planner.cli.models import models
from planner.cli.schema import Kind, json_schema, schema
from planner.errors import InputError
from planner.reading.documents import read

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_table_has_a_line_for_every_device_and_cuts_nothing(capsys: pytest.CaptureFixture[str]):
    devices()
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines[1 : len(names()) + 1]] == list(names())
    assert "…" not in "".join(lines)
    assert len({len(line) for line in table([load(n) for n in names()])}) == 1


def test_one_device_is_shown_with_all_figures_and_sources():
    text = "\n".join(describe(find("gb200")))

    for figure in ("185 GiB (198.7 GB) at 8,000 GB/s", "72 GPUs by nvlink, 900 GB/s", "1200 W", "unknown"):
        assert figure in text
    assert "aiconfigurator systems/gb200.yaml" in text


def test_json_of_a_device_is_its_yaml_form(capsys: pytest.CaptureFixture[str]):
    devices("h100", json=True)

    assert json.loads(capsys.readouterr().out)["memory_gb_per_s"] == 3350


def test_an_unknown_device_is_an_input_error():
    with pytest.raises(InputError, match="unknown GPU"):
        devices("h100-sxn")


def test_a_part_of_a_name_lists_the_devices_that_have_it(capsys: pytest.CaptureFixture[str]):
    devices("RTX 40", json=True)
    listed = [one["name"] for one in json.loads(capsys.readouterr().out)]
    devices("rtx-40")
    lines = capsys.readouterr().out.splitlines()

    assert listed == [n for n in names() if n.startswith("rtx-40")]
    assert [line.split()[0] for line in lines[1 : len(listed) + 1]] == listed


def test_a_family_shows_its_usual_form_and_names_the_others(capsys: pytest.CaptureFixture[str]):
    devices("h100")
    shown = capsys.readouterr()

    assert shown.out.startswith("h100-sxm (nvidia")
    assert shown.err == "note: also named so: h100-nvl, h100-pcie\n"


def test_the_table_of_devices_fits_80_columns(capsys: pytest.CaptureFixture[str]):
    devices()

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_part_of_a_name_lists_the_models_that_have_it(capsys: pytest.CaptureFixture[str]):
    models("QWEN3 vl", json=True)
    listed = [one["name"] for one in json.loads(capsys.readouterr().out)]

    assert listed == [n for n in catalog.names() if n.startswith("qwen3-vl")] != []


def test_an_exact_name_shows_the_one_model_though_others_have_it_too(capsys: pytest.CaptureFixture[str]):
    models("qwen3-235b-a22b", json=True)

    assert json.loads(capsys.readouterr().out)["name"] == "qwen3-235b-a22b"


def test_the_table_of_models_fits_80_columns_and_cuts_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("planner.cli.models.PIPE_WIDTH", 80)
    models()
    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[2 : len(catalog.names()) + 2]] == catalog.names()


@pytest.mark.parametrize("name", ["zzz", " "])
def test_a_filter_that_nothing_has_is_an_input_error(name: str):
    for command in (devices, models):
        with pytest.raises(InputError):
            command(name)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_form_has_a_schema(kind: Kind, capsys: pytest.CaptureFixture[str]):
    schema(kind)
    form = json.loads(capsys.readouterr().out)

    assert form["$schema"].startswith("https://json-schema.org/")
    assert form["type"] == "object"
    assert form["additionalProperties"] is False


@pytest.mark.parametrize("kind", ["cluster", "workload"])
def test_schemas_name_every_field_of_the_frozen_examples(kind: Kind):
    form = json_schema(kind)

    assert set(read(GOLDEN / f"{kind}.yaml").data) <= set(form["properties"])


def test_several_models_have_a_form_for_what_is_asked_and_what_is_answered():
    listed: dict[str, Any] = json_schema("models")
    entries = read(Path(__file__).parents[2] / "docs" / "examples" / "chat-and-code.yaml").data["models"]
    assert {field for entry in entries for field in entry} <= set(listed["$defs"]["Entry"]["properties"])
    assert {"models", "plans", "total", "proof"} <= set(json_schema("several")["required"])


def test_the_workload_schema_knows_the_short_form():
    form: dict[str, Any] = json_schema("workload")

    assert {"isl", "osl"} <= set(form["properties"])
    assert "buckets" not in form.get("required", [])
