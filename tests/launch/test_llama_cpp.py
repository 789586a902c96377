"""What llama.cpp's command line says of a replica: layers, slots, experts on the CPU, other nodes."""

from __future__ import annotations

import re

import pytest

from planner.launch.llama_cpp import line
from tests.exporters.samples import KEPT
from tests.launch.servers import after, server

EXPERTS = {"what": "experts", "layers": [(0, 3), (10, 12)]}


def test_all_layers_and_the_output_lie_on_gpus_by_stages():
    """61 layers over three GPUs are 20, 21 and 20; the output counts as one more, on the last."""
    one, three = line(server("llama.cpp")).argv, line(server("llama.cpp", pp=3)).argv

    assert after(one, "--n-gpu-layers") == after(three, "--n-gpu-layers") == "62"
    assert "--tensor-split" not in one
    assert after(three, "--tensor-split") == "20,21,21"


def test_layers_before_the_first_stage_stay_on_the_cpu():
    s = server("llama.cpp")
    late = s.replica.stages[0].model_copy(update={"layers": (20, 61)})

    assert after(line(server("llama.cpp", told={"stages": [late]})).argv, "--n-gpu-layers") == "42"


def test_the_context_is_that_of_all_slots():
    s = server("llama.cpp", told={"max_batch": 4})
    argv = line(s).argv

    assert after(argv, "--parallel") == "4"
    assert int(after(argv, "--ctx-size")) == 4 * s.max_len


@pytest.mark.parametrize(
    ("tokens", "ubatch", "batch"), [(None, "512", "2048"), (1024, "1024", "2048"), (4096, "4096", "4096")]
)
def test_a_logical_batch_holds_at_least_its_own_default(tokens, ubatch, batch):
    argv = line(server("llama.cpp", told={"max_batched_tokens": tokens})).argv

    assert (after(argv, "--ubatch-size"), after(argv, "--batch-size")) == (ubatch, batch)


def test_experts_on_the_cpu_are_named_layer_by_layer():
    argv = line(server("llama.cpp", tiers=[EXPERTS])).argv
    told = re.compile(after(argv, "--override-tensor").removesuffix("=CPU"))
    away = [i for i in range(61) if told.search(f"blk.{i}.ffn_up_exps.weight")]

    assert away == [0, 1, 2, 10, 11]
    assert not told.search("blk.10.attn_q.weight")


def test_experts_of_layers_that_are_on_the_cpu_anyway_are_not_named_again():
    s = server("llama.cpp")
    late = s.replica.stages[0].model_copy(update={"layers": (3, 61)})
    argv = line(server("llama.cpp", tiers=[EXPERTS], told={"stages": [late]})).argv

    assert after(argv, "--override-tensor") == r"blk\.(10|11)\.ffn_.*_exps\.=CPU"


def test_weights_beside_the_gpus_are_read_into_memory_unless_they_stay_on_a_disk():
    host, disk = EXPERTS, {**EXPERTS, "tier": "nvme"}

    assert after(line(server("llama.cpp", tiers=[host])).argv, "--load-mode") == "none"
    assert "--load-mode" not in line(server("llama.cpp", tiers=[disk])).argv
    assert "--load-mode" not in line(server("llama.cpp")).argv


def test_idle_cache_is_told_in_mib_rounded_up():
    kept = KEPT.model_copy(update={"bytes": 3 * 2**20 + 1})

    assert after(line(server("llama.cpp", told={"kept": kept})).argv, "--cache-ram") == "4"


def test_a_drafters_option_is_words():
    assert line(server("llama.cpp", draft="--model-draft d.gguf -ngld 99")).argv[-4:] == [
        "--model-draft",
        "d.gguf",
        "-ngld",
        "99",
    ]


def test_the_last_node_serves_and_the_others_lend_their_gpus_by_vendor():
    """16 stages on nodes of eight; on AMD devices have other names."""
    s = server("llama.cpp", pp=16)
    amd = s.plan.problem.devices["h200-sxm"] | {"vendor": "amd"}
    launch = line(server("llama.cpp", pp=16, problem={"devices": {"h200-sxm": amd}}))

    devices = after(launch.argv, "--device").split(",")
    assert devices == [*(f"RPC{i}" for i in range(8)), *(f"ROCm{i}" for i in range(8))]
    assert [after(argv, "--device") for argv in launch.ranks] == [",".join(f"ROCm{i}" for i in range(8))]
    assert any(note.startswith("RPC_HOSTS are the addresses") for note in launch.notes)
    assert not any("RPC_HOSTS" in note for note in line(server("llama.cpp", pp=8)).notes)


def test_layers_in_another_nodes_memory_stand_behind_the_stage_whose_node_has_them():
    """Ten layers in the memory of stage 7's node: its CPU is one more remote device, right behind it."""
    behind = {"what": "layers", "layers": [(20, 30)], "stage": 7}
    s = server("llama.cpp", pp=16, tiers=[behind])
    launch = line(s)
    split = [int(n) for n in after(launch.argv, "--tensor-split").split(",")]

    assert len(after(launch.argv, "--device").split(",")) == len(split) == 17
    assert split[8] == 10
    assert after(launch.argv, "--n-gpu-layers") == str(61 + 10 + 1)
    assert after(launch.ranks[0], "--device").endswith("CUDA7,CPU")


@pytest.mark.parametrize("other", [{"what": "experts"}, {"tier": "nvme"}])
def test_what_is_no_layer_in_host_memory_takes_no_place_among_the_devices(other):
    behind = {"what": "layers", "layers": [(20, 30)], "stage": 7} | other
    argv = line(server("llama.cpp", pp=16, tiers=[behind])).argv

    assert len(after(argv, "--device").split(",")) == 16
