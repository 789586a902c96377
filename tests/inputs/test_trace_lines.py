"""Lines of JSON as requests: times in the form's own unit, blocks that fit their prompt, errors by line."""

from __future__ import annotations

import json

import pytest

from planner.errors import InputError
from planner.inputs.trace_columns import FORMS, MOONCAKE, QWEN, Request, adds_up, requests_of


def line(**fields: object) -> str:
    return json.dumps({"timestamp": 1500, "input_length": 20, "output_length": 5} | fields)


def test_mooncake_tells_milliseconds_and_qwen_seconds():
    mooncake = requests_of(f"\n{line(hash_ids=[7])}\n\n", "t.jsonl")
    qwen = requests_of(line(chat_id=1, hash_ids=[7, 8]), "t.jsonl")

    assert mooncake == ([Request(1.5, 20, 5, [7])], MOONCAKE)
    assert qwen == ([Request(1500.0, 20, 5, [7, 8])], QWEN)


def test_the_first_line_says_which_form_a_file_has():
    rows, size = requests_of(f"{line(turn=1)}\n{line()}", "t.jsonl")

    assert (size, [row.arrival_s for row in rows]) == (QWEN, [1500.0, 1500.0])


@pytest.mark.parametrize(
    ("many", "isl", "fits"),
    [
        (1, 20, True),
        (2, 20, True),
        (0, 20, False),
        (3, 20, False),
        (2, 32, True),
        (1, 32, False),
        (0, 5, True),
    ],
)
def test_blocks_are_a_prompt_with_or_without_its_broken_end(many: int, isl: int, fits: bool):
    assert adds_up(range(many), isl, 16) == fits


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('{"timestamp": 1', "not valid JSON", None),
        ("[1]", "expected one request in { } a line", None),
        ("{}", "`timestamp` is missing", FORMS),
        ('{"timestamp": 1, "input_len": 5, "output_length": 1}', "`input_length` is missing", "`input_len`?"),
        (line(timestamp=-1), "`timestamp` must be at least 0", None),
        (line(input_length=0), "`input_length` must be at least 1", None),
        (line(output_length=1.5), "`output_length` must be a whole number", None),
        (line(output_length=True), "`output_length` must be a number", None),
        (line(hash_ids="ab"), "`hash_ids` must be whole numbers", None),
        (line(hash_ids=[1.5]), "`hash_ids` must be whole numbers", None),
        (line(hash_ids=[True]), "`hash_ids` must be whole numbers", None),
        (line(hash_ids=[1, 2]), "a prompt of 20 tokens has 1 blocks of 512, `hash_ids` has 2", None),
        ("[" * 100_000, "not valid JSON", None),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str, hint: str | None):
    with pytest.raises(InputError) as caught:
        requests_of(f"{line()}\n\n{text}", "t.jsonl")

    assert said in caught.value.message
    assert caught.value.where == "t.jsonl:3"
    assert hint is None or (caught.value.hint or "").endswith(hint)


def test_a_line_ends_where_json_ends_it_and_not_inside_its_text():
    """U+2028 may stand in a JSON string as it is; a spreadsheet's carriage return is white space."""
    first = json.dumps({**json.loads(line()), "chat_id": "a\u2028b"}, ensure_ascii=False)
    rows, _ = requests_of(f"{first}\r\n{line()}", "t.jsonl")
    assert len(rows) == 2
