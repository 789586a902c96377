"""Launch lines as people paste them: one command a line, quoted, `$NAMES` left for the shell to fill in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.launch.instances import PLACED, Instance, instances, port
from planner.launch.llama_cpp import RPC_HOSTS, RPC_PORT
from planner.launch.server import Server, vendor_of
from planner.launch.sglang import BOOTSTRAP
from planner.plans.schema import Plan

ASKED_FOR = ("HEAD_ADDR", "RPC_HOSTS", "HOST_ADDR", "DRAFT_HEAD", "MODEL_GGUF", "KT_WEIGHTS", "KT_METHOD")
"""Variables that lines ask for where they use them."""

FILLED = re.compile(rf"\$(?:{'|'.join(ASKED_FOR)})(?!\w)|\$\{{NODE_\w+\}}")
"""These, and the nodes of servers by name, are filled in by a shell; any other dollar stays one."""

VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
VISIBLE_PART = {
    "gaudi2": "HABANA_VISIBLE_MODULES",
    "gaudi3": "HABANA_VISIBLE_MODULES",
    "tpu": "TPU_VISIBLE_CHIPS",
    "xe": "ZE_AFFINITY_MASK",
    "xe2": "ZE_AFFINITY_MASK",
}
"""By generation, of a server that has a part of its node: `device_control_env_var` of vLLM's platforms
(xpu.py, platform.py of tpu_inference and of vllm-gaudi)."""

TPU_BOUNDS = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1"}
"""The grid of so many chips of a host. One process holds each chip, and without it waits for all of them."""

APART = 64
"""Between the ports of two servers of a node at which their ranks meet, each of which may take one."""

PORTS = {"--port": 1, "--disaggregation-bootstrap-port": 1, "--data-parallel-rpc-port": APART}
"""Ports of a server, and how far those of the next on its node are from them."""

MEETING = "--dist-init-addr"
"""SGLang's, ADDRESS:PORT."""

MASTER_PORT = 29501
"""Of vLLM's ranks over several nodes where none is told (config/parallel.py)."""

ROUTER_PORT = 8080


@dataclass(frozen=True)
class Router:
    """An engine's own router: how it starts by itself and `in_pod`, the switch for prefill/decode pairs, the
    `package` it is in; the port beside its own that a prefill server meets decode servers at (0: none)."""

    start: tuple[str, ...]
    in_pod: tuple[str, ...]
    pairs: str
    package: str
    bootstrap: int = 0


_SGLANG = ("-m", "sglang_router.launch_router")
ROUTERS = {
    "vllm": Router(("vllm-router",), ("vllm-router",), "--vllm-pd-disaggregation", "vllm-router"),
    "sglang": Router(
        *(("python", *_SGLANG), ("python3", *_SGLANG), "--pd-disaggregation", "sglang-router", BOOTSTRAP)
    ),
}


