"""Plans of any sizes, made up: what exporters see of a plan, without planning."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from planner import plan
from planner.launch import launched
from planner.plans.schema import Kept, Plan, Replica, Route, Stage

ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")

KEPT = Kept(
    place="host",
    keep_s=60.0,
    lasts_s=80.0,
    hit=0.5,
    found_tokens=[100.0],
    bytes=400 * 2**30,
    shared_bytes=0.0,
    loads_gb_per_s=1.0,
    best_adds=0.0,
)
"""400 GiB of idle cache in host memory."""


@cache
def template(model: str = "deepseek-v3") -> Plan:
    """A planned plan, whose replicas others take the place of."""
    return plan(None, model, gpus="16xh200", engine="vllm", explain=False, simple=0.9)


def replica(name: str, engine: str, role: str = "mixed", count: int = 1, **sizes: int) -> Replica:
    """A group of `count` replicas of some sizes; llama.cpp has a stage a GPU, TensorRT-LLM all or no
    attention dp."""
    base = template().replicas[0]
    own = {"tp": 1, "pp": 1, "attn_dp": 1, "moe_tp": 1, "ep": 1, "cp": 1, **sizes}
    each, layers = own["tp"] * own["attn_dp"], 61
    edges = [round(i * layers / own["pp"]) for i in range(own["pp"] + 1)]
    stages = [
        Stage(
            device="h200-sxm",
            node_class="h200-sxm",
            nodes=[f"h200-sxm-{i}" for i in range(128)],
            gpus=each,
            tp=own["tp"],
            layers=(a, b),
        )
        for a, b in pairwise(edges)
    ]
    memory = [base.memory[0].model_copy(update={"stage": i}) for i in range(own["pp"])]
    given: dict[str, Any] = {**own, "engine": engine, "role": role, "id": name, "count": count}
    return base.model_copy(
        update={**given, "stages": stages, "memory": memory, "launch": None, "draft": None}
    )


def made(*replicas: Replica) -> Plan:
    """A plan of these groups on 128 nodes of eight GPUs."""
    base = template()
    nodes = [{"name": "h200-sxm", "count": 128, "device": "h200-sxm", "gpus_per_node": 8}]
    problem = base.problem.model_copy(update={"cluster": {"name": "lab", "nodes": nodes, "links": []}})
    firsts, seconds = ([r.id for r in replicas if r.role == role] for role in ("prefill", "decode"))
    routes = [Route(bucket=0, share=1.0, replica=r.id) for r in replicas if r.role == "mixed"]
    routes += [Route(bucket=0, share=1.0, prefill=p, decode=d) for p in firsts for d in seconds]
    update = {"replicas": list(replicas), "routing": routes, "problem": problem, "tiers": []}
    return launched(base.model_copy(update=update))


def gpus(p: Plan) -> int:
    return sum(r.count * sum(s.gpus for s in r.stages) for r in p.replicas)
