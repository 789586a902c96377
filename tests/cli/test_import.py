"""`meshwright import`: what is told of a deployment, how far from the best, what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli import import_ as command
from planner.cli.app import run
from planner.errors import InputError
from planner.imports.plan import Imported
from planner.imports.read import read
from planner.plans.schema import Plan
from planner.plans.text import text
from tests.reports.samples import ONE_NODE, replica

LINE = "vllm serve meta-llama/Llama-3.1-70B -tp 8"
UNKNOWN = "vllm serve m -tp 2 --enable-prefix-cachin"
NO_FLAG = "vllm knows no flag `--enable-prefix-cachin` (nearest: `--enable-prefix-caching`"
UNEVEN = "sglang serve --model-path m --tp-size 14 --nnodes 4"


def worth(own: float, **changes: Any) -> Plan:
    """ONE_NODE with so many tokens/s."""
    proof = ONE_NODE.proof.model_copy(update={"objective": own, "bound": own})
    return ONE_NODE.model_copy(update={"proof": proof, **changes})


TP8 = [replica(count=1, tp=8, moe_tp=8)]


def made(own: float = 1590.0, near: Plan | None = None, notes: tuple[str, ...] = ()) -> Imported:
    """One server of eight GPUs beside a best plan of 3,180 tokens/s by four servers of two."""
    return Imported(read(LINE), worth(own, replicas=TP8), worth(3180.0), near, notes)


READ = "Read: 1 x mixed tp 8 with vllm, 8 GPUs each"
SERVES = "Serves: 12.4 requests/s · 3,180 output tok/s · TTFT 812 ms · TPOT 41.3 ms"
BEST = ["The best plan runs:", "  4 x mixed tp2 on h, vllm, bf16/bf16/kv bf16"]
HALF = "This deployment leaves 50 % on the table: the best plan has 3180 tok/s."


@pytest.mark.parametrize(
    ("found", "rest"),
    [
        (made(), [HALF, *BEST]),
        (
            made(near=worth(2385.0)),
            [HALF, "Change: --tensor-parallel-size 8 -> 2, servers 1 -> 4 (50 % better)", *BEST],
        ),
        (made(near=worth(1590.0 * 1.009)), [HALF, *BEST]),
        (made(near=worth(2385.0, replicas=TP8)), [HALF, *BEST]),
        (made(near=worth(2385.0, replicas=[*TP8, *TP8])), [HALF, *BEST]),
        (
            made(3120.0),
            ["This deployment leaves 2 % on the table: the best plan has 3180 tok/s.", *BEST],
        ),
        (made(3150.0), ["No plan for these GPUs is better by one per cent or more."]),
        (made(9999.0), ["No plan for these GPUs is better by one per cent or more."]),
        (
            made(3180.0, notes=("max_num_seqs 4 holds it back",)),
            [
                "No plan for these GPUs is better by one per cent or more.",
                "note: max_num_seqs 4 holds it back",
            ],
        ),
    ],
)
def test_what_was_read_is_told_and_how_far_it_is_from_the_best(found: Imported, rest: list[str]) -> None:
    """A change of flags is proposed only where it brings a per cent or more, and is one of flags."""
    assert command.shown(found) == [READ, SERVES, *rest]


def test_of_plans_for_the_least_money_more_is_worse() -> None:
    cheap = {"sense": "min", "unit": "usd_per_hour"}
    own, best = (
        plan.model_copy(update={"proof": plan.proof.model_copy(update=cheap)})
        for plan in (worth(40.0), worth(30.0))
    )
    found = Imported(read(LINE), own, best, None, ())

    assert found.loss == pytest.approx(1 / 3)
    assert found.gain(best) == pytest.approx(0.25)
    assert (Imported(read(LINE), best, own, None, ()).loss, found.gain(found.plan)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("line", "version", "broken", "warned"),
    [
        (LINE, None, [], []),
        (UNKNOWN, None, [], [NO_FLAG]),
        (UNKNOWN, "0.10.0", [NO_FLAG], []),
        (UNEVEN, None, ["--tp-size 14: tp x pp = 14 ranks do not divide over --nnodes 4"], []),
        (UNEVEN, "0.5.0", ["--tp-size 14: tp x pp = 14 ranks do not divide over --nnodes 4"], []),
    ],
)
def test_a_flag_of_no_version_is_a_warning_until_a_version_is_named(
    line: str, version: str | None, broken: list[str], warned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = command.told(read(line), version)
    warnings = capsys.readouterr().err.splitlines()

    assert [x[: len(y)] for x, y in zip(told, broken, strict=True)] == broken
    assert [x[: len("warning: " + y)] for x, y in zip(warnings, warned, strict=True)] == [
        f"warning: {x}" for x in warned
    ]


def test_what_several_servers_have_in_common_is_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.told(read(f"{UNKNOWN}\n{UNKNOWN.replace('-tp 2', '-tp 4')}\n"), None) == []

    assert capsys.readouterr().err.count("--enable-prefix-cachin`") == 1


class Fake:
    """Stands for the planner's part of an import."""

    asked: tuple[Any, ...]
    answer: Imported | InputError = made()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    stand = Fake()

    def imported(*args: Any) -> Imported:
        stand.asked = args
        if isinstance(stand.answer, InputError):
            raise stand.answer
        return stand.answer

    monkeypatch.setattr("planner.imports.plan.imported", imported)
    return stand


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "serve.sh"
    path.write_text(LINE + "\n")
    return str(path)


