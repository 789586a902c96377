"""`meshwright workload`: limits in words, what is said of a trace, known workloads, what is written where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from planner.cli import workload as command
from planner.cli.app import run
from planner.errors import InputError
from planner.inputs.presets import PRESETS
from planner.inputs.reuse import Idle, IdleKind
from planner.inputs.traces import Trace
from planner.inputs.traffic import Dispersion, Traffic
from planner.inputs.workload import Bucket, Slo, Workload
from planner.traffic.summary import Summary


@pytest.mark.parametrize(
    ("text", "limit"),
    [("none", None), (" None ", None), ("2000", 2000.0), ("0.5", 0.5), ("1e12", 1e12), (" 50 ", 50.0)],
)
def test_a_limit_is_milliseconds_or_none(text: str, limit: float | None) -> None:
    assert command._limit(text, "--ttft-ms") == limit


@pytest.mark.parametrize("text", ["", "0", "-5", "fast", "nan", "inf", "2e12", "2000 ms", "no"])
def test_what_is_no_limit_is_refused_under_its_option(text: str) -> None:
    with pytest.raises(InputError, match="is no limit in ms") as error:
        command._limit(text, "--tpot-ms")

    assert (error.value.where, error.value.hint) == (
        "--tpot-ms",
        "a number above 0, or none: --tpot-ms 2000",
    )


def summed(**changes: Any) -> Summary:
    """Two lengths, three slots of ten minutes; buckets lose 1.25 % of pairs and 0.4 % of context."""
    made = {
        "name": "t",
        "buckets": [Bucket(isl=100, osl=10, share=0.5), Bucket(isl=900, osl=10, share=0.5)],
        "slo": Slo(),
        "traffic": Traffic(slot_s=600.0, rate_rps=[0.25, 1.0, 12.34567]),
    }
    return Summary(Workload(**(made | changes)), 0.0125, 0.004)  # type: ignore[arg-type]


def recorded(**changes: Any) -> Trace:
    """1,800 requests in half an hour."""
    none = np.zeros(0, dtype=np.int64)
    lengths = np.full(1800, 100)
    return replace(Trace("t", np.linspace(0, 1800, 1800), lengths, lengths, 0, none, none), **changes)


COUNTED = "1,800 requests in 0.5 h: 2 buckets; lost by that: 1.2 % of prompts' attention, 0.4 % of answers'"
SLOTS = "3 slots of 10 min, 0.25 to 12.35 requests/s"


def test_what_was_made_of_a_trace_is_two_lines() -> None:
    assert command._told(summed(), recorded()) == [COUNTED, SLOTS]


def test_short_slots_are_told_in_seconds() -> None:
    found = summed(traffic=Traffic(slot_s=6.0, rate_rps=[0.5]))

    assert command._told(found, recorded())[1] == "1 slot of 6 s, 0.5 to 0.5 requests/s"


def test_failed_requests_and_bursts_and_what_returns_have_a_word_each() -> None:
    bursts = [Dispersion(window_s=1.0, index=1.5), Dispersion(window_s=60.0, index=12.345)]
    found = summed(
        traffic=Traffic(slot_s=600.0, rate_rps=[0.25, 1.0, 12.34567], dispersion=bursts),
        idle=Idle(
            ages_s=[60.0],
            kinds=[IdleKind(bucket=1, depth=64, tokens=64, back=[0.5])],
            hits=[[0.0], [32.0]],
        ),
    )

    more = "0.5 h, 1,234 failed ones left out, 7 put in order that stood after later ones:"
    assert command._told(found, recorded(dropped=1234, unordered=(7, 3))) == [
        COUNTED.replace("0.5 h:", more),
        SLOTS,
        "bursts: counts vary as at random times 1.5 in 1 s, 12.3 in 1 min (variance over mean)",
        "prompts share beginnings: what is found again in a cache is part of the workload",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(1.0, "1 s"), (59.0, "59 s"), (60.0, "1 min"), (600.0, "10 min"), (90.0, "1.5 min")]
)
def test_a_window_is_told_in_minutes_from_one_on(seconds: float, said: str) -> None:
    assert command._span(seconds) == said


def test_each_known_workload_has_a_line_with_its_lengths_and_limits() -> None:
    lines = dict(zip(PRESETS, command._presets(), strict=True))

    assert all(line.startswith(f"{name:<13} ") for name, line in lines.items())
    assert " ".join(lines["chat"].split()[:11]) == "chat 1,024 in 256 out TTFT 2,000 ms, TPOT 50 ms"
    assert "no limits" in lines["batch"]
    assert len({line.index(" in ") for line in lines.values()}) == 1


ROWS = "".join(f"{i},{400 + i % 7 * 300},{50 + i % 5 * 40}\n" for i in range(400))


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "chat.july.csv"
    path.write_text(f"arrival_s,isl,osl\n{ROWS}")
    return str(path)


def test_the_answer_is_on_stdout_what_is_said_of_it_is_not(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named by its file up to the first dot; slots as long as told, limits as told."""
    assert run(["workload", trace, "--slot", "2", "--ttft-ms", "none", "--tpot-ms", "40"]) == 0
    told = capsys.readouterr()
    made = YAML(typ="safe").load(told.out)

    assert (made["name"], made["traffic"]["slot_s"]) == ("chat", 120.0)
    assert made["slo"] == {"ttft_ms": "none", "tpot_ms": 40.0, "percentile": "p99"}
    assert sum(b["share"] for b in made["buckets"]) == pytest.approx(1.0)
    assert told.err.startswith("400 requests in 0.111 h: ")
    assert "slots of 2 min" in told.err


def test_json_is_the_same_workload(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_json = tmp_path / "w.json"
    assert run(["workload", trace]) == 0
    told = YAML(typ="safe").load(capsys.readouterr().out)
    assert run(["workload", trace, "--json", "-o", str(as_json)]) == 0

    assert YAML(typ="safe").load(as_json.read_text()) == told
    said = capsys.readouterr()
    assert said.out == ""
    assert f"meshwright plan … --workload {as_json}" in said.err


@pytest.mark.parametrize(("last_s", "minutes"), [(2e5, "0.0167"), (1e9, "60"), (1e-9, "60")])
def test_a_trace_of_too_many_slots_or_requests_a_second_is_refused(
    last_s: float, minutes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Days in slots of a second; milliseconds, or picoseconds, taken for seconds."""
    path = tmp_path / "odd.csv"
    path.write_text(f"arrival_s,isl,osl\n0,9,9\n{last_s},9,9\n")

    assert run(["workload", str(path), "--slot", minutes]) == 2
    assert "at most 100,000 slots and 1e+09 requests/s" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0.016", "100001", "-1"])
def test_slots_are_from_a_second_to_69_days(trace: str, minutes: str, capsys) -> None:
    assert run(["workload", trace, f"--slot={minutes}"]) == 2
    assert "from a second to 69 days" in capsys.readouterr().err
