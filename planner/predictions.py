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
from cluster_configs.reading import from_gpus
from cluster_configs.schema import Device, NodeClass
from model_zoo import catalog
from model_zoo.schema import Attention, LinearAttention, Mamba2, Mla, ModelCard, MoeFfn
from planner.cost.bands import band
from planner.cost.calibration import Calibration
from planner.cost.eras import engine_of_era
from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.cost.precision import precisions
from planner.cost.queueing import Estimate, Role
from planner.cost.shape import Floats, Precisions
from planner.errors import InputError
from planner.loads import Group, Load, Places, operate
from planner.rows import Row, expert_split, parse

BATCH = 256
"""Rows computed at once: cache sizes are tables of designs x contexts."""


@dataclass(frozen=True)
class Prediction:
    """One row's answer in the table's units; None: does not apply to the row's role."""

    ttft_ms: float | None
    ttft_ms_low: float | None
    ttft_ms_high: float | None
    tpot_ms: float | None
    tpot_ms_low: float | None
    tpot_ms_high: float | None
    out_tok_per_s: float
    out_tok_per_s_per_gpu: float
    memory_bytes_per_gpu: float
    fits: bool
    watts: float
    note: str


ANSWERS = tuple(field.name for field in fields(Prediction))
"""The columns that `predict` adds, in order."""

Answer = Prediction | InputError


def predict_rows(
    rows: Sequence[Mapping[str, str] | InputError], calibration: Calibration | None = None
) -> list[Answer]:
    """An answer to every row, in order: its prediction, or what is wrong with it (or was already, on
    reading)."""
    answers: dict[int, Answer] = {}
    groups: dict[Group, list[tuple[int, Row]]] = defaultdict(list)
    for i, line in enumerate(rows):
        try:
            if isinstance(line, InputError):
                raise line
            group, row = looked_up(parse(line))
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
    """Predictions of rows that differ only in parallelism, lengths and concurrency."""
    cost = group.cost(calibration)
    load = Load.of(rows)
    places = Places.of(group, load)
    return _answers(cost, load, places, operate(cost, load, places, group.role), group.role)


def _answers(cost: CostModel, load: Load, places: Places, at: Estimate, role: Role) -> list[Prediction]:
    """The estimate in the table's units, one a row."""
    memory, held = places.memory, places.held_bytes
    capacity = np.floor(places.sequences)
    ttft, tpot = 1e3 * at.ttft_s[:, 0], 1e3 * at.tpot_s[:, 0]
    sigmas = cost.sigmas(load.designs)
    (ttft_low, ttft_high), (tpot_low, tpot_high) = band(ttft, sigmas[0]), band(tpot, sigmas[1])
    out = at.rate * load.designs.attn_dp * (1.0 if role == "prefill" else load.osl)
    in_cache = np.minimum(load.sequences, np.maximum(capacity, 1.0))
    used = memory.weights_bytes + memory.activation_bytes + memory.reserve_bytes + in_cache * held
    prompts = at.sequences * load.emitted * load.new / load.osl
    watts = cost.watts(
        load.designs, at.utilisation, at.sequences, load.context, prompts, load.isl - load.new / 2
    )
    first = [None] * 3 if role == "decode" else [ttft, ttft_low, ttft_high]
    each = [None] * 3 if role == "prefill" else [tpot, tpot_low, tpot_high]
    notes = [_note(memory, capacity[i], load.sequences[i], i) for i in range(len(load.isl))]
    columns = [*first, *each, out, out / load.designs.gpus, used, capacity >= 1, watts, notes]
    return [Prediction(*(_plain(column, i) for column in columns)) for i in range(len(load.isl))]


def _plain(column: Floats | list[str] | None, i: int) -> Any:
    """Element `i` as a plain Python value; None of a column that does not apply."""
    if column is None or isinstance(column, list):
        return column and column[i]
    return column[i].item()


def _note(memory: Memory, capacity: float, sequences: float, i: int) -> str:
    """What a reader should know of row `i`."""
    if capacity < 1:
        short = -memory.kv_bytes[i] / 1e9
        missing = f"{short:.1f} GB a GPU" if short > 0 else "room for one sequence"
        return f"does not fit: {missing} missing; times are as if it did"
    if capacity < sequences:
        return f"KV cache holds {capacity:.0f} of {sequences:.0f} sequences: the others queue"
    return ""


def looked_up(row: Row) -> tuple[Group, Row]:
    """What the row names, and the row with its experts split; all checked against each other. Raises
    InputError."""
    device = devices.find(row.device, "device")
    card = find_model(row.model)
    row = expert_split(row, any(isinstance(layer.ffn, MoeFfn) for layer in card.stack))
    _check_split(row, card)
    asked = precisions(card, row.precision, row.kv_precision)
    used = Precisions(
        _as_stored(row.gemm_precision or asked.gemm, card.weights.attention),
        _as_stored(row.moe_precision or asked.experts, card.weights.experts),
        asked.embedding,
        asked.kv,
    )
    if row.kv_precision is None:
        used = replace(used, kv=usual_kv(used, device, row.engine))
    engine = engine_of_era(row.engine, row.engine_version, device.generation)
    return Group(card, usual_node(device.name), engine, row.role, used, row.draft_tokens), row


@lru_cache(maxsize=64)
def find_model(name: str) -> ModelCard:
    """A model of the zoo, or of a Hugging Face config by path. Raises InputError."""
    return catalog.find(name)[0]


@lru_cache(maxsize=64)
def usual_node(device: str) -> NodeClass:
    """A node as the device is usually sold, with its usual links."""
    return from_gpus(f"{devices.find(device).gpus_per_node}x{device}").classes[0]


def usual_kv(used: Precisions, device: Device, engine: str) -> str:
    """KV precision of a run that does not state it: public recipes of weights in 8 bits or less keep the
    cache in fp8 on TensorRT-LLM and on Blackwell. (What such runs hold at once says so; a plan never assumes
    it.)"""
    low = used.gemm in ("fp8", "fp8_block", "nvfp4")
    wont = used.kv != "bf16" or not (engine == "trtllm" or device.generation == "blackwell_dc")
    return "fp8" if low and not wont else used.kv


def _as_stored(asked: str, stored: str) -> str:
    """`asked`, but "fp8" of a checkpoint in block fp8 is just that: engines run the scales they find."""
    return stored if (asked, stored) == ("fp8", "fp8_block") else asked


def _check_split(row: Row, card: ModelCard) -> None:
    """Heads, experts and layers must divide as the row says. Raises InputError."""
    if row.pp > len(card.stack):
        raise InputError(f"pp {row.pp} is more than the model's {len(card.stack)} layers", "pp")
    for layer in card.stack:
        mixer, ffn = layer.mixer, layer.ffn
        heads = mixer.value_heads if isinstance(mixer, LinearAttention) else getattr(mixer, "heads", row.tp)
        if isinstance(mixer, Attention | Mla | LinearAttention | Mamba2) and heads % row.tp:
            raise InputError(f"tp {row.tp} does not divide the model's {heads} heads", "tp")
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
