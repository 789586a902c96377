"""Slurm: a batch file a server, its tasks, its nodes' own addresses."""

from __future__ import annotations

import re

from planner.exporters import export
from tests.exporters.samples import made, replica


def batches(*replicas) -> dict[str, str]:
    files = export(made(*replicas), "slurm")
    return {name.removesuffix(".sbatch"): text for name, text in files.items() if name.endswith(".sbatch")}


def asked(text: str) -> dict[str, str]:
    """What #SBATCH asks for."""
    return dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", text, re.MULTILINE))


def test_a_server_asks_for_its_nodes_and_gpus_and_shares_a_node_that_it_does_not_fill():
    small = batches(replica("r1", "vllm", tp=2))["r1-0"]
    whole = batches(replica("r1", "vllm", tp=8))["r1-0"]

    assert asked(small) | {"job-name": ""} == {
        "job-name": "", "nodes": "1", "ntasks-per-node": "1", "gpus-per-node": "2", "oversubscribe": "",
    }  # fmt: skip
    assert "exclusive" in asked(whole)
    assert whole.splitlines()[-1].startswith("srun vllm serve")  # no variables: no `env`


def test_tensorrt_llm_has_a_task_a_gpu_and_others_a_task_a_node():
    mpi = batches(replica("r1", "trtllm", tp=8, pp=2))["r1-0"]
    nodes = batches(replica("r1", "sglang", tp=16))["r1-0"]

    assert (asked(mpi)["nodes"], asked(mpi)["ntasks-per-node"]) == ("2", "8")
    assert "srun --mpi=pmix trtllm-llmapi-launch trtllm-serve" in mpi
    assert (asked(nodes)["nodes"], asked(nodes)["ntasks-per-node"]) == ("2", "1")
    assert re.findall(r"--relative=(\d)", nodes) == ["0", "1"]
    assert nodes.endswith("wait\n")


def test_a_side_of_a_pair_tells_the_others_the_address_of_its_own_node():
    """Without it vLLM's side channel listens at localhost only, which no other node reaches."""
    pair = replica("p1", "vllm", "prefill", tp=8), replica("d1", "vllm", "decode", attn_dp=16, ep=16)
    found = batches(*pair)
    alone, several = found["prefill-p1-0"], found["decode-d1-0"]

    assert alone.index("HOST_ADDR=\"$(hostname -I | cut -d' ' -f1)\"") < alone.index("srun env")
    assert 'VLLM_NIXL_SIDE_CHANNEL_HOST="$HOST_ADDR"' in alone
    told = re.findall(r'HOST_ADDR="\$\(srun .* --relative=(\d) hostname -I', several)
    assert told == ["0", "1"]
    assert several.count('VLLM_NIXL_SIDE_CHANNEL_HOST="$HOST_ADDR"') == 2
    assert "HOST_ADDR" not in batches(replica("r1", "vllm", tp=8))["r1-0"]


def test_servers_that_may_share_a_node_share_no_port():
    pair = replica("p1", "vllm", "prefill", tp=2, count=2), replica("d1", "vllm", "decode", tp=2)
    found = batches(*pair).values()

    for pattern in (r"--port (\d+)", r"SIDE_CHANNEL_PORT=(\d+)"):
        ports = [re.findall(pattern, text) for text in found]
        assert len({port for own in ports for port in own}) == 3
