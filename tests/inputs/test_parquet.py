"""Traces in Parquet: what is too much or no number is refused where it stands; by a stand-in for pyarrow."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs import traces
from planner.inputs.traces import read_trace

GOOD: dict[str, list[Any]] = {
    "arrival_s": [0.0, 1.0, 2.5],
    "prompt_tokens": [600, 10, 20],
    "output_tokens": [1, 2, 3],
}


class Column(list[Any]):
    """A column as pyarrow has it."""

    def to_pylist(self) -> list[Any]:
        return list(self)


class Table(dict[str, Column]):
    """A table as pyarrow has it."""

    @property
    def column_names(self) -> list[str]:
        return list(self)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a trace of these columns, told to have so many rows, and values in each column."""

    def read(columns: dict[str, list[Any]], rows: int = 3, values: int = 3, error: Any = None) -> Any:
        arrow, parquet = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
        group = SimpleNamespace(num_columns=1, column=lambda _: SimpleNamespace(num_values=values))
        told = SimpleNamespace(num_rows=rows, num_row_groups=1, row_group=lambda _: group)

        def table(_: Any, columns: list[str], all_of: Any = columns) -> Table:
            if error is not None:
                raise error
            return Table({name: Column(all_of[name]) for name in columns})

        arrow.BufferReader, arrow.ArrowException = bytes, KeyError  # type: ignore[attr-defined]
        parquet.read_metadata = lambda _: told  # type: ignore[attr-defined]
        parquet.read_schema = lambda _: SimpleNamespace(names=list(columns))  # type: ignore[attr-defined]
        parquet.read_table = table  # type: ignore[attr-defined]
        for module in (arrow, parquet):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        (tmp_path / "t.parquet").write_bytes(b"PAR1...")
        return read_trace(tmp_path / "t.parquet")

    return read


def test_columns_are_read_and_a_prompt_may_have_no_blocks(read: Any) -> None:
    found = read(GOOD | {"prefix_blocks": [[4, 5], [4], None]})

    assert (found.block_tokens, found.block.tolist(), found.isl.tolist()) == (512, [0, 1, 0], [600, 10, 20])
    assert read(GOOD).block_tokens == 0


def test_only_so_many_rows_and_values_are_read(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read(GOOD, rows=traces.MOST_LINES, values=traces.MOST_BLOCKS)) == 3
    with pytest.raises(InputError, match="holds more than 5,000,000 requests"):
        read(GOOD, rows=traces.MOST_LINES + 1)
    with pytest.raises(InputError, match="holds more than 20,000,000 values"):
        read(GOOD, values=traces.MOST_BLOCKS + 1)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("prompt_tokens", [600, None, 20], "`prompt_tokens` must be a number, got nothing"),
        ("prompt_tokens", [600, 1.5, 20], "`prompt_tokens` must be a whole number, got 1.5"),
        ("output_tokens", [1, "x", 3], '`output_tokens` must be a number, got text "x"'),
        ("output_tokens", [1, [2], 3], "`output_tokens` must be a number, got a list"),
        ("arrival_s", [0.0, float("nan"), 1.0], "`arrival_s` must be a finite number"),
        ("arrival_s", [0.0, True, 1.0], "`arrival_s` must be a number, got true"),
        ("prefix_blocks", [[4, 5], 4, [4]], "`prefix_blocks` must be whole numbers in a list, got 4"),
        ("prefix_blocks", [[4, 5], ["a"], [4]], "`prefix_blocks` must be whole numbers in a list"),
    ],
)
def test_what_is_no_number_is_refused_at_its_row(
    read: Any, column: str, values: list[Any], said: str
) -> None:
    with pytest.raises(InputError) as error:
        read(GOOD | {column: values})

    assert error.value.message.startswith(said)
    assert error.value.where is not None
    assert error.value.where.endswith("t.parquet, row 2")


def test_a_column_that_is_missing_or_damaged_is_said(read: Any) -> None:
    with pytest.raises(InputError, match="column `output_tokens` is missing"):
        read({name: GOOD[name] for name in ("arrival_s", "prompt_tokens")})
    with pytest.raises(InputError, match="cannot read"):
        read(GOOD, error=UnicodeDecodeError("utf-8", b"\xc3", 0, 1, "invalid"))
