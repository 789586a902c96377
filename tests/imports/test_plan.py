"""A deployment as a Plan: the design that was read, judged by the one model, and what would be better."""

from __future__ import annotations

import pytest

from cluster_configs.reading import from_gpus, read_cluster
from model_zoo import catalog
from planner import plan
from planner.check import check
from planner.cli.app import main, run
from planner.errors import Infeasible, InputError
from planner.imports.parts import design_of, parts
from planner.imports.plan import Imported, devices_of, imported
from planner.imports.read import read
from tests.reports.samples import ONE_NODE, replica

TP8 = "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 8 --max-num-seqs 256"


def test_the_plan_runs_the_design_that_was_read_and_passes_its_check():
    made = imported(read(TP8), None, "8xH100", None, {})
    (replica,) = made.plan.replicas

    assert (replica.tp, replica.pp, replica.count, replica.engine) == (8, 1, 1, "vllm")
    assert check(made.plan) == []
    assert 0.2 < made.loss < 0.8
    assert made.best.proof.objective >= made.near.proof.own >= made.plan.proof.own
    assert made.changes == ["--tensor-parallel-size 8 -> 4", "servers 1 -> 2"]


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-num-seqs 8", "--max-num-seqs 8"),
        ("sglang serve --model-path Qwen/Qwen3-8B --max-running-requests 8", "--max-running-requests 8"),
        ("trtllm-serve Qwen/Qwen3-8B --max_batch_size 8", "--max_batch_size 8"),
        ("llama-server -hf Qwen/Qwen3-8B --parallel 8", "--parallel 8"),
    ],
)
def test_a_server_decodes_no_more_sequences_than_its_command_allows(command, flag):
    """What it serves is less, and the flag is named among the changes; a larger limit changes nothing."""
    free, told, roomy = (
        imported(read(command.replace(" 8", f" {most}")), None, "1xH100", None, {})
        for most in (-1, 8, 100_000)
    )

    assert told.plan.replicas[0].max_batch == 8
    assert told.plan.proof.own < 0.6 * free.plan.proof.own
    assert roomy.plan.proof.own == free.plan.proof.own
    assert any(x.startswith(f"{flag} -> ") for x in told.changes)
    assert free.changes == roomy.changes == []
    assert check(told.plan) == []


@pytest.mark.parametrize(
    ("engine", "now", "then", "said"),
    [
        (
            "sglang",
            {"tp": 1, "attn_dp": 4, "ep": 4},
            {"tp": 4, "moe_tp": 4},
            "--attn-dp-size 4 -> 1, --ep-size 4 -> 1",
        ),
        ("trtllm", {"tp": 4, "ep": 4}, {"tp": 1, "attn_dp": 4, "ep": 4}, "--enable_attention_dp off -> on"),
        (
            "vllm",
            {"tp": 4, "moe_tp": 4},
            {"tp": 1, "attn_dp": 4, "ep": 4},
            "--tensor-parallel-size 4 -> 1, --data-parallel-size 1 -> 4, --enable-expert-parallel off -> on",
        ),
    ],
)
def test_changes_are_those_of_the_engines_own_flags(engine, now, then, said):
    """SGLang's and TensorRT-LLM's tp is of all ranks of a stage; vLLM's is not."""
    own, best = (
        ONE_NODE.model_copy(update={"replicas": [replica(count=1, engine=engine, **sizes)]})
        for sizes in (now, then)
    )

    assert Imported(read(TP8), own, best, best, ()).changes == said.split(", ")


def test_where_requests_are_in_a_closed_loop_all_those_allowed_decode():
    """By Little's law: 8 sequences in flight, each a request's tokens long."""
    text = "vllm serve Qwen/Qwen3-8B --max-num-seqs 8"
    plan = imported(read(text), None, "1xH100", None, {"percentile": "mean"}).plan
    (replica,) = plan.replicas

    assert replica.max_batch == 8


