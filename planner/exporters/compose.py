"""Docker Compose: a file a node, a service a server, with its GPUs by number."""

from __future__ import annotations

from typing import Any

from planner.errors import InputError
from planner.exporters import front
from planner.exporters.deployed import IMAGES, Deployed, Files, yaml
from planner.exporters.scripts import called
from planner.launch.instances import Instance
from planner.launch.server import vendor_of
from planner.launch.words import VISIBLE, with_ports


def files(d: Deployed) -> Files:
    """One file a node."""
    nodes: dict[str, dict[str, Any]] = {}
    for i in d.instances:
        d.no_mpi(i.replica)
        if vendor_of(d.plan, i.replica.stages[0]) not in VISIBLE:
            raise InputError(f"compose reserves NVIDIA and AMD GPUs, {i.name} has others", "--to")
        for rank in range(len(i.gpus)):
            nodes.setdefault(i.gpus[rank][0], {})[_service_name(i, rank)] = _service(d, i, rank)
    found = {f"compose-{node}.yaml": yaml({"services": services}) for node, services in nodes.items()}
    for r in d.plan.replicas:
        found |= r.launch.files if r.launch else {}
    d.assumed.append("weights are fetched into ~/.cache/huggingface of each node")
    return found | front.files(d)


def _service_name(i: Instance, rank: int) -> str:
    return called(i) + (f"-node{rank}" if len(i.gpus) > 1 else "")


def _service(d: Deployed, i: Instance, rank: int) -> dict[str, Any]:
    launch = i.replica.launch
    assert launch is not None
    words = with_ports(d.words(i.replica, min(rank, len(launch.ranks))), i)
    env = {
        k: v.replace("$", "$$") if "$" not in v[:1] else "${" + v[1:] + ":?}" for k, v in launch.env.items()
    }
    ids = [str(g) for g in i.gpus[rank][1]]
    mounts = ["~/.cache/huggingface:/root/.cache/huggingface", *(f"./{n}:/app/{n}:ro" for n in launch.files)]
    return {
        "image": IMAGES[i.replica.engine],
        "entrypoint": [],
        "command": [w if not w.startswith("$") else "${" + w[1:] + ":?}" for w in words],
        **({"environment": env} if env else {}),
        "network_mode": "host",
        "ipc": "host",
        "volumes": mounts,
        **({"working_dir": "/app"} if launch.files else {}),
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [{"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu"]}]
                }
            }
        },
    }
