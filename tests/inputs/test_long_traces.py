"""Traces of gigabytes, read in blocks: the same requests as line by line, and the line that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs import long_traces
from planner.inputs.traces import read_trace
from planner.inputs.workload import Slo
from planner.traffic import summary as summaries

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
OWN = "isl, osl ,arrival_s\n"
GPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def lines(form: str, many: int = 500) -> str:
    rng = np.random.default_rng(4)
    at, isl, osl = rng.uniform(0, 9e4, many), rng.integers(1, 9000, many), rng.integers(1, 700, many)
    if form == "own":
        return OWN + "".join(f"{a},{b},{t:.3f}\n" for t, a, b in zip(at, isl, osl, strict=True))
    if form == "gpt":
        each = zip(at, isl, osl, strict=True)
        return GPT + "".join(f"{t:.0f},ChatGPT,{a},{b % 5 and b},{a + b},api\n" for t, a, b in each)
    stamps = np.datetime64("2024-05-10T00:00:00") + (1e6 * at).astype("timedelta64[us]")
    zone = "+00:00" if form == "azure 2024" else ""
    each = zip(stamps, isl, osl, strict=True)
    return AZURE + "".join(f"{str(t).replace('T', ' ')}{zone},{a},{b}\n" for t, a, b in each)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is longer than a kilobyte is long, and read four of them at a time."""
    monkeypatch.setattr(long_traces, "LONG_BYTES", 1000)
    monkeypatch.setattr(long_traces, "BLOCK_BYTES", 4000)


@pytest.mark.parametrize("form", ["own", "gpt", "azure", "azure 2024"])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_give_the_same_requests(form: str, packed: bool, tmp_path: Path, monkeypatch) -> None:
    path, text = tmp_path / "t.csv", lines(form)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    short = read_trace(path)
    told: list[str] = []
    monkeypatch.setattr(long_traces, "LONG_BYTES", 1000)
    monkeypatch.setattr(long_traces, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(long_traces, "_slow", None)  # all of it is plain
    long = read_trace(path, told.append)
    assert np.allclose(long.arrival_s, short.arrival_s, atol=1e-5)
    assert (long.isl == short.isl).all()
    assert (long.osl == short.osl).all()
    assert long.dropped == short.dropped
    assert (form == "gpt") == (long.dropped > 0)
    assert len(told) > 1
    assert told[-1].endswith("100 %")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("5,5,-1", "`arrival_s` must be at least 0"),
        ("0,5,1", "`isl` must be at least 1"),
        ("5,0,1", "`osl` must be at least 1"),
        ("5,nan,1", "osl"),
        ("5,5,nan", "arrival_s"),
        ("5,x,1", "osl"),
        ("5,5", "2 cells"),
        ("5,2.5,1", "whole number"),
        ('5,"5,1', "CSV"),
    ],
)
def test_the_line_that_is_wrong_is_named_as_in_a_short_trace(
    small: None, line: str, says: str, tmp_path: Path, monkeypatch
) -> None:
    rows = lines("own").splitlines()
    rows[400] = line
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match=says) as long:
        read_trace(path)
    monkeypatch.setattr(long_traces, "LONG_BYTES", 10**9)
    with pytest.raises(InputError, match=says) as short:
        read_trace(path)
    if "CSV" not in says:
        assert long.value.where == short.value.where
        assert ":401" in str(long.value.where)


def test_quotes_and_blanks_are_read_and_prefixes_left_to_the_short_reader(
    small: None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    rows = lines("own").splitlines()
    rows[7] = '"5", 6 ,12.5'
    path.write_text("\n".join([*rows[:20], "", *rows[20:]]))
    assert long_traces.is_long(path)
    assert len(read_trace(path)) == 500
    shared = lines("own").replace("\n", ",a\n").replace("arrival_s,a", "arrival_s,prefix_id")
    path.write_text(shared)
    assert not long_traces.is_long(path)
    assert read_trace(path).block_tokens > 0


def test_lengths_of_many_are_those_of_evenly_many(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines("own", 4000))
    trace, slo = read_trace(path), Slo()
    whole = summaries.summary(trace, "x", None, slo).workload
    monkeypatch.setattr(summaries, "MOST_LENGTHS", 1500)
    part = summaries.summary(trace, "x", None, slo).workload
    assert part.traffic.rate_rps == whole.traffic.rate_rps
    assert len(part.traffic.shares) == len(whole.traffic.shares)
    mean = [sum(b.isl * b.share for b in w.buckets) for w in (whole, part)]
    assert mean[0] == pytest.approx(mean[1], rel=0.05)