def quoted(words: Sequence[str]) -> str:
    r"""A command for a shell; variables stay variables.

    >>> quoted(["serve", "$HEAD_ADDR:5000", "${HOME}", "a b$HEAD_ADDR"])
    'serve "$HEAD_ADDR:5000" \'${HOME}\' \'a b\'"$HEAD_ADDR"'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """One word: what stands around its variables is quoted where it is more than plain characters."""
    around, names = FILLED.split(word), FILLED.findall(word)
    if not names:
        return shlex.quote(word)
    if all(not text or shlex.quote(text) == text for text in around):
        return f'"{word}"'
    texts = [shlex.quote(text) if text else "" for text in around]
    return texts[0] + "".join(f'"{name}"{text}' for name, text in zip(names, texts[1:], strict=True))


def assigned(env: Mapping[str, str]) -> str:
    """Assignments before a command."""
    return "".join(f"{name}={quoted([value])} " for name, value in env.items())


def command(plan: Plan, i: Instance, rank: int = 0) -> str:
    """The command of one server on its node `rank`: GPUs, environment, port."""
    launch = i.replica.launch
    assert launch is not None
    others = ",".join(f"{node}:{RPC_PORT + shift(i)}" for node, _ in i.gpus[1:])
    words = [others if w == RPC_HOSTS else w for w in [launch.argv, *launch.ranks][rank]]
    return assigned({**visible(plan, i, rank), **environment(i)}) + quoted(with_ports(words, i))


def visible(plan: Plan, i: Instance, rank: int = 0) -> dict[str, str]:
    """Variables that show a server its GPUs of its node `rank`, and no other."""
    stage, gpus = i.replica.stages[0], i.gpus[min(rank, len(i.gpus) - 1)][1]
    numbers, vendor = ",".join(map(str, gpus)), vendor_of(plan, stage)
    if vendor in VISIBLE:
        return {VISIBLE[vendor]: numbers}
    server = Server(plan, i.replica)
    name = VISIBLE_PART.get(server.generation)
    if name is None or len(gpus) >= server.node_gpus:
        return {}
    if name != "TPU_VISIBLE_CHIPS" or len(gpus) not in TPU_BOUNDS:
        return {name: numbers}
    bounds = {"TPU_CHIPS_PER_PROCESS_BOUNDS": TPU_BOUNDS[len(gpus)], "TPU_PROCESS_BOUNDS": "1,1,1"}
    return {**bounds, name: numbers}


def environment(i: Instance) -> dict[str, str]:
    """Variables of a server beside its command, with ports that no other server of its node has."""
    env = i.replica.launch.env if i.replica.launch else {}
    return {
        k: str(port(v, i.replica.id) + APART * shift(i)) if k.endswith("_PORT") else v for k, v in env.items()
    }


def shift(i: Instance) -> int:
    """How many servers of its node have ports before it."""
    words = i.replica.launch.argv if i.replica.launch else []
    return i.port - port_of(words) if "--port" in words else 0


def port_of(words: Sequence[str]) -> int:
    """The port that a server's command names. Raises InputError where that is none."""
    return port("".join(words[words.index("--port") + 1 :][:1]), "--port")


def with_ports(words: Sequence[str], i: Instance) -> list[str]:
    """The command with ports that no other server of its node has."""
    found, by = list(words), shift(i)
    for k, word in enumerate(words):
        value = "".join(words[k + 1 :][:1])
        if word in PORTS:
            found[k + 1 : k + 2] = [str(port(value, i.replica.id) + PORTS[word] * by)]
        elif word == MEETING:
            address, _, told = value.rpartition(":")
            found[k + 1] = f"{address}:{port(told, i.replica.id) + APART * by}"
    return found + ["--master-port", str(MASTER_PORT + APART * by)] * ("--master-addr" in words and by > 0)


def commands(plan: Plan, most: int | None = None) -> Iterator[tuple[str, str]]:
    """(node, command) of every server, or of the first `most` of equal ones, then of the router, unless
    servers are too many to be placed for it; nothing of what no engine starts."""
    cut = most is not None and sum(r.count for r in plan.replicas) > PLACED
    started = [
        i for i in instances(plan, most if cut else None) if i.replica.launch and i.replica.launch.argv
    ]
    for i in started if most is None else [i for i in started if i.number < most]:
        for rank in range(1 + len(i.replica.launch.ranks if i.replica.launch else [])):
            yield i.gpus[min(rank, len(i.gpus) - 1)][0], command(plan, i, rank)
    if not cut and len(started) > 1 and (words := router(started, port=plan.router_port or ROUTER_PORT)):
        yield "router", quoted(words)


def router(
    started: Sequence[Instance], hosts: Mapping[str, str] | None = None, port: int = ROUTER_PORT
) -> list[str]:
    """What spreads requests over the servers, or sends them from prefill to decode; nothing where servers are
    of several engines or their engine has none."""
    engines, roles = {i.replica.engine for i in started}, {i.replica.role for i in started}

    def at(i: Instance) -> str:
        return f"http://{(hosts or {}).get(i.name, i.head)}:{i.port}"

    pairs = roles == {"prefill", "decode"}
    if engines == {"trtllm"} and pairs:
        return ["trtllm-serve", "disaggregated", "--config", "disaggregated.yaml"]
    own = ROUTERS.get(engines.pop()) if len(engines) == 1 else None
    if own is None:
        return []
    words = [*own.start, "--port", f"{port}"]
    if not pairs:
        return [*words, "--worker-urls", *(at(i) for i in started)]
    words += [own.pairs]
    for i in started:
        words += [f"--{i.replica.role}", at(i)]
        if own.bootstrap and i.replica.role == "prefill":
            words += [str(own.bootstrap + shift(i))]
    return words
