"""`meshwright probe`: the list, and the commands that make it."""

import json
import math
import shlex

import numpy as np
import pytest

from planner.calibration import commands
from planner.calibration.measurements import read_measurements
from planner.calibration.outlook import look
from planner.calibration.priors import SPREAD
from planner.calibration.probe import NOISE, probe
from planner.calibration.trials import Server, Trial
from planner.candidates.candidate import Design
from planner.cli.app import run
from planner.cost.bands import Z80
from planner.designs.precision import precisions
from planner.errors import Infeasible
from planner.predict.loads import Group
from planner.predict.predictions import find_model, predict_rows, usual_node
from planner.predict.rows import parse
from planner.question.asked import Asked, read


def asked(gpus: str, model: str, workload: str = "chat", ttft_ms: int | None = None, **options: str) -> Asked:
    return read(None, model, gpus, workload, {"ttft_ms": ttft_ms}, options)


@pytest.fixture(scope="module")
def two_kinds():
    return probe(asked("2xH100,2xL40S", "qwen3-32b", engine="vllm"))


@pytest.fixture(scope="module")
def three_engines():
    return probe(asked("2xRTX-4090", "qwen3-8b"))


@pytest.fixture(scope="module")
def outlook():
    return look(asked("2xH100", "qwen3-32b", engine="vllm"), SPREAD, NOISE)


def bands(found):
    runs = [run for session in found.sessions for run in session.runs]
    return [found.before, *(run.bands for run in runs)]


@pytest.mark.parametrize("name", ["two_kinds", "three_engines"])
def test_no_run_widens_a_band_and_all_together_narrow_both(name, request):
    found = request.getfixturevalue(name)
    ttft, tpot = np.array([(b.ttft, b.tpot) for b in bands(found)]).T

    assert (np.diff(ttft) <= 1e-9).all()
    assert (np.diff(tpot) <= 1e-9).all()
    assert found.after.tpot < 0.98 * found.before.tpot
    assert found.after.ttft < found.before.ttft
    assert 1 <= len(ttft) - 1 <= 12


def test_every_kind_of_gpu_and_every_engine_is_looked_at(two_kinds, three_engines):
    devices = [session.server.group.node_class.device.name for session in two_kinds.sessions]
    engines = {session.server.group.engine for session in three_engines.sessions}

    assert set(devices) == {"h100-sxm", "l40s"}
    assert devices == sorted(devices, key=devices.index)
    assert engines == {"vllm", "sglang", "trtllm"}


def test_a_server_is_started_once(three_engines):
    servers = [(s.server.group.engine, s.server.design) for s in three_engines.sessions]

    assert len(servers) == len(set(servers))


def test_the_list_is_the_same_every_time_and_begins_with_the_bands_of_predict():
    one, two = (probe(asked("2xH100", "qwen3-32b", engine="vllm")) for _ in range(2))

    assert commands.script(one.sessions) == commands.script(two.sessions)
    row = {"model": "qwen3-32b", "device": "h100", "tp": "2"}
    said = predict_rows([row])[0]
    stated = (said.ttft_ms_high / said.ttft_ms, said.tpot_ms_high / said.tpot_ms)
    before = np.exp(Z80 * np.array([one.before.ttft, one.before.tpot]))
    assert before == pytest.approx(stated, rel=0.02)
    assert (before > stated).all()  # of all trials: those in pipelines have wider ones


def test_weights_are_odds_of_what_keeps_the_slo():
    found = look(asked("2xH100", "qwen3-8b", ttft_ms=150, engine="vllm"), SPREAD, NOISE)
    share = np.array([t.share for t in found.trials])
    late = np.exp(found.fit.here[:, 0]) > 2 * 150

    assert found.weight.sum() == pytest.approx(1)
    assert found.weight[share == 0].sum() == 0
    assert (late & (share > 0)).any()
    assert found.weight[late].sum() < 0.05
    assert found.weight[~late & (share > 0)].max() > 0.02
    assert len(found.trials) == len(set(found.trials))


