"""A probe in a terminal and as a document: what is run on what, what each run tells, bands that narrow."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from planner.calibration.probe import Bands, Probe, Run, Session
from planner.reports import calibrated as report


def server(device: str = "h100-sxm", design: str = "tp2", engine: str = "vllm", minutes: float = 3.4) -> Any:
    """A server as far as it is told."""

    class Design(SimpleNamespace):
        def __str__(self) -> str:
            return str(self.word)

    node = SimpleNamespace(device=SimpleNamespace(name=device), id=f"{device}-nodes")
    group = SimpleNamespace(node_class=node, engine=engine)
    return SimpleNamespace(
        group=group, design=Design(word=design, sizes={"tp": 2, "pp": 1}), start_minutes=minutes
    )


def made(requests: int, tpot: float, ttft: float, tells: str = "launch", minutes: float = 1.25) -> Run:
    trial: Any = SimpleNamespace(isl=1024, osl=256, requests=requests)
    return Run(trial, 4 * requests, minutes, Bands(ttft, tpot), tells, (0.2, 0.1))


ASKED: Any = SimpleNamespace(
    card=SimpleNamespace(name="qwen3-32b"),
    cluster=SimpleNamespace(name="lab"),
    workload=SimpleNamespace(name="chat", buckets=[SimpleNamespace(isl=1024, osl=256)]),
)
TWO = Probe(
    ASKED,
    Bands(ttft=0.3, tpot=0.2),
    (
        Session(server(), (made(1, 0.15, 0.3), made(64, 0.12, 0.25, "own_parameter"))),
        Session(server(design="tp4"), (made(256, 0.1, 0.2, "experts"),)),
    ),
)
"""Three runs on two servers, which bring a TPOT of ±29 % to ±14 %."""


def lines(part: Any, width: int = 120) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(part)
    return [" ".join(x.split()) for x in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_the_headline_says_what_it_costs_and_brings() -> None:
    assert lines(report.headline(TWO)) == [
        "qwen3-32b on lab, chat, 1,024 in, 256 out",
        "3 runs on 2 servers, 11 minutes: TPOT ±29 % → ±14 %, TTFT ±47 % → ±29 %",
    ]


@pytest.mark.parametrize(
    ("changes", "second"),
    [
        ({"sessions": ()}, "no run would narrow the bands by 2 %"),
        (
            {"sessions": (Session(server(minutes=0.1), (made(1, 0.1, 0.2, minutes=0.5),)),)},
            "1 run on 1 server, 1 minute: TPOT ±29 % → ±14 %, TTFT ±47 % → ±29 %",
        ),
        (
            {"before": Bands(ttft=0.0, tpot=0.2)},
            "3 runs on 2 servers, 11 minutes: TPOT ±29 % → ±14 %",
        ),
    ],
)
def test_what_there_is_none_of_is_not_told(changes: dict[str, Any], second: str) -> None:
    found = Probe(**{**vars(TWO), **changes})

    assert lines(report.headline(found))[1] == second


def test_of_several_lengths_none_is_told() -> None:
    asked: Any = SimpleNamespace(**{**vars(ASKED), "workload": SimpleNamespace(name="mix", buckets=[1, 2])})

    assert lines(report.headline(Probe(asked, TWO.before, TWO.sessions)))[0] == "qwen3-32b on lab, mix"


def test_runs_are_numbered_through_all_servers_with_the_bands_after_each() -> None:
    assert lines(report.table(TWO)) == [
        "in out at once min TPOT TTFT tells most of",
        "now ±29 % ±47 %",
        "vllm tp2 3.4",
        "1 1,024 256 1 1.2 ±21 % ±47 % kernel launches",
        "2 1,024 256 64 1.2 ±17 % ±38 % own_parameter",
        "vllm tp4 3.4",
        "3 1,024 256 256 1.2 ±14 % ±29 % experts",
    ]


def test_devices_are_told_where_there_are_several() -> None:
    both = (TWO.sessions[0], Session(server("l40s", "tp4", "sglang"), TWO.sessions[1].runs))
    shown = lines(report.table(Probe(ASKED, TWO.before, both)))

    assert [x for x in shown if "tp" in x.lower() and "min" not in x] == [
        "vllm tp2, h100-sxm 3.4", "sglang tp4, l40s 3.4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sigma", "said"), [(0.0, ""), (0.001, "±0 %"), (0.1, "±14 %"), (0.5409, "±100 %"), (1.0, "±260 %")]
)
def test_a_band_is_its_upper_edge(sigma: float, said: str) -> None:
    """exp(1.2816 sigma) - 1: nine of ten lie below."""
    assert report.edge(sigma) == said


def test_a_document_has_the_commands_of_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        report.commands, "benchmark", lambda server, run, number: f"bench {server.design} {number}"
    )
    monkeypatch.setattr(
        report.commands, "serve", lambda server, trials: f"serve {server.design} for {len(trials)}"
    )
    monkeypatch.setattr(report.commands, "script", lambda sessions: [f"# {len(sessions)} servers"])
    told = report.as_document(TWO)

    assert {k: told[k] for k in ("model", "cluster", "workload", "before", "after", "script")} == {
        "model": "qwen3-32b", "cluster": "lab", "workload": "chat", "script": ["# 2 servers"],
        "before": {"ttft": 0.3, "tpot": 0.2}, "after": {"ttft": 0.2, "tpot": 0.1},
    }  # fmt: skip
    first, second = told["servers"]
    assert (first["serve"], second["serve"]) == ("serve tp2 for 2", "serve tp4 for 1")
    assert (first["device"], first["node_class"], first["tp"], first["start_minutes"]) == (
        "h100-sxm", "h100-sxm-nodes", 2, 3.4,
    )  # fmt: skip
    assert [run["command"] for s in told["servers"] for run in s["runs"]] == [
        "bench tp2 1", "bench tp2 2", "bench tp4 3",
    ]  # fmt: skip
    assert second["runs"][0] == {
        "command": "bench tp4 3", "isl": 1024, "osl": 256, "concurrency": 256, "prompts": 1024,
        "minutes": 1.25, "tells": {"parameter": "experts", "before": 0.2, "after": 0.1},
        "bands": {"ttft": 0.2, "tpot": 0.1},
    }  # fmt: skip


def test_commands_are_printed_whole_however_narrow_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "vllm serve " + " ".join(f"--option-{i} value" for i in range(20))
    monkeypatch.setattr(report.commands, "script", lambda sessions: [line])
    console = Console(file=StringIO(), width=60)
    report.render_probe(TWO, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]

    assert line in shown.splitlines()
    assert "Paste where the GPUs are" in shown


def test_without_runs_there_is_only_the_headline() -> None:
    console = Console(file=StringIO(), width=60)
    report.render_probe(Probe(ASKED, TWO.before, ()), console)

    assert console.file.getvalue().splitlines()[1:] == ["no run would narrow the bands by 2 %"]  # type: ignore[attr-defined]
