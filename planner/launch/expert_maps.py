"""Expert maps in the engines' own files: SGLang's `--init-expert-location` JSON, the YAML of TensorRT-LLM's
load balancer.

SGLang's has a row for every layer of the model, those without experts included (there in order); all GPUs
have equal slots in both. Sources: SGLang `srt/eplb/expert_location.py`, which takes no key but
`physical_to_logical_map`; TensorRT-LLM `examples/wide_ep/ep_load_balancer/generate_eplb_config.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from model_zoo.schema import MoeFfn
from planner.launch.server import Server
from planner.plans.schema import ExpertMap

Rows = Mapping[int, Sequence[int]]
"""The expert in each slot, rank after rank, by layer of the model."""


def sglang(rows: Rows, experts: int, layers: int) -> str:
    """The map of a model with `layers` layers and `experts` experts in each that has any."""
    slots = len(next(iter(rows.values())))
    in_order = [slot % experts for slot in range(slots)]
    return json.dumps({"physical_to_logical_map": [rows.get(i, in_order) for i in range(layers)]}) + "\n"


def trtllm(rows: Rows) -> str:
    """The map as it stays: no layers are updated while it serves."""
    lines = [f"  {layer}: [{', '.join(map(str, row))}]" for layer, row in rows.items()]
    head = [f"num_slots: {len(next(iter(rows.values())))}", "layer_updates_per_iter: 0"]
    return "\n".join([*head, "initial_global_assignments:", *lines]) + "\n"


def rows_of(s: Server) -> Rows:
    """The map of a replica, where its plan has one that engines can say; else nothing."""
    made = entry(s)
    if made is None or len({len(rank) for layer in made.map for rank in layer}) != 1:
        return {}
    moe = [i for i, layer in enumerate(s.card.stack) if isinstance(layer.ffn, MoeFfn)]
    return {i: [e for rank in layer for e in rank] for i, layer in zip(moe, made.map, strict=True)}


def entry(s: Server) -> ExpertMap | None:
    """What the plan says of a replica's experts."""
    told = s.plan.experts.replicas if s.plan.experts else []
    return next((m for m in told if m.replica == s.replica.id and m.placement == "map"), None)
