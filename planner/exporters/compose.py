"""Docker Compose: a file a node, a service a server, with its GPUs by number."""

from __future__ import annotations

from typing import Any

from planner.errors import InputError
from planner.exporters import front
from planner.exporters.deployed import IMAGES, Deployed, Files, yaml
from planner.exporters.scripts import called
from planner.launch.instances import Instance
from planner.launch.server import vendor_of
from planner.launch.words import FILLED, VISIBLE, environment, with_ports

START = (
    "On each node, `docker compose -f compose-NODE.yaml up -d`.",
    front.START,
)


def files(d: Deployed) -> Files:
    """One file a node."""
    nodes: dict[str, dict[str, Any]] = {}
    for i in d.instances:
        d.no_mpi(i.replica)
        if vendor_of(d.plan, i.replica.stages[0]) not in VISIBLE:
            raise InputError(f"compose reserves NVIDIA and AMD GPUs, {i.name} has others", "--to")
        for rank in range(len(i.gpus)):
            name = called(i) + (f"-node{rank}" if len(i.gpus) > 1 else "")
            nodes.setdefault(i.gpus[rank][0], {})[name] = _service(d, i, rank)
    found = {f"compose-{node}.yaml": yaml({"services": services}) for node, services in nodes.items()}
    for r in d.plan.replicas:
        found |= r.launch.files if r.launch else {}
    d.assumed.append("weights are fetched into ~/.cache/huggingface of each node")
    return found | front.files(d)


def _service(d: Deployed, i: Instance, rank: int) -> dict[str, Any]:
    launch = i.replica.launch
    assert launch is not None
    words = with_ports(d.words(i.replica, min(rank, len(launch.ranks))), i)
    env = {name: _filled(value) for name, value in environment(i).items()}
    reserved = _reserved(vendor_of(d.plan, i.replica.stages[0]), [str(g) for g in i.gpus[rank][1]])
    env |= reserved.pop("environment", {})
    mounts = ["~/.cache/huggingface:/root/.cache/huggingface", *(f"./{n}:/app/{n}:ro" for n in launch.files)]
    return {
        "image": IMAGES[i.replica.engine],
        "entrypoint": [],
        "command": [_filled(word) for word in words],
        **({"environment": env} if env else {}),
        "network_mode": "host",
        "ipc": "host",
        "volumes": mounts,
        **({"working_dir": "/app"} if launch.files else {}),
        **reserved,
    }


def _reserved(vendor: str, gpus: list[str]) -> dict[str, Any]:
    """What gives a service its GPUs: NVIDIA's driver reserves them by number; AMD's are files, of which it is
    told which GPUs to see."""
    if vendor == "amd":
        return {"devices": ["/dev/kfd", "/dev/dri"], "environment": {VISIBLE[vendor]: ",".join(gpus)}}
    devices = [{"driver": "nvidia", "device_ids": gpus, "capabilities": ["gpu"]}]
    return {"deploy": {"resources": {"reservations": {"devices": devices}}}}


def _filled(text: str) -> str:
    """Text as Compose reads it: variables that it asks for, all other dollars doubled.

    >>> _filled("$HEAD_ADDR:5000"), _filled("a$1")
    ('${HEAD_ADDR:?}:5000', 'a$$1')
    """
    names = [found.strip("${}") for found in FILLED.findall(text)]
    parts = [part.replace("$", "$$") for part in FILLED.split(text)]
    return parts[0] + "".join("${" + name + ":?}" + part for name, part in zip(names, parts[1:], strict=True))