def test_sglangs_limit_is_of_all_attention_dp_ranks_together_the_others_of_each():
    moe, _ = catalog.find("qwen3-30b-a3b")
    sglang = read("sglang serve --model-path m --tp-size 4 --attn-dp-size 4 --max-running-requests 8")
    vllm = read("vllm serve m -dp 4 --enable-expert-parallel --max-num-seqs 8")

    assert [(p.most_sequences, p.most_a_rank) for d in (sglang, vllm) for p in parts(d, moe)] == [
        (8, 2.0),
        (32, 8.0),
    ]


def test_its_own_best_plan_leaves_nothing_on_the_table():
    best = plan(None, "qwen3-32b", gpus="2xh100", engine="vllm", explain=False)
    (r,) = best.replicas
    text = f"vllm serve Qwen/Qwen3-32B -tp {r.tp} -pp {r.pp}\n" * r.count
    made = imported(read(text), None, "2xh100", None, {})

    assert made.plan.proof.own == pytest.approx(best.proof.own, rel=0.02)


@pytest.mark.parametrize(
    ("model", "text", "sizes", "count"),
    [
        ("llama-3.1-8b", "vllm serve m -dp 4", (1, 1, 1, 1, 1), 4),
        ("qwen3-30b-a3b", "vllm serve m -dp 4 --enable-expert-parallel", (1, 1, 4, 1, 4), 1),
        ("qwen3-30b-a3b", "vllm serve m -tp 2 -dp 2", (2, 1, 2, 4, 1), 1),
        (
            "deepseek-v3",
            "sglang serve --model-path m --tp-size 16 --attn-dp-size 8 --ep-size 16",
            (2, 1, 8, 1, 16),
            1,
        ),
        ("deepseek-v3", "sglang serve --model-path m --tp-size 8 --dp-size 2", (8, 1, 1, 8, 1), 2),
        ("deepseek-v3", "trtllm-serve m --tp_size 8 --ep_size 4 --enable_attention_dp", (1, 1, 8, 2, 4), 1),
        ("llama-3.1-8b", "llama-server -m m -ts 1,1", (1, 2, 1, 1, 1), 1),
    ],
)
def test_degrees_are_the_planners_own_whatever_the_engine_calls_them(model, text, sizes, count):
    design, replicas = design_of(read(text).groups[0].server, catalog.find(model)[0])

    assert tuple(design.sizes.values()) == sizes
    assert replicas == count


def test_a_command_says_its_device_or_asks_for_it():
    with pytest.raises(InputError, match="which 8 GPUs"):
        imported(read(TP8), None, None, None, {})


def test_servers_of_several_models_are_refused_and_so_are_those_of_none():
    """They were planned as servers of the first model, or of one called `None`."""
    both = read("vllm serve Qwen/Qwen3-8B\nvllm serve meta-llama/Llama-3.1-8B -tp 2")
    with pytest.raises(InputError, match=r"several models: Qwen/Qwen3-8B, meta-llama/Llama-3.1-8B"):
        imported(both, None, "4xH100", None, {})
    with pytest.raises(InputError, match="which model does it serve"):
        imported(read("vllm serve -tp 2"), None, "2xH100", None, {})


def test_too_few_gpus_are_refused():
    with pytest.raises(InputError, match="takes 8 GPUs") as told:
        imported(read(TP8), None, "4xH100", None, {})
    assert told.value.where == "--gpus"

    with pytest.raises(InputError, match="takes 8 GPUs") as told:
        imported(read(TP8), from_gpus("4xH100"), None, None, {})
    assert told.value.where == "--cluster"


@pytest.mark.parametrize(
    ("flags", "layout"), [("-pp 9", "pp9"), ("-tp 16", "tp16"), ("-tp 4 -pp 3", "tp4 pp3")]
)
def test_a_layout_that_is_not_planned_is_bad_input_not_a_limit_that_is_missed(flags, layout):
    with pytest.raises(InputError, match=f"^{layout} is no layout that is planned"):
        imported(read(f"vllm serve meta-llama/Llama-3.1-8B {flags}"), None, "16xH100", None, {})


def test_more_stages_than_layers_are_bad_input():
    with pytest.raises(InputError, match="32 layers cannot fill 64 stages"):
        imported(read("vllm serve meta-llama/Llama-3.1-8B -pp 64"), None, "64xH100", None, {})


