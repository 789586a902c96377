"""`meshwright cluster`: what goes to stdout, to a file, to stderr; exit codes; cluster files from a line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cluster_configs.devices import names
from cluster_configs.reading import from_document, from_gpus
from planner.cli import app
from planner.clusters.sources import SOURCES
from planner.clusters.writing import init
from planner.reading.documents import read_text

RAY = """\
Active:
 1 node_a
 1 node_b
Pending:
 (no pending nodes)

Total Usage:
 0.0/16.0 GPU
"""


class Piped(io.StringIO):
    """Standard input with text in it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.buffer = io.BytesIO(text.encode())


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Piped(RAY))


LINES = ["8xH100,4xL40S", "20xh100", "gb200", "3xrtx-4090,1xt4", "2xm3-ultra", "72xGB200"]


@pytest.mark.parametrize("line", LINES)
def test_a_file_from_a_line_reads_back_to_the_same_cluster(line: str):
    assert from_document(read_text(init(line), "c.yaml")).classes == from_gpus(line).classes


@pytest.mark.parametrize("name", names())
def test_every_device_has_such_a_file_and_its_prices_have_a_source(name: str):
    text = init(f"2x{name}")

    assert from_document(read_text(text, "c.yaml")).classes == from_gpus(f"2x{name}").classes
    assert "no source" not in text


def test_facts_are_one_json_object_and_nothing_else(piped: None, capsys: pytest.CaptureFixture[str]):
    assert app.run(["cluster", "from-ray", "--facts"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert (facts["nodes"], facts["gpus"], facts["device"]) == (2, 16, "unknown (no accelerator_type line)")


def test_a_device_that_the_input_does_not_name_is_given_by_an_option(
    piped: None, capsys: pytest.CaptureFixture[str]
):
    assert app.run(["cluster", "from-ray", "-", "--device", "A100 80GB"]) == 0

    out, err = capsys.readouterr()
    (found,) = from_document(read_text(out, "c.yaml")).classes
    assert (found.device.name, found.node_count, found.gpus_per_node) == ("a100-sxm", 2, 8)
    assert "how many GPUs each node has is not told" in err


def test_without_a_device_the_place_to_fill_in_is_said(piped: None, capsys: pytest.CaptureFixture[str]):
    assert app.run(["cluster", "from-ray"]) == 0

    out, err = capsys.readouterr()
    assert "device: fill-in" in out
    assert "give it with --device" in err


def test_a_file_is_written_whole_and_named(piped: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "c.yaml"
    assert app.run(["cluster", "from-ray", "--device", "l4", "-o", str(path)]) == 0

    out, err = capsys.readouterr()
    assert (out, from_document(read_text(path.read_text(), "c.yaml")).classes[0].gpus) == ("", 16)
    assert f"meshwright plan {path}" in err


@pytest.mark.parametrize("source", [s.name for s in SOURCES])
def test_a_missing_file_is_one_message(source: str, capsys: pytest.CaptureFixture[str]):
    assert app.run(["cluster", f"from-{source}", "no-such-file.txt"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_group_lists_all_its_commands(capsys: pytest.CaptureFixture[str]):
    assert app.run(["cluster"]) == app.run(["cluster", "--help"]) == 0

    shown = capsys.readouterr().out
    assert all(f"from-{s.name}" in shown for s in SOURCES)
    assert "init" in shown


def test_a_cluster_file_that_was_edited_is_written_over_only_when_forced(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    words = ["cluster", "init", "--gpus", "8xH100", "-o", str(file)]
    assert app.run(words) == 0
    made = file.read_text()
    assert app.run(words) == 0  # it says the same
    file.write_text(f"{made}# mine\n")

    assert app.run(words) == 2
    assert "add --force" in capsys.readouterr().err
    assert file.read_text() == f"{made}# mine\n"
    assert app.run([*words, "--force"]) == 0
    assert file.read_text() == made
