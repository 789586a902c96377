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
    waits = [line.split() for line in held.splitlines()[2:]]
    ratios = [float(cells[-2]) / float(cells[-4]) for cells in waits if cells[0].startswith("Llama")]
    assert len(ratios) == 12
    assert all(0.6 < ratio < 1.2 for ratio in ratios)  # the sum of launches and kernels is at 0.55 for some
