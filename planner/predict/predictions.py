"""Latency, throughput, memory and watts of replicas at a given concurrency, row by row of a table
(contracts.md).

Rows of one model, device, engine and precision are computed together as arrays. Requests are in a closed
loop: a new one starts as soon as one ends, and those that find no room in the KV cache wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cluster_configs import devices
from cluster_configs.ports import box_size
from cluster_configs.reading import from_gpus
from cluster_configs.schema import Device, NodeClass, ResolvedCluster
from model_zoo import catalog
from model_zoo.schema import Attention, LinearAttention, Mamba2, Mla, ModelCard, MoeFfn
from planner.cost.bands import band, of_role
from planner.cost.calibration import Calibration
from planner.cost.eras import engine_of_era, kernels_of_era
from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.cost.routers import without_tensor_cores
from planner.cost.told import Told
from planner.designs.precision import precisions
from planner.designs.shape import Floats, Precisions, Stage, Staging
from planner.errors import InputError
from planner.operating.requests import Terms
from planner.operating.times import watts
from planner.predict.loads import Group, Pipeline, Places, Rows
from planner.predict.refused import refusals
from planner.predict.rows import Row, expert_split, parse
from planner.predict.served import Operated, operate

BATCH = 256
"""Rows computed at once: cache sizes are tables of designs x contexts."""


@dataclass(frozen=True)
class Prediction:
    """One row's answer in the table's units; None: does not apply to the row's role, or more requests come
    than the replica can serve."""

    ttft_ms: float | None
    ttft_ms_low: float | None
    ttft_ms_high: float | None
    tpot_ms: float | None
    tpot_ms_low: float | None
    tpot_ms_high: float | None
    out_tok_per_s: float | None
    out_tok_per_s_per_gpu: float | None
    memory_bytes_per_gpu: float
    fits: bool
    watts: float | None
    note: str


ANSWERS = tuple(field.name for field in fields(Prediction))
"""The columns that `predict` adds, in order."""

Answer = Prediction | InputError


def predict_rows(
    rows: Sequence[Mapping[str, str] | InputError],
    calibration: Calibration | None = None,
    cluster: ResolvedCluster | None = None,
) -> list[Answer]:
    """An answer to every row, in order: its prediction, or what is wrong with it (or was already, on
    reading). Devices of a `cluster` stand in its nodes, others as they are usually sold."""
    answers: dict[int, Answer] = {}
    groups: dict[Group, list[tuple[int, Row]]] = defaultdict(list)
    nodes = Nodes(cluster)
    for i, line in enumerate(rows):
        try:
            if isinstance(line, InputError):
                raise line
            group, row = looked_up(parse(line), nodes)
            groups[group].append((i, row))
        except InputError as error:
            answers[i] = error
    for group, members in groups.items():
        for start in range(0, len(members), BATCH):
            batch = members[start : start + BATCH]
            found = predict_group(group, [row for _, row in batch], calibration)
            answers |= {i: answer for (i, _), answer in zip(batch, found, strict=True)}
    return [answers[i] for i in range(len(rows))]


def predict_group(group: Group, rows: Sequence[Row], calibration: Calibration | None) -> list[Prediction]:
    """Predictions of rows that differ only in parallelism, lengths and load; of designs that the planner does
    not offer, `note` says why."""
    cost = group.cost(calibration)
    load = Rows.of(group, rows)
    places = Places.of(cost, load, group.token_budget)
    found = _answers(cost, load, places, operate(cost, load, places, group.terms), group.terms)
    return [
        replace(answer, note="; ".join(filter(None, (refused, answer.note))))
        for answer, refused in zip(found, refusals(group, rows), strict=True)
    ]


def _answers(cost: CostModel, load: Rows, places: Places, found: Operated, by: Terms) -> list[Prediction]:
    """The estimate in the table's units, one a row; times are means over requests of their buckets'."""
    at, asked, memory = found.estimate, load.asked, places.memory
    capacity = np.floor(places.sequences)
    decoding = asked.share * (asked.osl > 1) if (asked.osl > 1).any() else asked.share
    ttft, tpot = 1e3 * asked.mean(at.ttft_s), 1e3 * (decoding * at.tpot_s).sum(axis=1) / decoding.sum(axis=1)
    sigmas = of_role(cost.sigmas(load.designs), by.role)
    (ttft_low, ttft_high), (tpot_low, tpot_high) = band(ttft, sigmas[0]), band(tpot, sigmas[1])
    served = np.where(np.isfinite(at.sequences), 1.0, np.nan)
    made = 1.0 if by.role == "prefill" else asked.mean(asked.osl)
    out = served * at.rate * load.designs.attn_dp * made
    wanted = at.sequences if by.loop == "open" else load.sequences
    inside = np.minimum(wanted, np.maximum(capacity, 1.0))
    used = memory.weights_bytes + memory.activation_bytes + memory.reserve_bytes + inside * places.held_bytes
    draws = served * watts(cost, load.designs, asked, by, found.batch, at.utilisation)
    first = [None] * 3 if by.role == "decode" else [ttft, ttft_low, ttft_high]
    each = [None] * 3 if by.role == "prefill" else [tpot, tpot_low, tpot_high]
    notes = [_note(memory, capacity[i], wanted[i], at.utilisation[i], i) for i in range(len(ttft))]
    most, longest = cost.card.max_context, (asked.isl + asked.osl * (by.role != "prefill")).max(axis=1)
    for i in np.flatnonzero(longest > most):
        notes[i] += f"{'; ' if notes[i] else ''}requests are longer than the model takes ({most:,} tokens)"
    columns = [*first, *each, out, out / load.designs.gpus, used, capacity >= 1, draws, notes]
    return [Prediction(*(_plain(column, i) for column in columns)) for i in range(len(ttft))]


def _plain(column: Floats | list[str] | None, i: int) -> Any:
    """Element `i` as a plain Python value; None of a column that does not apply, or that has no value."""
    if column is None or isinstance(column, list):
        return column and column[i]
    return column[i].item() if np.isfinite(column[i]) else None


def _note(memory: Memory, capacity: float, sequences: float, utilisation: float, i: int) -> str:
    """What a reader should know of row `i`."""
    if capacity < 1:
        short = -memory.kv_bytes[i] / 1e9
        missing = f"{short:.1f} GB a GPU" if short > 0 else "room for one sequence"
        return f"does not fit: {missing} missing; times are as if it did"
    if np.isinf(sequences):
        return f"{utilisation:.3g} times as many requests come as it can serve"
    if capacity < sequences:
        return f"KV cache holds {capacity:.0f} of {sequences:.0f} sequences: the others queue"
    return ""


class Nodes:
    """The nodes that rows stand in: a cluster's by the name of a class or of its device, else as devices are
    usually sold."""

    def __init__(self, cluster: ResolvedCluster | None = None) -> None:
        self.cluster = cluster
        self.pipelines: dict[Staging, Pipeline] = {}

    def find(self, name: str) -> NodeClass:
        """Raises InputError: unknown to the cluster and to the catalog."""
        classes = self.cluster.classes if self.cluster else ()
        named = next((n for n in classes if n.id == name), None)
        if named:
            return named
        device = devices.find(name, "device").name
        return next((n for n in classes if n.device.name == device), None) or usual_node(device)

    def pipeline(self, stages: Sequence[tuple[str, int, int]], card: ModelCard) -> Pipeline:
        """Stages of (device, tp, layers). Raises InputError: not as many layers as the model has."""
        ends = np.cumsum([layers for _, _, layers in stages]).tolist()
        if ends[-1] != len(card.stack):
            raise InputError(f"`stages` have {ends[-1]} layers, the model {len(card.stack)}", "stages")
        nodes = [self.find(name) for name, _, _ in stages]
        parts = zip(nodes, stages, ends, strict=True)
        staging = tuple(Stage(node.id, tp, (end - layers, end)) for node, (_, tp, layers), end in parts)
        links = tuple(self.cluster.links) if self.cluster else ()
        return self.pipelines.setdefault(
            staging, Pipeline(staging, tuple({n.id: n for n in nodes}.values()), links)
        )


def looked_up(row: Row, nodes: Nodes | None = None) -> tuple[Group, Row]:
    """What the row names, and the row with its experts split; all checked against each other. Raises
    InputError."""
    nodes = nodes or Nodes()
    node = nodes.find(row.device)
    device = node.device
    card = find_model(row.model)
    row = expert_split(row, card.moe)
    _check_split(row, card)
    asked = precisions(card, row.precision, row.kv_precision)
    slow_router = without_tensor_cores(card, row.engine, row.engine_version)
    experts = _as_stored(row.moe_precision or asked.experts, card.weights.experts)
    version = (row.engine, row.engine_version, str(device.generation))
    used = Precisions(
        _as_stored(row.gemm_precision or asked.gemm, card.weights.attention),
        experts,
        asked.embedding,
        asked.kv,
        row.router_precision or ("fp32" if slow_router else asked.router),
        row.expert_kernels or kernels_of_era(*version, experts),
    )
    if row.kv_precision is None:
        used = replace(used, kv=usual_kv(used, device, row.engine))
    group = Group(
        card,
        node,
        engine_of_era(*version),
        row.role,
        used,
        row.draft_tokens,
        row.chunk,
        Told(row.memory_share, row.graph_tokens),
        "open" if row.rate_rps else "closed",
        row.percentile,
        len(row.requests),
        nodes.pipeline(row.stages, card) if row.stages else None,
    )
    return group, row


@lru_cache(maxsize=64)
def find_model(name: str) -> ModelCard:
    """A model of the zoo, or of a Hugging Face config by path. Raises InputError."""
    return catalog.find(name)[0]


@lru_cache(maxsize=64)
def usual_node(device: str) -> NodeClass:
    """The largest node in which the device is usual, with its usual links: where `--gpus` puts its counts."""
    return from_gpus(f"{box_size(devices.find(device))}x{device}").classes[0]


def usual_kv(used: Precisions, device: Device, engine: str) -> str:
    """KV precision of a run that does not state it: public recipes of weights in 8 bits or less keep the
    cache in fp8 on TensorRT-LLM and on Blackwell, those of gpt-oss on Blackwell alone, where TensorRT-LLM and
    vLLM can. (What such runs hold at once says so; a plan never assumes it.)"""
    blackwell = device.generation == "blackwell_dc"
    low = used.gemm in ("fp8", "fp8_block", "nvfp4") and (blackwell or engine == "trtllm")
    low |= used.experts == "mxfp4" and blackwell and engine in ("trtllm", "vllm")
    return "fp8" if low and used.kv == "bf16" else used.kv


def _as_stored(asked: str, stored: str) -> str:
    """`asked`, but "fp8" of a checkpoint in block fp8 is just that: engines run the scales they find."""
    return stored if (asked, stored) == ("fp8", "fp8_block") else asked


def _check_split(row: Row, card: ModelCard) -> None:
    """Heads, experts and layers must divide as the row says. Raises InputError."""
    if row.pp > len(card.stack):
        raise InputError(f"pp {row.pp} is more than the model's {len(card.stack)} layers", "pp")
    if row.redundant and row.ep == 1:
        raise InputError("`redundant` copies of experts on ep 1: no other rank has them", "redundant")
    for layer in card.stack:
        mixer, ffn = layer.mixer, layer.ffn
        heads = mixer.value_heads if isinstance(mixer, LinearAttention) else getattr(mixer, "heads", row.tp)
        for tp in [tp for _, tp, _ in row.stages] or [row.tp]:
            if isinstance(mixer, Attention | Mla | LinearAttention | Mamba2) and heads % tp:
                raise InputError(f"tp {tp} does not divide the model's {heads} heads", "tp")
        if isinstance(ffn, MoeFfn) and (row.ep or 1) > ffn.experts:
            raise InputError(f"ep {row.ep} is more than the model's {ffn.experts} experts", "ep")


def cells(answer: Answer) -> dict[str, str]:
    """The answer as cells of a table; of a bad row all blank but `note`.

    >>> cells(InputError("unknown GPU `x`", hint="did you mean `y`?"))["note"]
    'unknown GPU `x`; did you mean `y`?'
    """
    if isinstance(answer, InputError):
        note = "; ".join(filter(None, (answer.message, answer.hint)))
        return dict.fromkeys(ANSWERS, "") | {"note": note}
    return {name: _cell(value) for name, value in asdict(answer).items()}


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
