"""`python -m benchmarks.peers` on cases checked by hand, and on those beside the repository if any."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import melange, splitwise
from benchmarks.peers.__main__ import main
from benchmarks.peers.answer import peers

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "cases"
MELANGE = {
    "peer": "melange",
    "problem": {
        "gpu_types": ["small", "large"],
        "price_usd_per_hour": [1.0, 3.5],
        "input_tokens": None,
        "output_tokens": None,
        "workload_fraction": [[0.5, 0.5], [0.0, 0.0]],
        "total_requests_per_s": 10.0,
        "max_throughput_requests_per_s": [[[2, None], [5, None]], [[10, 10], [10, 10]]],
    },
    "known": {"peer_seconds": 0.5, "best_known": 6.5, "peer_result": {"cost_usd_per_hour": 7.0}},
}
"""By hand: one large is filled half by the second bucket and takes the first too ($3.5)."""


def written(folder: Path, case: object, name: str = "case") -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(case))
    return str(path)


def test_a_melange_case_is_answered_in_counts_and_shares():
    answer = melange.solve(MELANGE, "cost", 10.0)

    assert (answer.objective, answer.bound, answer.status) == (3.5, 3.5, "optimal")
    assert answer.solution["counts"] == {"small": 0, "large": 1}
    assert [sum(s["fraction"].values()) for s in answer.solution["split"]] == pytest.approx([1.0, 1.0])
    assert [(s["input_bucket"], s["output_bucket"]) for s in answer.solution["split"]] == [(0, 0), (0, 1)]


def test_a_bucket_that_no_type_serves_makes_a_melange_case_infeasible():
    problem = {**MELANGE["problem"], "max_throughput_requests_per_s": [[[2, None], [5, None]]] * 2}

    assert melange.solve({"problem": problem}, "cost", 10.0).status == "infeasible"


def test_a_melange_case_without_requests_costs_nothing():
    problem = {**MELANGE["problem"], "total_requests_per_s": 0}

    assert melange.solve({"problem": problem}, "cost", 10.0).objective == 0.0


@pytest.mark.parametrize(("resource", "amount"), [("relative_cost", 7.0), ("relative_power", 70.0)])
def test_a_splitwise_case_is_answered_in_prompt_and_token_machines(resource, amount):
    """By hand: a prompt machine makes 10/s, a token machine 5/s (room for 10 sequences, 100 steps of
    20 ms); of 7 machines 2 and 5 give 20/s, 3 and 4 give 20/s too."""
    machine = {
        "memory_bytes": 110,
        "relative_cost": 1.0,
        "relative_power": 10.0,
        "prompt_ms_by_batch_tokens": [[100, 100.0], [1000, 1000.0]],
        "token_ms_by_batch_tokens": [[1, 20.0], [100, 20.0]],
    }
    problem = {
        "model": {"weight_bytes": 10, "kv_bytes_per_token": 0.05},
        "workload": {"prompt_tokens_mean": 100, "output_tokens_mean": 100},
        "machine_types": {"m": machine},
        "limits": {"prompt_batch_tokens": 500, "token_batch_max": 512},
        "budget": {"resource": resource, "amount": amount},
    }
    answer = splitwise.solve({"problem": problem}, "throughput", 10.0)

    assert answer.objective == pytest.approx(20.0) == answer.bound
    assert answer.status == "optimal"
    assert (answer.solution["prompt"]["m"], answer.solution["token"]["m"]) in [(2, 4), (2, 5), (3, 4)]


def test_json_is_one_object_a_line_and_nothing_else(tmp_path, capfd):
    assert main([written(tmp_path, MELANGE), written(tmp_path, MELANGE, "again"), "--json"]) == 0

    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == ["case", "again"]
    assert {"case", "objective", "bound", "status", "seconds", "solution"} <= lines[0].keys()


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_the_table_shows_how_much_faster_than_the_peer(tmp_path, capsys, form):
    main([written(tmp_path, MELANGE), *form])

    out = capsys.readouterr().out
    assert "melange/case" in out
    assert "6.5" in out
    assert "x" in out.splitlines()[-1]
    assert out.startswith("|") == bool(form)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"peer": "nobody", "problem": {}}, "no adapter for peer `nobody`"),
        ({"peer": "../x", "problem": {}}, "no adapter for peer"),
        ({"peer": "melange", "problem": {}}, "lacks what melange needs"),
        ([1], "not a case"),
    ],
)
def test_what_is_no_case_is_refused_in_one_message(tmp_path, capsys, case, message):
    assert main([written(tmp_path, case)]) == 2
    assert message in capsys.readouterr().err


def test_an_objective_that_the_peer_lacks_is_refused(tmp_path, capsys):
    assert main([written(tmp_path, MELANGE), "--objective", "served"]) == 2
    assert "one of cost" in capsys.readouterr().err


def test_every_peer_has_what_an_adapter_needs():
    assert {"melange", "splitwise"} <= set(peers())


@pytest.mark.skipif(not CASES.is_dir(), reason="the peers' cases are not beside the repository")
def test_stored_cases_score_as_best_known(tmp_path):
    names = [
        "melange/readme_example",
        "melange/syn08_mid",
        "melange/syn16_low",
        "splitwise/isopower_conv_bloom",
    ]
    run = [sys.executable, "-m", "benchmarks.peers", *(str(CASES / f"{n}.json") for n in names), "--json"]
    answers = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    (tmp_path / "answers.jsonl").write_text(answers.stdout)
    score = [sys.executable, str(CASES / "score.py"), "--cases", str(CASES), str(tmp_path / "answers.jsonl")]
    scored = subprocess.run(score, capture_output=True, text=True)

    assert scored.returncode == 0, scored.stdout
    assert "4 of 4" in scored.stdout
    assert all(json.loads(line)["status"] == "optimal" for line in answers.stdout.splitlines())
