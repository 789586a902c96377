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
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    off = {tuple(cells[:2]): float(cells[3].rstrip("%")) for cells in lines}

    assert off["sglang", "alike"] < off["sglang", "varied"] / 2
    assert off["trtllm", "alike"] < off["trtllm", "varied"]
