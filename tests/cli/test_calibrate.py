"""`meshwright calibrate` from measurements to a file, and what `plan` and `predict` make of it."""

import csv
import json
from dataclasses import replace

import pytest

from planner import api
from planner.calibration import files
from planner.cli.app import run
from planner.cost.calibration import shipped
from planner.errors import InputError
from planner.predict.predictions import predict_rows

SERVER = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "tp": "1"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Twelve rows of a server a quarter slower than predicted, and two that cannot be true."""
    loads = [(isl, osl, c) for isl in ("512", "2048") for osl in ("128", "512") for c in ("1", "16", "64")]
    rows = [{**SERVER, "isl": isl, "osl": osl, "concurrency": c} for isl, osl, c in loads]
    said = predict_rows(rows)
    path = tmp_path_factory.mktemp("bench") / "bench.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "measured_ttft_ms", "measured_tpot_ms"])
        writer.writeheader()
        for row, p in zip(rows, said, strict=True):
            writer.writerow(
                {**row, "measured_ttft_ms": p.ttft_ms * 1.1, "measured_tpot_ms": p.tpot_ms * 1.25}
            )
        writer.writerow({**rows[0], "measured_ttft_ms": 40, "measured_tpot_ms": 0.006})
        writer.writerow({**rows[0], "device": "h1OO", "measured_ttft_ms": 40, "measured_tpot_ms": 6})
    return path


@pytest.fixture(scope="module")
def calibration(bench):
    """The file that `bench` makes."""
    path = bench.with_name("my.calib.yaml")
    assert run(["calibrate", str(bench), "-o", str(path)]) == 0
    return path


def test_the_report_says_what_it_is_worth_and_stderr_what_was_refused(bench, tmp_path, capsys):
    assert run(["calibrate", str(bench), "-o", str(tmp_path / "my.calib.yaml")]) == 0
    out, err = capsys.readouterr()

    assert "12 rows used, 2 refused" in out
    assert "llama-3.1-8b bf16 on h100-sxm under vllm" in out
    tpot = next(line.split() for line in out.splitlines() if line.strip().startswith("TPOT"))
    assert float(tpot[2]) == pytest.approx(20, abs=1)  # percent before: 1 / 1.25
    assert float(tpot[4]) < 5
    assert f"{bench}:14: refused: TPOT of 0.006 ms: is it in seconds?" in err
    assert f"{bench}:15: refused: unknown GPU `h1OO`" in err


def asked(**options):
    """A small plan."""
    return api.plan(None, "llama-3.1-8b", gpus="2xH100", engine="vllm", explain=False, **options)


def test_a_plan_is_made_by_it_and_says_so(calibration):
    plain, plan = asked(), asked(calibration=calibration)

    assert plan.predicted.out_tok_per_s.value < 0.95 * plain.predicted.out_tok_per_s.value
    wide, narrow = (p.predicted.tpot_ms.high / p.predicted.tpot_ms.low for p in (plain, plan))
    assert narrow < wide
    stated = plan.problem.calibration
    assert (stated["name"], stated["rows"]) == ("my.calib.yaml", 12)
    assert stated["held_back_tpot"]["after"] < stated["held_back_tpot"]["before"]
    assert plain.problem.calibration["name"] == "shipped"
    assert plain.problem.calibration["rows"] == shipped().about["rows"]


def test_a_calibration_in_hand_is_as_good_as_its_file(calibration):
    plan = asked(calibration=files.read(calibration))

    assert plan.predicted == asked(calibration=str(calibration)).predicted


def test_predict_uses_it(bench, calibration, tmp_path):
    plain, refined = tmp_path / "plain.csv", tmp_path / "refined.csv"
    rows = tmp_path / "rows.csv"
    rows.write_text("model,device,tp,isl,osl,concurrency\nllama-3.1-8b,h100,1,1024,256,32\n")

    assert run(["predict", str(rows), "--out", str(plain)]) == 0
    assert run(["predict", str(rows), "--out", str(refined), "--calibration", str(calibration)]) == 0
    before, after = (next(csv.DictReader(path.read_text().splitlines())) for path in (plain, refined))
    assert float(after["tpot_ms"]) / float(before["tpot_ms"]) == pytest.approx(1.25, abs=0.04)
    assert float(after["tpot_ms_high"]) / float(after["tpot_ms"]) < 1.1


def test_a_sweep_can_vary_it(calibration, tmp_path):
    study = tmp_path / "study.yaml"
    base = "{gpus: 1xH100, model: llama-3.1-8b, engine: vllm}"
    study.write_text(f"base: {base}\nvary: {{calibration: [null, {calibration}]}}\n")

    assert run(["sweep", str(study), "-o", str(tmp_path / "out.jsonl"), "-j", "1"]) == 0
    cells = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert cells[1]["objective"] < 0.95 * cells[0]["objective"]


def test_another_versions_calibration_is_warned_of(calibration, tmp_path, capsys):
    old = tmp_path / "old.calib.yaml"
    old.write_text(calibration.read_text().replace('"meshwright_version": "', '"meshwright_version": "0.0.'))
    rows = tmp_path / "rows.csv"
    rows.write_text("model,device\nllama-3.1-8b,h100\n")

    assert run(["predict", str(rows), "--out", str(tmp_path / "out.csv"), "--calibration", str(old)]) == 0
    assert "calibrate again" in capsys.readouterr().err
    assert "calibration" in [w.code for w in asked(calibration=old).warnings]


def test_nothing_usable_is_bad_input_and_leaves_no_file(bench, tmp_path, capsys):
    path, out = tmp_path / "bad.csv", tmp_path / "my.calib.yaml"
    lines = bench.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines[-2:]]))

    assert run(["calibrate", str(path), "-o", str(out)]) == 2
    assert "none of 2 measurements can be used" in capsys.readouterr().err
    assert not out.exists()


def test_options_stand_in_for_what_files_do_not_say(bench, tmp_path):
    path, out = tmp_path / "short.csv", tmp_path / "my.calib.yaml"
    path.write_text("isl,osl,concurrency,measured_tpot_ms\n512,128,16,9.5\n512,512,16,9.7\n")

    assert run(["calibrate", str(path), "-o", str(out)]) == 2
    options = ["--model", "llama-3.1-8b", "--device", "h100", "--engine", "vllm", "--tp", "1"]
    assert run(["calibrate", str(path), "-o", str(out), *options]) == 0
    assert files.read(out).about["rows"] == 2


def test_a_profile_leaves_nothing_to_calibrate(calibration):
    with pytest.raises(InputError, match="leaves nothing to calibrate"):
        asked(calibration=calibration, profile="table.csv")


def test_a_file_of_nonsense_is_refused_with_its_place(calibration, tmp_path, capsys):
    bad = tmp_path / "bad.calib.yaml"
    bad.write_text(files.written(replace(shipped(), bands={"tpot": {"all": {"all": -1.0}}})))
    line = ["plan", "--gpus", "1xH100", "--model", "llama-3.1-8b", "--calibration", str(bad)]

    assert run(line) == 2
    assert f"{bad}:" in capsys.readouterr().err
