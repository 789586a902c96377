"""Plain Kubernetes: a Deployment and Service a group, a LeaderWorkerSet where a server stands on several
nodes (lws.x-k8s.io v1, whose leader is reached by LWS_LEADER_ADDRESS)."""

from __future__ import annotations

import shlex
from typing import Any

from planner.exporters import front
from planner.exporters.deployed import IMAGES, Deployed, Files, deployment, made, service, yaml
from planner.launch.words import port_of
from planner.plans.schema import Launch, Replica

START = (
    "`kubectl apply -f` every file.",
    "Several nodes a server need the LeaderWorkerSet controller, a route the Gateway API.",
)
HEAD = "$(LWS_LEADER_ADDRESS)"
INDEX = "LWS_WORKER_INDEX"
START_RANK = "--data-parallel-start-rank"


def files(d: Deployed) -> Files:
    """One file a group."""
    found: Files = {}
    for r in d.plan.replicas:
        d.one_device(r)
        d.no_mpi(r)
        alone = deployment(d.label_of(r), labels(d, r), r.count, pod(d, r))
        found[f"{r.id}.yaml"] = yaml(_several(d, r) if d.nodes(r) > 1 else alone, _service(d, r))
    return found | config_maps(d) | front.on_kubernetes(d)


def config_maps(d: Deployed) -> Files:
    """The files that servers read, a ConfigMap a group that has any."""
    return {
        f"{r.id}-config.yaml": yaml(made("v1", "ConfigMap", d.label_of(r), data=r.launch.files))
        for r in d.plan.replicas
        if r.launch and r.launch.files
    }


def environment(launch: Launch) -> list[dict[str, Any]]:
    """A container's variables; a node's own address is that of its pod."""
    address = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return [
        {"name": name, **(address if value == "$HOST_ADDR" else {"value": value})}
        for name, value in launch.env.items()
    ]


def container(d: Deployed, r: Replica, rank: int = 0) -> dict[str, Any]:
    """The server's container on one node."""
    launch = r.launch
    assert launch is not None
    gpus = d.gpus(r) // d.nodes(r)
    args = [w.replace("$HEAD_ADDR", HEAD) for w in d.words(r, min(rank, len(launch.ranks)))]
    args = by_index(args) if rank else args
    env = environment(launch)
    files_ = [{"name": "config", "mountPath": f"/app/{n}", "subPath": n} for n in launch.files]
    return {
        "name": "main",
        "image": IMAGES[r.engine],
        "command": args[:1],
        "args": args[1:],
        **({"env": env} if env else {}),
        **({"workingDir": "/app"} if files_ else {}),
        "resources": {"limits": {d.gpu_key(r): str(gpus)}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, *files_],
    }


def by_index(words: list[str]) -> list[str]:
    """The command of any worker, from that of the first: its rank is its index in the group, and with several
    data-parallel ranks a node a multiple of it, which a shell counts. (Kubernetes reads `$$` as one `$`.)

    >>> by_index(["vllm", "--node-rank", "1"])
    ['vllm', '--node-rank', '$(LWS_WORKER_INDEX)']
    >>> by_index(["vllm", "--data-parallel-start-rank", "8"])
    ['sh', '-c', 'exec vllm --data-parallel-start-rank $$((LWS_WORKER_INDEX * 8))']
    """
    before = dict(enumerate(words, 1))
    if START_RANK in words:
        first = words[words.index(START_RANK) + 1]
        counted = f"$$(({INDEX} * {first}))"
        told = [counted if before.get(k) == START_RANK else shlex.quote(w) for k, w in enumerate(words)]
        return ["sh", "-c", f"exec {' '.join(told)}"]
    return [f"$({INDEX})" if before.get(k) == "--node-rank" else w for k, w in enumerate(words)]


def pod(d: Deployed, r: Replica, rank: int = 0) -> dict[str, Any]:
    """The pod of one node."""
    return {"containers": [container(d, r, rank)], "volumes": volumes(d, r)}


def volumes(d: Deployed, r: Replica) -> list[dict[str, Any]]:
    """Shared memory, and the files that the server reads."""
    found: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if r.launch and r.launch.files:
        found.append({"name": "config", "configMap": {"name": d.label_of(r)}})
    return found


def labels(d: Deployed, r: Replica) -> dict[str, str]:
    return {"app": d.name, "group": r.id, "role": r.role}


def _service(d: Deployed, r: Replica) -> dict[str, Any]:
    """One address for a group; of servers on several nodes their leaders answer."""
    leader = {"leaderworkerset.sigs.k8s.io/worker-index": "0"} if d.nodes(r) > 1 else {}
    return service(d.label_of(r), labels(d, r) | leader, port_of(d.words(r)))


def _several(d: Deployed, r: Replica) -> dict[str, Any]:
    """A leader and its workers; each starts by its own rank."""
    own, nodes = labels(d, r), d.nodes(r)
    template: dict[str, Any] = {
        "size": nodes,
        "leaderTemplate": {"metadata": {"labels": own}, "spec": pod(d, r)},
    }
    template["workerTemplate"] = {"spec": pod(d, r, 1)}
    spec, name = {"replicas": r.count, "leaderWorkerTemplate": template}, d.label_of(r)
    whole = made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec=spec)
    return whole | {"metadata": {"name": name, "labels": own}}
