"""Traces: every form reads, packed or not; what is wrong is named with its line."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs.traces import read_trace

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
OWN = "arrival_s,isl,osl\n0,100,10\n2.5,200,20\n4,50,1\n"


def line(**given: object) -> str:
    return json.dumps({"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]} | given)


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_contract_s_columns_read(tmp_path: Path):
    t = read_trace(written(tmp_path, OWN))

    assert (t.arrival_s.tolist(), t.isl.tolist(), t.osl.tolist()) == (
        [0, 2.5, 4],
        [100, 200, 50],
        [10, 20, 1],
    )
    assert (t.block_tokens, t.span_s, t.rate_rps) == (0, 4.0, 0.5)


def test_gzip_changes_nothing(tmp_path: Path):
    plain = read_trace(written(tmp_path, OWN))
    packed = read_trace(written(tmp_path, gzip.compress(OWN.encode()), "t.csv.gz"))

    assert (packed.isl == plain.isl).all()
    assert (packed.arrival_s == plain.arrival_s).all()


def test_rows_out_of_order_are_put_in_order(tmp_path: Path):
    t = read_trace(written(tmp_path, "arrival_s,isl,osl\n9,1,2\n5,3,4\n"))

    assert (t.arrival_s.tolist(), t.isl.tolist()) == ([0.0, 4.0], [3, 1])


def test_prompts_of_one_prefix_id_share_what_the_shorter_one_has(tmp_path: Path):
    rows = "arrival_s,isl,osl,prefix_id\n0,40,1,a\n1,100,1,a\n2,100,1,b\n3,64,1,\n4,64,1,\n"
    t = read_trace(written(tmp_path, rows))
    prompts = [set(t.block[a:b].tolist()) for a, b in zip(t.start[:-1], t.start[1:], strict=True)]

    assert t.block_tokens == 16
    assert [len(p) for p in prompts] == [2, 6, 6, 4, 4]
    assert len(prompts[0] & prompts[1]) == 2
    assert not prompts[1] & prompts[2]
    assert not prompts[3] & prompts[4]


def test_azure_s_times_are_read_to_the_microsecond(tmp_path: Path):
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    old = read_trace(
        written(tmp_path, f"{head}2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n")
    )
    new = read_trace(
        written(
            tmp_path, f"{head}2024-05-10 00:00:00.009930+00:00,3,4\n2024-05-10 00:00:01.009930+00:00,3,4\n"
        )
    )

    assert old.arrival_s[1] == pytest.approx(4.314579, abs=1e-5)
    assert new.arrival_s[1] == pytest.approx(1.0)


def test_burstgpt_s_failed_requests_are_left_out(tmp_path: Path):
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    t = read_trace(
        written(
            tmp_path, f"{head}5,GPT-4,10,3,13,API log\n6,GPT-4,20,0,20,API log\n8,ChatGPT,30,4,34,API log\n"
        )
    )

    assert (t.isl.tolist(), t.dropped) == ([10, 30], 1)


def test_mooncake_s_stamps_are_milliseconds_and_its_blocks_of_512(tmp_path: Path):
    rows = [line(), line(timestamp=3000, hash_ids=[1, 3])]
    t = read_trace(written(tmp_path, "\n".join(rows), "m.jsonl"))

    assert (t.span_s, t.block_tokens, t.block.tolist()) == (3.0, 512, [0, 1, 0, 2])


def test_qwen_s_stamps_are_seconds_and_its_blocks_of_16(tmp_path: Path):
    rows = [line(chat_id=1, timestamp=t, input_length=33, hash_ids=[7, 8, 9]) for t in (0.5, 2)]
    t = read_trace(written(tmp_path, "\n".join(rows), "q.jsonl"))

    assert (t.span_s, t.block_tokens, t.start.tolist()) == (1.5, 16, [0, 3, 6])


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", "t.csv", "is empty"),
        ("arrival_s,isl,osl\n", ":2", "no requests"),
        ("arrival_s,isl,osl\n0,1,1\n", "t.csv", "a rate needs two"),
        ("arrival_s,isl,osl\n3,1,1\n3,1,1\n", "t.csv", "same time"),
        ("arrival_s,isl,osl\n0,1,1\n1,0,1\n", ":3, column isl", "at least 1"),
        ("arrival_s,isl,osl\n0,1,1\n-1,5,1\n", ":3, column arrival_s", "at least 0"),
        ("arrival_s,isl,osl\n0,1,1\n1,5\n", ":3", "2 cells, the header 3"),
        ("arival_s,isl,osl\n0,1,1\n", ":1", "no trace has the columns"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\nnoon,1,1\n", ":2, column TIMESTAMP", "no time"),
        ('"arrival_s\n",isl,osl\n0,1,1\n1,5\n', ":4", "2 cells, the header 3"),
        (line() + "\n{", ":2", "not valid JSON"),
        (line() + "\n" + line(hash_ids=[1], input_length=1400), ":2", "3 blocks of 512, `hash_ids` has 1"),
        (line() + "\n" + '{"timestamp": 1, "input_len": 3}', ":2", "`input_length` is missing"),
        (line(hash_ids=["x", 1]), ":1", "whole numbers"),
        (line(hash_ids=3), ":1", "whole numbers"),
        (line(timestamp=-1), ":1", "at least 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, where: str, says: str):
    with pytest.raises(InputError) as caught:
        read_trace(written(tmp_path, text))

    assert says in caught.value.message
    assert where in (caught.value.where or "")


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("arrival_s,isll,osl", "rename column `isll` to `isl`?"),
        ("TIMESTAMP,ContextToken,GeneratedTokens", "rename column `ContextToken` to `ContextTokens`?"),
        ("arrival_s;isl;osl", "part the columns with commas"),
        ("a,b,c", "columns arrival_s, isl, osl"),
        ("\narrival_s,isl,osl", "columns arrival_s, isl, osl"),
    ],
)
def test_the_column_to_rename_is_named(tmp_path: Path, header: str, hint: str):
    with pytest.raises(InputError) as caught:
        read_trace(written(tmp_path, f"{header}\n0,1,1\n1,1,1\n"))

    assert (caught.value.hint or "").startswith(hint)


def test_a_prefix_id_counts_however_it_is_spelt(tmp_path: Path):
    rows = "Arrival_S,ISL,OSL,Prefix_ID\n0,40,1,a\n1,100,1,a\n"

    assert read_trace(written(tmp_path, rows)).block_tokens == 16


def test_block_ids_may_be_hashes_of_64_bits_and_more(tmp_path: Path):
    rows = [line(hash_ids=[2**64 - 1, 10**30]), line(timestamp=1, hash_ids=[2**64 - 1, -5])]

    assert read_trace(written(tmp_path, "\n".join(rows))).block.tolist() == [0, 1, 0, 2]


def test_more_blocks_than_can_be_looked_at_are_refused(tmp_path: Path):
    rows = "".join(f"{i},100000000,1,{i}\n" for i in range(9))
    with pytest.raises(InputError, match="56,250,000 blocks"):
        read_trace(written(tmp_path, f"arrival_s,isl,osl,prefix_id\n{rows}"))


def test_a_trace_across_the_change_to_summer_time_has_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    rows = "2024-03-31 01:59:59,1,1\n2024-03-31 03:00:00,1,1\n"
    try:
        t = read_trace(written(tmp_path, f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}"))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert t.span_s == 3601.0


@pytest.mark.parametrize("raw", [b"\x1f\x8b nothing", b"\0\1\2", b"PAR1 not really"])
def test_broken_binaries_are_refused(tmp_path: Path, raw: bytes):
    with pytest.raises(InputError):
        read_trace(written(tmp_path, raw, "t.bin"))


def test_parquet_reads_where_pyarrow_is_there(tmp_path: Path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"arrival_s": [0.0, 1.0], "prompt_tokens": [600, 10], "output_tokens": [1, 2]}
    parquet.write_table(arrow.table(columns | {"prefix_blocks": [[4, 5], [4]]}), tmp_path / "t.parquet")
    t = read_trace(tmp_path / "t.parquet")

    assert (t.block_tokens, t.block.tolist(), t.isl.tolist()) == (512, [0, 1, 0], [600, 10])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public traces are not here")
def test_the_public_traces_have_the_means_that_are_published():
    t = read_trace(SHARED / "AzureLLMInferenceTrace_code.csv.gz")

    assert (len(t), round(t.span_s, 1)) == (8819, 3435.9)
    assert np.mean(t.isl) == pytest.approx(2047.8, abs=0.1)
