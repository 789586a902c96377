"""Slurm: a batch file a server, a task a node (TensorRT-LLM: a task a GPU), and the router's command."""

from __future__ import annotations

import re

from planner.exporters import front
from planner.exporters.deployed import Deployed, Files
from planner.exporters.scripts import called
from planner.launch.instances import Instance
from planner.launch.llama_cpp import RPC_HOSTS, RPC_PORT
from planner.launch.words import assigned, environment, quoted, shift, with_ports

START = (
    "Fill in partition and account.",
    "`sbatch` every file that ends in `.sbatch`.",
    front.START,
)
HOST = "$HOST_ADDR"
OWN_ADDRESS = """HOST_ADDR="$({}hostname -I | cut -d' ' -f1)\""""
"""The first address of the node that a command runs on."""


def files(d: Deployed) -> Files:
    """One batch file a server."""
    found = {f"{called(i)}.sbatch": _batch(d, i) for i in d.instances}
    for r in d.plan.replicas:
        found |= r.launch.files if r.launch else {}
    nodes = {i.name: "${NODE_" + re.sub(r"\W", "_", i.name.upper()) + "}" for i in d.instances}
    found |= front.files(d, nodes)
    if any("NODE_" in text for text in found.values()):
        d.assumed.append("NODE_… is the node that the server of that name runs on: fill it in")
    return found


def _batch(d: Deployed, i: Instance) -> str:
    r, nodes = i.replica, len(i.gpus)
    assert r.launch is not None
    each = max(len(gpus) for _, gpus in i.gpus)
    ranks = r.engine == "trtllm"
    lines = [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={i.name}",
        f"#SBATCH --nodes={nodes}",
        f"#SBATCH --ntasks-per-node={each if ranks else 1}",
        f"#SBATCH --gpus-per-node={each}",
        "#SBATCH --exclusive" if each == d.node_sizes[r.stages[0].node_class] else "#SBATCH --oversubscribe",
        "set -euo pipefail",
        'HEAD_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
        "export HEAD_ADDR",
    ]
    if RPC_HOSTS in r.launch.argv:
        ports = f"tail -n +2 | sed 's/$/:{RPC_PORT + shift(i)}/' | paste -sd,"
        lines.append(f'RPC_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | {ports})"')
    env = assigned(environment(i))
    if ranks or nodes == 1:
        kind = " --mpi=pmix" if ranks else ""
        lines += [OWN_ADDRESS.format("")] * (HOST in env)
        start = f"srun{kind} env {env}" if env else f"srun{kind} "
        return "\n".join([*lines, f"{start}{quoted(with_ports(r.launch.argv, i))}", ""])
    for k, words in enumerate([r.launch.argv, *r.launch.ranks]):
        on_node = f"srun --nodes=1 --ntasks=1 --relative={k} "
        lines += [OWN_ADDRESS.format(on_node)] * (HOST in env)
        lines.append(f"{on_node}env {env}{quoted(with_ports(words, i))} &")
    return "\n".join([*lines, "wait", ""])