def test_the_model_prices_a_run_as_predict_does(outlook):
    """Five rounds, 16 requests or half a minute, and the client's start."""
    for i in outlook.able[:4].tolist():
        t, server = outlook.trials[i], outlook.servers[outlook.trials[i].server]
        cells = {
            "model": "qwen3-32b",
            "device": "h100",
            "isl": t.isl,
            "osl": t.osl,
            "concurrency": t.requests,
        }
        cells |= {"tp": server.design.tp, "pp": server.design.pp}
        said = predict_rows([{name: str(value) for name, value in cells.items()}])[0]
        latency_s = (said.ttft_ms + (t.osl - 1) * said.tpot_ms) / 1e3
        rounds = math.ceil(max(5, 16 / t.requests, 30 / latency_s))

        assert outlook.minutes[i] == pytest.approx((rounds * latency_s + 20) / 60, rel=0.02)


def test_prompts_found_in_a_cache_matter_but_are_not_measured():
    found = look(asked("2xH100", "qwen3-8b", "agent", engine="vllm"), SPREAD, NOISE)

    assert {found.trials[i].prefix_hit for i in found.able} == {0.0}
    assert {t.prefix_hit for t, w in zip(found.trials, found.weight, strict=True) if w > 0} == {0.8}


def test_what_needs_several_nodes_is_measured_on_as_few_as_do():
    found = probe(asked("24xH100", "llama-3.1-405b", engine="vllm"))
    text = "\n".join(commands.script(found.sessions))

    assert {session.server.nodes for session in found.sessions} == {2}
    assert "--distributed-executor-backend ray" in text
    assert "# needs a Ray cluster of 2 nodes" in text


def test_attention_dp_has_its_options():
    """Named for every engine as it takes them: ranks of a stage, their split, the experts'."""
    card, node = find_model("qwen3-30b-a3b"), usual_node("h100-sxm")
    design = Design(tp=2, attn_dp=4, moe_tp=1, ep=8)
    started = {}
    for engine in ("vllm", "sglang", "trtllm"):
        server = Server(Group(card, node, engine, "mixed", precisions(card)), design, 1.0)
        trial = Trial(0, 1000, 100, 0.0, 1.0, 8)
        started[engine] = commands.serve(server, [trial])

    assert " --tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel " in started["vllm"]
    assert " --tp-size 8 --dp-size 4 --ep-size 8 --enable-dp-attention " in started["sglang"]
    assert " --tp_size 8 --ep_size 8 " in started["trtllm"]
    assert " --extra_llm_api_options results/trtllm.yaml " in started["trtllm"]


def test_commands_start_a_server_make_its_runs_and_stop_it(three_engines):
    lines = commands.script(three_engines.sessions)
    serving = {"vllm": "vllm serve", "sglang": "python -m sglang.launch_server", "trtllm": "trtllm-serve"}
    client = {
        "vllm": "vllm bench serve",
        "sglang": "python -m sglang.bench_serving",
        "trtllm": "python -m tensorrt_llm.serve.scripts.benchmark_serving",
    }

    assert lines[0] == "mkdir -p results"
    assert lines[-1].startswith("meshwright calibrate results/")
    for session in three_engines.sessions:
        engine = session.server.group.engine
        at = lines.index(f"# {commands.title(session.server)}")
        assert lines[at + 1].startswith(serving[engine])
        assert lines[at + 1].endswith(".log 2>&1 &")
        assert lines[at + 2] == commands.WAIT
        for line, made in zip(lines[at + 3 :], session.runs, strict=False):
            words = shlex.split(line)
            assert line.startswith(client[engine])
            assert words[words.index("--random-input-len") + 1] == str(made.trial.isl)
            assert words[words.index("--random-output-len") + 1] == str(made.trial.osl)
            assert words[words.index("--max-concurrency") + 1] == str(made.trial.requests)
            assert words[words.index("--num-prompts") + 1] == str(made.prompts)
            assert made.prompts >= 5 * made.trial.requests
        assert lines[at + 3 + len(session.runs)] == commands.STOP


