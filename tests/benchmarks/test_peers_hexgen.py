"""HexGen-3's cases: by hand, as they are laid out, and those beside the repository if any."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import hexgen
from benchmarks.peers.answer import stated

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "cases"
CASE = {
    "family": "hexgen3-attention-ffn-disaggregation",
    "cluster": [{"gpu": "a", "count": 2}, {"gpu": "b", "count": 4}],
    "replica_throughput_req_s": {
        "pre": {"a": {"1": 9.0}, "b": {"1": 1.0}},
        "attn": {"a": {"1": 1.0}, "b": {"1": 2.0, "2": 5.0}},
        "ffn": {"a": {"1": 3.0, "2": 20.0}, "b": {"2": None, "4": 9.0}},
    },
    "known": {"best": 3.0, "peer_runs": [{"req_s": 1.5}, {"req_s": 2.0}]},
}
"""By hand: a prefills (9/s) and does the FFN (3/s), two of b do attention (5/s)."""


def test_a_case_without_peer_is_known_by_its_family():
    case = stated(CASE)

    assert case["peer"] == "hexgen"
    assert case["known"]["best_known"] == 3.0
    assert hexgen.peer_value(case) == 2.0


def test_a_case_is_answered_in_degrees_by_worker_and_type():
    answer = hexgen.solve(stated(CASE), "throughput", 10.0)

    assert answer.objective == pytest.approx(3.0) == answer.bound
    assert answer.status == "optimal"
    assert answer.solution["pre"]["a"] == {"gpus": 1, "replica_tp": [1]}
    assert answer.solution["ffn"]["a"] == {"gpus": 1, "replica_tp": [1]}


@pytest.mark.skipif(not CASES.is_dir(), reason="the peers' cases are not beside the repository")
def test_stored_cases_reach_the_exhaustive_optimum_with_proof(tmp_path):
    cases = sorted(str(path) for path in (CASES / "hexgen").glob("*.json"))
    run = [sys.executable, "-m", "benchmarks.peers", *cases, "--json"]
    answers = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    (tmp_path / "answers.jsonl").write_text(answers)
    score = [sys.executable, str(CASES / "score_placement.py"), "--cases", str(CASES)]
    scored = subprocess.run([*score, str(tmp_path / "answers.jsonl")], capture_output=True, text=True)

    assert f"{len(cases)} of {len(cases)}" in scored.stdout
    assert all(json.loads(line)["status"] == "optimal" for line in answers.splitlines())