def test_options_reach_the_planner_under_their_names(fake: Fake, script: str, tmp_path: Path) -> None:
    nodes = tmp_path / "c.yaml"
    nodes.write_text("name: lab\nnodes: [{name: h, device: h100-sxm, count: 1}]\n")
    words = "--rate 3 --ttft-ms none --tpot-ms 40 --percentile p95 --isl 10 --osl 4 -w rag --model m"
    assert run(["import", script, "--cluster", str(nodes), *words.split()]) == 0

    deployment, there, gpus, model, asked = fake.asked
    assert (deployment.gpus, there.name, gpus, model) == (8, "lab", None, "m")
    assert asked == {
        "workload": "rag", "isl": 10, "osl": 4, "rate": 3.0,
        "ttft_ms": "none", "tpot_ms": "40", "percentile": "p95",
    }  # fmt: skip


def test_a_command_may_come_through_a_pipe(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINE.encode())))
    assert run(["import", "-", "--gpus", "8xH100"]) == 0

    assert fake.asked[2] == "8xH100"
    assert capsys.readouterr().out.splitlines() == command.shown(made())


def test_json_and_the_file_are_the_deployments_own_plan(
    fake: Fake, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert run(["import", script, "--gpus", "8xH100", "--json", "-o", str(path)]) == 0

    assert capsys.readouterr().out == path.read_text() == text(made().plan) + "\n"


def test_facts_are_printed_and_nothing_is_planned(
    fake: Fake, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", script, "--facts"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert {name: facts[name] for name in ("tp", "gpus", "nodes", "engine", "kind", "refused")} == {
        "tp": 8, "gpus": 8, "nodes": 1, "engine": "vllm", "kind": "command", "refused": [],
    }  # fmt: skip
    assert not hasattr(fake, "asked")


def test_what_the_engine_refuses_is_never_planned(
    fake: Fake, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(script).write_text(UNEVEN)
    assert run(["import", script, "--gpus", "8xH100"]) == 2

    told = capsys.readouterr()
    assert "do not divide over --nnodes 4" in told.err
    assert "the engine does not start this command" in told.err
    assert (told.out, hasattr(fake, "asked")) == ("", False)


@pytest.mark.parametrize(
    ("words", "where", "at"),
    [
        ([], None, "{script}"),
        (["--model", "m"], None, "--model"),
        ([], "meta-llama/Llama-3.1-70B", "{script}, model meta-llama/Llama-3.1-70B"),
        (["--model", "m"], "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
    ],
)
def test_an_error_is_placed_where_the_model_was_named(
    fake: Fake, script: str, words: list[str], where: str | None, at: str, tmp_path: Path, capsys
) -> None:
    fake.answer = InputError("no such model", where)
    path = tmp_path / "plan.json"
    assert run(["import", script, "--gpus", "8xH100", "-o", str(path), *words]) == 2

    assert f"at {at.format(script=script)}\n" in capsys.readouterr().err
    assert not path.exists()


def test_a_number_of_hundreds_of_digits_is_one_of_its_file(tmp_path, capsys):
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1{'0' * 400}\n")

    assert run(["import", str(script), "--facts"]) == 2
    said = capsys.readouterr().err
    assert f"at {script}" in said
    assert "a number of 401 digits, `10000000000000000000…`" in said