def test_seeds_and_files_differ_from_run_to_run(three_engines):
    lines = [shlex.split(line) for line in commands.script(three_engines.sessions) if "--seed" in line]
    seeds = [words[words.index("--seed") + 1] for words in lines]
    files = [
        word
        for words in lines
        for word in words
        if word.removeprefix("results/")[:2].isdigit() and ".json" in word
    ]

    assert len(set(seeds)) == len(set(files)) == len(lines) > 1


def test_metadata_are_columns_that_say_what_was_measured(two_kinds):
    for session in two_kinds.sessions:
        words = shlex.split(commands.benchmark(session.server, session.runs[0], 1))
        told = dict(word.split("=") for word in words[words.index("--metadata") + 1 :])
        row = parse({"model": "qwen3-32b", **told})

        assert (row.device, row.engine) == (session.server.group.node_class.device.name, "vllm")
        assert (row.tp, row.pp) == (session.server.design.tp, session.server.design.pp)


def result_of(session, made):
    """What a client writes of a run: its metadata and the figures that were predicted, a tenth slower."""
    t, d, group = made.trial, session.server.design, session.server.group
    command = shlex.split(commands.benchmark(session.server, made, 1))
    columns = dict(w.split("=") for w in command[-1].split() + command if "=" in w and " " not in w)
    cells = {"model": group.card.name, "isl": t.isl, "osl": t.osl, "concurrency": t.requests} | columns
    said = predict_rows([{name: str(value) for name, value in cells.items()}])[0]
    ttft, tpot = 1.1 * said.ttft_ms, 1.1 * said.tpot_ms
    seconds = made.prompts / t.requests * (ttft + (t.osl - 1) * tpot) / 1e3
    result = {"completed": made.prompts, "duration": seconds, "max_concurrency": t.requests}
    result |= {"total_input_tokens": made.prompts * t.isl, "total_output_tokens": made.prompts * t.osl}
    result |= {"mean_ttft_ms": ttft, "mean_tpot_ms": tpot, "request_rate": "inf"}
    if group.engine == "sglang":
        server = {"model_path": group.card.hf_id, "tp_size": d.tp, "pp_size": d.pp}
        result |= {"backend": "sglang", "dataset_name": "random-ids", "server_info": server}
        return result | {"tag": command[command.index("--tag") + 1]}
    return result | {"backend": "openai", "model_id": group.card.hf_id, "num_prompts": made.prompts} | columns


def test_calibrate_reads_what_the_commands_write(three_engines, tmp_path):
    runs = [(session, made) for session in three_engines.sessions for made in session.runs]
    for number, (session, made) in enumerate(runs, 1):
        suffix = "jsonl" if session.server.group.engine == "sglang" else "json"
        (tmp_path / f"{number:02d}.{suffix}").write_text(json.dumps(result_of(session, made)))
    words = shlex.split(commands.script(three_engines.sessions)[-1])
    assert words == ["meshwright", "calibrate", "results/*.json*", "-o", "my-cluster.calib.yaml"]
    used, refused = read_measurements(sorted(tmp_path.glob("*.json*")), {})

    assert refused == []
    for measured, (session, made) in zip(used, runs, strict=True):
        row, t, d = parse(measured.cells), made.trial, session.server.design
        assert (row.device, row.engine) == ("rtx-4090", session.server.group.engine)
        assert (row.tp, row.pp, row.isl, row.osl, row.concurrency) == (d.tp, d.pp, t.isl, t.osl, t.requests)
        assert measured.ttft_ms is not None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"engine": "vllm", "precision": "fp8"}, ["--quantization fp8", "precision=fp8"]),
        ({"engine": "vllm", "kv_precision": "fp8"}, ["--kv-cache-dtype fp8", "kv_precision=fp8"]),
        ({"engine": "sglang", "kv_precision": "fp8"}, ["--kv-cache-dtype fp8_e4m3"]),
        ({"engine": "trtllm", "precision": "fp8"}, ["trtllm-serve FP8_CHECKPOINT", "model=qwen3-8b"]),
        ({"engine": "trtllm", "kv_precision": "fp8"}, ['"kv_cache_config": {"dtype": "fp8"}', "trtllm.yaml"]),
        ({"engine": "llama.cpp"}, ["llama-server --model qwen3-8b.gguf", "engine=llama.cpp"]),
    ],
)
def test_a_precision_that_was_asked_for_is_served(options, expected):
    text = "\n".join(commands.script(probe(asked("1xH100", "qwen3-8b", **options)).sessions))

    assert all(part in text for part in expected)


