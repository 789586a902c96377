"""Runs of one length, with measurements or without."""

import pytest

from benchmarks import alike
from benchmarks.truth import RUNS


def test_without_measurements_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(alike, "RUNS", tmp_path / "none.csv.gz")
    alike.main()

    assert capsys.readouterr() == ("", "skipped: no measurements beside the repository\n")


@pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
def test_what_is_alike_is_predicted_best_as_alike_most_of_all_where_prompts_come_first(capsys):
    alike.main()
    first, held = capsys.readouterr().out.split("\n\n")
    lines = [line.split() for line in first.splitlines()[1:]]
    off = {tuple(cells[:2]): float(cells[3].rstrip("%")) for cells in lines}

    assert off["sglang", "alike"] < off["sglang", "varied"] / 2
    assert off["trtllm", "alike"] < off["trtllm", "varied"]
    assert len(held.splitlines()) == 2 + 32


def test_what_a_prompt_holds_up_is_told_apart_from_decoding():
    """By hand: with 32 in flight 20 ms a token, and 31.25 prompts of 16 ms beside N of them."""
    same = {"family": "llama", "attn_tp": "8", "isl": "1024"}
    rows = [same | {"concurrency": "32", "osl": str(n)} for n in (128, 256, 512)]
    few = [row | {"concurrency": "8"} for row in rows]

    found = alike.held_up([*rows, *few], [20 + 500 / n for n in (128, 256, 512)] + [9.0, 8.0, 7.0])
    assert found == {("llama", "8", "1024"): pytest.approx(500 / 32)}
