"""Texts of any size and shape are read or refused within seconds and little memory."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from planner.cli.app import run
from planner.errors import InputError
from planner.imports.read import read, read_path, read_stdin

SERVE = "vllm serve meta-llama/Llama-3.1-8B --port 8000"
POD = "apiVersion: v1\nkind: Deployment\nmetadata: {{name: x}}\nspec:\n  replicas: {replicas}\n"
POD += "  template: {{spec: {{containers: [{{command: [vllm, serve, m]}}]}}}}\n"


def doubling(times: int) -> str:
    lines = ["A0=xxxxxxxxxxxxxxxx", *(f"A{i + 1}=$A{i}$A{i}" for i in range(times)), f"vllm serve $A{times}"]
    return "\n".join(lines)


def alias_bomb(levels: int) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]" for i in range(levels)]
    return "\n".join([*rows, "services: {}", ""])


REFUSED = {
    "doubling": (doubling(26), "expand to more than"),
    "alias bomb": (alias_bomb(9), "expands to more than 100,000 values"),
    "depth": ("a: " + "[" * 5000, "nested more than 64 deep"),
    "lines": ("\n" * 200_000, "more than 100,000 lines"),
    "length": ("a " * 2_000_000, "more than 2,000,000 characters"),
    "arrays": ("A=('\n" * 50_000, "more than 200 arrays"),
    "commands": ("x\n" * 50_000, "more than 2,000 commands"),
    "variables": ("".join(f"V{i}=1\n" for i in range(50_000)), "1,000 variables"),
    "infinite": (POD.format(replicas=".inf"), "not of its form"),
    "not a number": (POD.format(replicas=".nan"), "not of its form"),
    "an open quote": (f"echo 'open\n{SERVE}\n" + 'word "and" more\n' * 20_000, "no command that starts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_take_all_memory_or_no_end_is_refused(name: str) -> None:
    text, message = REFUSED[name]
    begun = time.monotonic()
    with pytest.raises(InputError, match=message):
        read(text, "serve.sh")
    assert time.monotonic() - begun < 15


READ = {
    "blank lines": "\n" * 60_000 + SERVE,
    "lines of blanks": "   \n" * 60_000 + SERVE,
    "comments": "# don't\n" * 60_000 + SERVE,
    "an array": "A=(--port 1)\n" + SERVE,
    "continued": f"{SERVE} \\\n" + "  --x \\\n" * 30_000,
    "a long word": f"{SERVE} '" + "long\n" * 30_000 + "'",
    "a comment with a quote": f"ls # don't\n{SERVE}",
}


@pytest.mark.parametrize("name", READ)
def test_what_is_merely_long_is_read_in_time(name: str) -> None:
    begun = time.monotonic()
    assert read(READ[name]).groups[0].server.facts["model"] == "meta-llama/Llama-3.1-8B"
    assert time.monotonic() - begun < 15


def test_no_more_than_the_limit_is_read_of_what_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="more than"):
        read_path("/dev/zero")

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size < 10**7
            return b"x" * size

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Endless()))
    with pytest.raises(InputError, match="larger than"):
        read_stdin()


NINES = "9" * 320


@pytest.mark.parametrize("replicas", [NINES, f"'{NINES}'", "0x" + "f" * 300, "-" + NINES, "1000001"])
def test_more_replicas_than_any_cluster_has_are_refused(replicas: str) -> None:
    with pytest.raises(InputError, match="more than 1,000,000"):
        read(POD.format(replicas=replicas), "d.yaml")


@pytest.mark.parametrize("flag", ["--max-num-seqs", "--tensor-parallel-size", "--port", "--max-model-len"])
def test_a_flag_with_a_number_of_hundreds_of_digits_is_named(flag: str) -> None:
    with pytest.raises(InputError, match="a number of 320 digits"):
        read(f"{SERVE} {flag} {NINES}")


@pytest.mark.parametrize("words", ["import - --gpus 1xL4", "cluster from-k8s", "cluster from-slurm -"])
def test_a_closed_standard_input_is_named(words: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr("sys.stdin", stream)

        assert run(words.split()) == 2
        assert "error: standard input is closed" in capsys.readouterr().err


@pytest.mark.parametrize("raw", [b"vllm serve x\xff", b"vllm serve \x00x"])
def test_what_is_piped_in_must_be_text(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    with pytest.raises(InputError, match=r"not UTF-8|binary"):
        read_stdin()


def test_a_folder_of_many_files_is_refused(tmp_path: Path) -> None:
    for i in range(1_001):
        (tmp_path / f"{i}.sh").write_text("")
    with pytest.raises(InputError, match="more than 1,000 files"):
        read_path(tmp_path)


BOMB = """
    import gzip, resource, sys
    from planner.cli.app import run
    with gzip.open(sys.argv[1], "wb", compresslevel=1) as file:
        file.write(sys.argv[2].encode().decode("unicode_escape").encode())
        for _ in range(600):
            file.write(b"\\n" * 1_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = run(["workload", sys.argv[1]])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(code, grown // 1024)
"""


@pytest.mark.parametrize("begins", ["", r"arrival_s,isl,osl\n", r"arrival_s,isl,osl\n0,8,8\n1,8,8\n"])
def test_a_packed_trace_of_blank_lines_takes_little_memory(tmp_path: Path, begins: str) -> None:
    words = [sys.executable, "-c", textwrap.dedent(BOMB), str(tmp_path / "n.csv.gz"), begins]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    code, grown_mib = map(int, done.stdout.split())
    assert code == 2, done.stderr
    assert grown_mib < 300


def test_an_infinite_number_of_replicas_is_no_error_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.yaml").write_text(POD.format(replicas=".inf"))
    assert run(["import", str(tmp_path / "d.yaml"), "--gpus", "8xH100"]) == 2
    assert "not of its form" in capsys.readouterr().err


COMPOSE = """
services:
  chat:
    image: vllm/vllm-openai
    command: --model Qwen/Qwen3-8B -tp 2
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: COUNT}]}}}
"""


def test_fewer_than_no_gpus_are_refused_and_all_are_those_of_the_command() -> None:
    with pytest.raises(InputError, match="-2 of a thing are fewer than none"):
        read(COMPOSE.replace("COUNT", "-2"), "m.yaml")
    assert read(COMPOSE.replace("COUNT", "-1"), "m.yaml").facts["gpus"] == 2