def test_old_devices_serve_in_half_precision():
    text = "\n".join(commands.script(probe(asked("2xT4", "qwen3-4b", engine="vllm")).sessions))

    assert "--dtype half" in text


def test_answers_of_one_token_have_no_tpot(capsys):
    line = ["probe", "--gpus", "1xH100", "--model", "llama-3.1-8b", "--osl", "1", "--engine", "sglang"]

    assert run(line) == 0
    table = capsys.readouterr().out.partition("Paste")[0].splitlines()
    assert "TPOT ±" not in table[1]
    assert "TTFT ±" in table[1]
    assert all(row.count("±") == 1 for row in table if row.startswith(("now", "  1")))


def test_nothing_that_fits_is_infeasible():
    with pytest.raises(Infeasible, match="does not fit"):
        probe(asked("1xT4", "llama-3.1-70b"))


def test_the_command_prints_a_table_and_commands_without_colour(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    assert run(["probe", "--gpus", "1xH100", "--model", "llama-3.1-8b", "--engine", "vllm"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("llama-3.1-8b on 1xH100, chat, 1,024 in, 256 out\n")
    assert "\x1b" not in out
    served = [line for line in out.splitlines() if line.startswith("vllm ")]
    assert len(served) > 1
    assert any(len(line) > 80 for line in served)
    assert out.splitlines()[-1].startswith("meshwright calibrate ")


def test_json_has_the_same_list(capsys):
    line = ["probe", "--gpus", "1xH100", "--model", "llama-3.1-8b", "--engine", "vllm", "--json"]

    assert run(line) == 0
    found = json.loads(capsys.readouterr().out)
    listed = [made["command"] for server in found["servers"] for made in server["runs"]]
    assert [line for line in found["script"] if line.startswith("vllm bench")] == listed
    assert (
        found["after"]["tpot"] == found["servers"][-1]["runs"][-1]["bands"]["tpot"] < found["before"]["tpot"]
    )


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--gpus", "2xH1OO", "--model", "llama-3.1-8b"], 2, "unknown GPU"),
        (["--gpus", "2xH100", "--model", "llama-3.1-9b"], 2, "did you mean llama-3.1-8b"),
        (["--gpus", "2xH100", "--model", "llama-3.1-8b", "--workload", "caht"], 2, "did you mean `chat`"),
        (["--gpus", "2xH100", "--model", "llama-3.1-8b", "--isl", "0"], 2, "--isl"),
        (["--gpus", "2xH100", "--model", "llama-3.1-8b", "--engine", "vlm"], 2, "--engine"),
        (["--model", "llama-3.1-8b"], 2, "name one cluster"),
        (["--gpus", "1xT4", "--model", "llama-3.1-70b"], 3, "does not fit"),
    ],
)
def test_what_cannot_be_probed_is_said_in_one_message(options, code, said, capsys):
    assert run(["probe", *options]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
