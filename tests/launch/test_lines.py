"""Command lines of engines: explicit, under the id that was asked for, with each engine's own meaning."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from planner import plan
from planner.check import check
from planner.engines import named
from planner.imports.flags import parsed, refused
from planner.launch import launch as launched
from planner.launch.instances import instances
from planner.launch.words import command, commands, quoted, router
from planner.plans.schema import Draft
from tests.exporters.samples import ENGINES, KEPT, made, replica
from tests.launch.servers import server

FLAGS = Path(__file__).resolve().parents[3] / "shared" / "engines"


def line(r):
    return made(r).replicas[0].launch


def after(launch, flag):
    return launch.argv[launch.argv.index(flag) + 1]


def test_a_plan_says_how_it_is_started_under_the_id_that_was_asked_for():
    made_ = plan(None, "llama-3.3-70b", gpus="8xh100", engine="vllm", explain=False)
    argv = made_.replicas[0].launch.argv

    assert argv[:3] == ["vllm", "serve", "meta-llama/Llama-3.3-70B-Instruct"]
    assert check(made_) == []
    assert json.loads(made_.model_dump_json(by_alias=True))["replicas"][0]["launch"]["argv"] == argv


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("role", ["mixed", "prefill", "decode"])
def test_every_flag_is_one_of_its_engine(engine, role):
    if engine == "llama.cpp" and role != "mixed":
        return
    sizes = {"pp": 4} if engine == "llama.cpp" else {"tp": 2, "pp": 2, "attn_dp": 4, "ep": 8}
    assert_known(line(replica("r1", engine, role, redundant_experts=8, **sizes)), engine)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_flags_of_drafters_and_of_weights_in_host_memory_are_their_engines(engine):
    """Each way of drafting, beside weights that lie in host memory."""
    host = {"what": "layers" if engine == "vllm" else "experts", "layers": [(2, 4)], "share": 0.5}
    for option in named(engine).drafts.values():
        assert_known(launched(server(engine, tiers=[host], draft=option.format(k=3, name="m"))), engine)


def test_sglang_drafts_a_chain_of_tokens():
    """It compares the branches of a tree with 1, whichever model drafts: without a number it does not start
    (speculative_hook.py, _handle_eagle_family)."""
    for kind in ("mtp", "eagle", "draft"):
        assert "--speculative-eagle-topk 1" in named("sglang").drafts[kind]


def assert_known(launch, engine):
    """Every flag of the oldest version that a line is for."""
    start = {"vllm": 2, "sglang": 3, "trtllm": 1, "llama.cpp": 1}[engine]
    for argv in (launch.argv, *launch.ranks):
        own = argv[argv.index("trtllm-serve") + 1 :] if engine == "trtllm" else argv[start:]
        read = parsed(own, engine)

        assert read.unknown == []
        assert refused(read, engine, launch.engine_versions.lstrip(">=").split(",")[0]) == []


def test_vllm_counts_attention_dp_as_gpus_and_batches_by_rank():
    launch = line(replica("r1", "vllm", tp=2, attn_dp=4, ep=8, max_batch=100))

    assert (after(launch, "--tensor-parallel-size"), after(launch, "--data-parallel-size")) == ("2", "4")
    assert after(launch, "--max-num-seqs") == "25"
    assert "--enable-expert-parallel" in launch.argv
    assert after(launch, "--gpu-memory-utilization") == "0.92"


def test_sglang_has_attention_dp_inside_tp_and_batches_in_all():
    launch = line(replica("r1", "sglang", tp=2, attn_dp=4, ep=8, max_batch=100))

    assert (after(launch, "--tp-size"), after(launch, "--attn-dp-size")) == ("8", "4")
    assert "--dp-size" not in launch.argv
    assert after(launch, "--max-running-requests") == "100"
    assert launch.engine_versions.startswith(">=0.5.23")


def test_tensorrt_llm_says_all_in_its_yaml():
    launch = line(replica("r1", "trtllm", attn_dp=8, ep=8, max_batch=100))
    (text,) = launch.files.values()

    assert "tensor_parallel_size: 8\n" in text
    assert "enable_attention_dp: true\n" in text
    assert "max_batch_size: 13\n" in text
    assert "moe_expert_parallel_size: 8\n" in text


@pytest.mark.parametrize(
    ("engine", "where"), [("vllm", "VLLM_PP_LAYER_PARTITION"), ("sglang", "SGLANG_PP_LAYER_PARTITION")]
)
def test_layers_of_stages_are_always_written(engine, where):
    launch = line(replica("r1", engine, pp=4))

    assert launch.env[where] == "15,15,16,15"
    assert where not in line(replica("r1", engine)).env


def test_several_nodes_have_a_command_each():
    ranks = line(replica("r1", "vllm", attn_dp=16, ep=16))
    wide = line(replica("r1", "sglang", tp=16))

    assert [a[a.index("--data-parallel-start-rank") + 1] for a in ranks.ranks] == ["8"]
    assert after(ranks, "--data-parallel-size-local") == "8"
    assert [a[-1] for a in (wide.argv, *wide.ranks)] == ["0", "1"]


def test_servers_of_one_node_have_gpus_and_ports_of_their_own():
    p = made(replica("r1", "vllm", count=3, tp=2))
    found = instances(p)

    assert [i.gpus[0][1] for i in found] == [(0, 1), (2, 3), (4, 5)]
    assert [i.port for i in found] == [8000, 8001, 8002]
    assert command(p, found[1]).startswith("CUDA_VISIBLE_DEVICES=2,3 vllm serve")
    assert "--port 8001" in command(p, found[1])


@pytest.mark.parametrize(
    ("generation", "tp", "said"),
    [
        ("xe2", 2, "ZE_AFFINITY_MASK=2,3 vllm"),
        ("gaudi3", 2, "HABANA_VISIBLE_MODULES=2,3 vllm"),
        ("tpu", 1, "TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1 TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=1 vllm"),
        ("tpu", 2, "TPU_CHIPS_PER_PROCESS_BOUNDS=1,2,1 TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=2,3 vllm"),
        ("tpu", 3, "TPU_VISIBLE_CHIPS=3,4,5 vllm"),
        ("m1", 2, "vllm"),
    ],
)
def test_servers_of_one_node_see_their_own_gpus_whoever_made_them(generation, tp, said):
    p = by_others(made(replica("r1", "vllm", count=2, tp=tp)), generation)

    assert command(p, instances(p)[1]).startswith(f"{said} serve")


@pytest.mark.parametrize("generation", ["xe2", "gaudi3", "tpu"])
def test_a_server_that_has_its_whole_node_needs_no_variable(generation):
    p = by_others(made(replica("r1", "vllm", tp=8)), generation)

    assert command(p, instances(p)[0]).startswith("vllm serve")


def by_others(p, generation):
    """The plan on devices of neither NVIDIA nor AMD."""
    own = {"vendor": "other", "generation": generation}
    devices = {name: {**form, **own} for name, form in p.problem.devices.items()}
    return p.model_copy(update={"problem": p.problem.model_copy(update={"devices": devices})})


def test_a_router_sends_pairs_from_prefill_to_decode():
    p = made(replica("p1", "sglang", "prefill", tp=4), replica("d1", "sglang", "decode", tp=4))
    words = router(instances(p))

    assert "--pd-disaggregation" in words
    assert words[words.index("--prefill") + 1 : words.index("--prefill") + 3] == [
        "http://h200-sxm-0:30000",
        "8998",
    ]
    assert [node for node, _ in commands(p)][-1] == "router"


def test_what_no_engine_starts_has_no_command_and_says_why():
    uneven = replica("r1", "vllm", tp=2, pp=2)
    stages = [uneven.stages[0], uneven.stages[1].model_copy(update={"tp": 1})]
    launch = line(uneven.model_copy(update={"stages": stages}))

    assert launch.argv == []
    assert "unlike tp" in launch.notes[0]


def test_words_are_quoted_and_variables_stay():
    assert quoted(["a b", "$HEAD_ADDR:5", '{"x":1}']) == """'a b' "$HEAD_ADDR:5" '{"x":1}'"""


def keeping(engine, role="mixed", place="host", **sizes):
    """The launch of a replica that keeps 400 GiB of idle cache."""
    kept = KEPT.model_copy(update={"place": place})
    return line(replica("r1", engine, role, **sizes).model_copy(update={"kept": kept}))


def test_vllm_keeps_idle_cache_by_engine_over_its_tp_ranks():
    launch = keeping("vllm", tp=2, attn_dp=4, ep=8)

    assert after(launch, "--kv-offloading-backend") == "native"
    assert after(launch, "--kv-offloading-size") == "100"
    assert "--enable-prefix-caching" in launch.argv


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_vllm_of_a_pair_keeps_idle_cache_beside_the_connector_that_hands_it_over(role):
    launch = keeping("vllm", role, tp=8)
    told = json.loads(after(launch, "--kv-transfer-config"))
    over, away = told["kv_connector_extra_config"]["connectors"]

    assert (told["kv_connector"], over["kv_connector"]) == ("MultiConnector", "NixlConnector")
    assert over["kv_role"] == {"prefill": "kv_producer", "decode": "kv_consumer"}[role]
    assert away["kv_connector_extra_config"]["cpu_bytes_to_use"] == 400 * 2**30
    assert "--kv-offloading-size" not in launch.argv


def test_sglang_keeps_idle_cache_by_gpu_and_in_files_where_it_is_on_disks():
    in_host, on_disk = keeping("sglang", tp=8), keeping("sglang", place="nvme", tp=8)
    own = 1.1 * max(part.kv_bytes for part in replica("r1", "sglang", tp=8).memory) / 1e9

    assert int(after(in_host, "--hicache-size")) == math.ceil(max(50 * 2**30 / 1e9, own))
    assert after(on_disk, "--hicache-storage-backend") == "file"
    assert "--disable-radix-cache" not in in_host.argv


def test_tensorrt_llm_keeps_idle_cache_by_gpu_and_llama_cpp_by_server():
    assert f"host_cache_size: {50 * 2**30}" in keeping("trtllm", tp=8).files["r1.yaml"]
    assert after(keeping("llama.cpp"), "--cache-ram") == str(400 * 2**10)


@pytest.mark.parametrize("engine", ENGINES)
def test_cache_that_rests_in_gpu_memory_asks_for_nothing_but_the_prefix_cache(engine):
    held, plain = keeping(engine, place="hbm"), line(replica("r1", engine))
    words = set(held.argv) ^ set(plain.argv)

    assert words <= {"--enable-prefix-caching", "--no-enable-prefix-caching", "--disable-radix-cache"}


def test_llama_cpp_over_two_nodes_serves_from_the_last_with_the_others_gpus():
    p = made(replica("r1", "llama.cpp", pp=16))
    (i,) = instances(p)
    home, other = command(p, i), command(p, i, 1)
    remote, own = ",".join(f"RPC{k}" for k in range(8)), ",".join(f"CUDA{k}" for k in range(8))

    assert [node for node, _ in i.gpus] == ["h200-sxm-1", "h200-sxm-0"]
    assert f"--rpc h200-sxm-0:50052 --device {remote},{own} --n-gpu-layers 62" in home
    assert "--tensor-split" in home
    assert other.endswith(f"rpc-server --host 0.0.0.0 --port 50052 --device {own}")


def test_sglangs_router_asks_each_prefill_server_at_its_own_bootstrap_port():
    p = made(replica("r1", "sglang", "decode", tp=4), replica("r2", "sglang", "prefill", tp=4, count=2))
    servers = instances(p)
    words = router(servers)
    told = {words[k + 1]: words[k + 2] for k, w in enumerate(words) if w == "--prefill"}
    for i in servers[1:]:
        own = command(p, i).split("--disaggregation-bootstrap-port ")[1].split()[0]

        assert told[f"http://{i.head}:{i.port}"] == own
    assert len(told) == 2


@pytest.mark.parametrize(
    ("engine", "role", "words"),
    [
        ("sglang", "prefill", "--moe-a2a-backend deepep --deepep-mode normal --enable-two-batch-overlap"),
        ("sglang", "decode", "--moe-a2a-backend deepep --deepep-mode low_latency --enable-two-batch-overlap"),
        ("sglang", "mixed", "--moe-a2a-backend deepep --deepep-mode auto --enable-two-batch-overlap"),
        ("vllm", "prefill", "--all2all-backend deepep_high_throughput --enable-dbo"),
        ("vllm", "decode", "--all2all-backend deepep_low_latency --enable-dbo"),
    ],
)
def test_experts_of_other_nodes_are_sent_to_as_predicted(engine, role, words):
    launch = line(replica("r1", engine, role, attn_dp=32, ep=32))

    assert f" {words} " in f" {' '.join(launch.argv)} "
    assert any("DeepEP" in note for note in launch.notes)


@pytest.mark.parametrize(
    "sizes", [{"attn_dp": 8, "ep": 8}, {"attn_dp": 32, "ep": 16, "moe_tp": 2}, {"tp": 8}]
)
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_nothing_else_is_sent_so(engine, sizes):
    launch = line(replica("r1", engine, **sizes))

    assert not {"--moe-a2a-backend", "--all2all-backend", "--enable-dbo"} & {*launch.argv}
    assert not any("DeepEP" in note for note in launch.notes)


def test_variables_inside_quoted_words_are_filled_in_by_the_shell():
    """What JSON and regular expressions have besides stays as it is."""
    words = ['{"model":"$DRAFT_HEAD"}', "$HEAD_ADDR:5", r"a\.b$", "`date`", "$HOST_ADDR `x` $1"]
    script = f"DRAFT_HEAD=head HEAD_ADDR=h HOST_ADDR=o; printf '%s\\n' {quoted(words)}"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout

    assert told.splitlines() == ['{"model":"head"}', "h:5", r"a\.b$", "`date`", "o `x` $1"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trained_head_is_asked_for_by_its_checkpoint(engine):
    option = named(engine).drafts["eagle"].format(k=3, name="")
    draft = Draft(kind="eagle", tokens=3, accepted=1.0, weights_bytes=0, option=option)
    own = replica("r1", engine).model_copy(update={"draft": draft})
    launch = line(own)
    said = " ".join(launch.argv) + " ".join(launch.files.values())

    assert "$DRAFT_HEAD" in said
    assert any(note.startswith("DRAFT_HEAD is the checkpoint") for note in launch.notes)
    if engine == "vllm":
        assert json.loads(after(launch, "--speculative-config"))["model"] == "$DRAFT_HEAD"
    assert not any("DRAFT_HEAD" in note for note in line(replica("r1", engine)).notes)