def test_a_size_that_the_engine_refuses_is_bad_input_with_the_rule():
    with pytest.raises(InputError, match=r"vllm does not start qwen3-8b so: .* does not divide by tp=3"):
        imported(read("vllm serve Qwen/Qwen3-8B -tp 3"), None, "4xA100", None, {})


@pytest.mark.parametrize(
    ("model", "limits", "said"),
    [
        ("Qwen/Qwen3-8B", {"tpot_ms": 5}, "keeps TPOT 5 ms .* the nearest is tp1 on l4 with vllm"),
        ("Qwen/Qwen3-32B", {}, "qwen3-32b does not fit .* GiB short on each GPU even with tp1"),
    ],
)
def test_where_the_design_that_was_read_serves_nothing_its_own_reason_is_told(model, limits, said):
    with pytest.raises(Infeasible, match=f"as deployed: .*{said}"):
        imported(read(f"vllm serve {model}"), None, "1xL4", None, limits)


def test_nodes_are_told_by_the_ids_that_their_user_gave_them(tmp_path):
    (tmp_path / "c.yaml").write_text("name: lab\nnodes: [{name: rack-a, device: l4, gpus_per_node: 1}]\n")
    there = read_cluster(tmp_path / "c.yaml")

    with pytest.raises(Infeasible, match="the nearest is tp1 on rack-a with vllm"):
        imported(read("vllm serve Qwen/Qwen3-8B"), there, None, None, {"tpot_ms": 5})


NODES = """name: lab
nodes: [{name: a, device: l4, gpus_per_node: 4, nic_gb_per_s: 1.5, nic: roce, intra_gb_per_s: 8,
         power_cap_watts: 240, price_usd_per_hour: 8, host: {memory_gb: 100, gb_per_s: 50}}]
device_overrides: {l4: {memory_gb: 20}}
"""


@pytest.mark.parametrize(("flags", "share"), [("-tp 2", 0.5), ("-tp 4", 1.0)])
def test_its_nodes_are_those_of_the_cluster_not_what_is_usual_for_their_devices(tmp_path, flags, share):
    """Where it takes a part of a node, it has that part of its power and its price."""
    (tmp_path / "c.yaml").write_text(NODES)
    there = read_cluster(tmp_path / "c.yaml")
    (own,), (home,) = devices_of(read(f"vllm serve m {flags}"), there)[0].classes, there.classes

    for name in ("device", "nic_bytes_per_s", "nic", "intra_bytes_per_s", "host", "tiers", "availability"):
        assert getattr(own, name) == getattr(home, name)
    assert (own.power_cap_watts, own.price_usd_per_hour) == (240 * share, 8 * share)
    assert own.scale_up_gpus == own.gpus_per_node == 4 * share


def test_the_command_prints_what_it_read_and_exits_2_for_what_no_engine_starts(tmp_path, capsys, monkeypatch):
    script = tmp_path / "a.sh"
    script.write_text("sglang serve --model-path m --tp-size 14 --nnodes 4\n")
    monkeypatch.setattr("sys.argv", ["meshwright", "import", str(script), "--facts"])
    with pytest.raises(SystemExit) as code:
        main()
    out, err = capsys.readouterr()

    assert code.value.code == 2
    assert '"tp": 14' in out
    assert "--nnodes 4" in err


def test_a_model_that_is_a_path_is_named_with_the_file_that_has_it(tmp_path, capsys):
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve ../nowhere/llama\n")
    assert run(["import", str(script), "--gpus", "8xH100"]) == 2
    assert f"at {script}, model ../nowhere/llama" in capsys.readouterr().err


def test_what_serves_less_with_more_sequences_is_planned_with_fewer():
    """Experts over PCIe: the cache holds 193 sequences, and most is served with some 130. The bound was that
    of 193, below the plan."""
    text = "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tensor-parallel-size 8 --enable-expert-parallel"
    plan = imported(read(text), None, "8xL40S", None, {"ttft_ms": "none", "tpot_ms": "none"}).plan

    assert check(plan) == []
    assert plan.proof.gap < 0.002
    assert plan.saturated is not None
    assert 100 < plan.saturated.in_flight < 160, (
        "a burst on top of these has room in the cache, and in the batch"
    )
