"""Runs of one length, with measurements or without."""

import pytest

from benchmarks import alike
from benchmarks.truth import RUNS


def test_without_measurements_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(alike, "RUNS", tmp_path / "none.csv.gz")
    alike.main()

    assert capsys.readouterr() == ("", "skipped: no measurements beside the repository\n")


@pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
def test_prompts_first_makes_all_the_difference(capsys):
    alike.main()
    off = {tuple(line.split()[:2]): line.split()[3] for line in capsys.readouterr().out.splitlines()[1:]}

    assert float(off["sglang", "alike"].rstrip("%")) < float(off["sglang", "varied"].rstrip("%")) / 2
    assert off["trtllm", "alike"] == off["trtllm", "varied"]
