"""Sweep YAML to cells: the grid's order, ranges, and what is refused."""

from inspect import signature
from pathlib import Path
from textwrap import dedent

import pytest

from planner.cli.plan import plan
from planner.errors import InputError
from planner.studies import grid
from planner.studies.grid import Range


def read(folder: Path, text: str) -> list[grid.Cell]:
    (folder / "sweep.yaml").write_text(dedent(text))
    return grid.read(str(folder / "sweep.yaml"))


def test_the_contracts_example_has_thirty_cells_and_the_last_option_varies_fastest(tmp_path: Path) -> None:
    cells = read(
        tmp_path,
        """
        base: {cluster: cluster_configs/examples/lab.yaml, workload: chat}
        vary:
          model: [llama-3.1-70b, qwen3-32b]
          tpot_ms: [20, 40, 80]
          isl: {from: 512, to: 8192, times: 2}
        """,
    )

    assert len(cells) == 2 * 3 * 5
    assert [cell["isl"] for cell in cells[:6]] == [512, 1024, 2048, 4096, 8192, 512]
    assert [cell["tpot_ms"] for cell in cells[::5][:4]] == [20, 40, 80, 20]
    assert cells[0]["model"] == "llama-3.1-70b"
    assert cells[-1]["model"] == "qwen3-32b"
    assert all(cell["workload"] == "chat" for cell in cells)


def test_every_option_of_plan_may_stay_or_vary() -> None:
    of_plan = {name.removesuffix("_s") for name in signature(plan).parameters} - {"details", "json", "output"}

    assert set(grid.Options.model_fields) == of_plan
    assert set(grid.Vary.model_fields) == of_plan


def test_the_order_of_vary_is_the_files_order(tmp_path: Path) -> None:
    cells = read(tmp_path, "base: {gpus: 8xH100}\nvary: {osl: [1, 2], model: [a, b]}\n")

    assert [(cell["osl"], cell["model"]) for cell in cells] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_a_sweep_without_vary_is_one_cell(tmp_path: Path) -> None:
    assert read(tmp_path, "base: {gpus: 8xH100, model: a}") == [{"gpus": "8xH100", "model": "a"}]


def test_null_means_not_given(tmp_path: Path) -> None:
    cells = read(tmp_path, "base: {gpus: 8xH100, model: a, rate: 3}\nvary: {rate: [1, null]}\n")

    assert [cell.get("rate") for cell in cells] == [1, None]


def test_a_range_of_a_whole_number_option_is_rounded_without_doubles(tmp_path: Path) -> None:
    cells = read(tmp_path, "base: {gpus: 8xH100, model: a}\nvary: {isl: {from: 1, to: 4, times: 1.2}}\n")

    assert [cell["isl"] for cell in cells] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"from": 1, "to": 100, "times": 10}, [1, 10, 100]),
        ({"from": 0, "to": 1, "step": 0.1}, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        ({"from": 5, "to": 5, "step": 1}, [5]),
        ({"from": 10, "to": 25, "step": 10}, [10, 20]),
        ({"from": 0, "to": 1, "count": 5}, [0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ranges_include_both_ends_where_they_are_met(form: dict[str, float], expected: list[float]) -> None:
    assert Range.model_validate(form).values == expected


def test_a_file_beside_the_sweep_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("nodes: [{device: h100-sxm}]")

    (cell,) = read(tmp_path, "base: {cluster: mine.yaml, model: a}")

    assert cell["cluster"] == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: {gpus: 8xH100, modl: a}", "unknown field `modl`"),
        ("vary: {gpus: [8xH100]}", "no `model` to plan for"),
        ("base: {model: a}", "no `cluster` or `gpus` to plan for"),
        ("base: {model: a, gpus: 8xH100}\nvary: {isl: []}", "there are no values to vary"),
        ("base: {model: a, gpus: 8xH100}\nvary: {isl: {from: 1, to: 9}}", "exactly one of"),
        ("base: {model: a, gpus: 8xH100}\nvary: {isl: {from: 9, to: 1, step: 1}}", "must not be below"),
        ("base: {model: a, gpus: 8xH100}\nvary: {rate: {from: 0, to: 1, step: 1.0e-9}}", "too many"),
        ("base: {model: a, gpus: 8xH100}\nvary: {isl: {from: 1, to: 9, step: -1}}", "greater than 0"),
        ("base: {model: a, gpus: 8xH100, rate: .nan}", ""),
        ("[1, 2]", "named fields"),
    ],
)
def test_what_is_no_sweep_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)

    assert words in refused.value.message
    assert "\n" not in refused.value.message


def test_times_from_next_to_nothing_end() -> None:
    from planner.studies.grid import Range

    values = Range.model_validate({"from": 5e-324, "to": 1024, "times": 2}).values

    assert len(values) > 1000
    assert values[-1] <= 1024
