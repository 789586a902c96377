"""Public runs of static batches on older and other hardware (LLM-Inference-Bench), as arrays to be timed.

A run gives a batch of equal requests to an idle engine and waits for the last. Rows come from
`inference_bench.csv` in the folder `shared` beside the repository.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from model_zoo import catalog
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Attention, ModelCard
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Floats, Precisions
from planner.errors import InputError

RUNS = Path(__file__).resolve().parents[2] / "shared" / "data" / "inference_bench.csv"

DEVICES = {
    "A100": "a100-sxm-40gb",  # a 70B model in 16 bits on four leaves so much room as its runs show
    "H100": "h100-sxm",  # one drew 452 W, more than a PCIe card may
    "GH200": "gh200-96gb",
    "MI250": "mi250-die",
    "MI300X": "mi300x",
    "Gaudi2": "gaudi2",
}
DIES = {"MI250": 2}
"""Devices to engines of what the table counts as one: a 70B model ran on two."""

ENGINES = {"vLLM": "vllm", "TensorRT-LLM": "trtllm", "llama.cpp": "llama.cpp", "Deepspeed": "vllm"}
"""Ours for theirs. DeepSpeed is on Gaudi 2 only (optimum-habana), where vLLM runs the same graph compiler."""

SAME_SHAPE = {
    "Qwen/Qwen2-7B": "qwen2.5-7b",
    "Qwen/Qwen2-72B": "qwen2.5-72b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
}
SHAPES = {  # hidden, layers, heads, KV heads, head size, FFN width and matrices, vocabulary, longest context
    "BAAI/Aquila-7B": (4096, 32, 32, 32, 128, 11008, 3, 100008, 2048),
    "Deci/DeciLM-7B": (4096, 32, 32, 4, 128, 14336, 3, 32000, 8192),  # vLLM: the most KV heads in all layers
    "EleutherAI/gpt-j-6b": (4096, 28, 16, 16, 256, 16384, 2, 50400, 2048),
    "Qwen/Qwen1.5-7B": (4096, 32, 32, 32, 128, 11008, 3, 151936, 32768),
    "bigscience/bloom-7b1": (4096, 30, 32, 32, 128, 16384, 2, 250880, 2048),
    "huggyllama/llama-7b": (4096, 32, 32, 32, 128, 11008, 3, 32000, 2048),
}
"""Models without a card, from the figures published with each."""

SHARED = ("hardware", "framework", "model", "weight_dtype", "kv_dtype")
"""Columns in which the rows of one `Runs` agree; and in `_prompt_tokens`."""

Row = dict[str, str]
Family = tuple[int, int, int, str]


@dataclass(frozen=True)
class Runs:
    """Runs of one model, device, framework and precision; arrays of shape (n,): a `batch` of requests took
    `seconds`. `prompt_tokens` in a step: 0 for the engine's usual number, else llama.cpp's own batch."""

    hardware: str
    framework: str
    card: ModelCard
    used: Precisions
    prompt_tokens: float
    designs: Designs
    isl: Floats
    osl: Floats
    batch: Floats
    seconds: Floats

    @property
    def family(self) -> Family:
        """Models of one shape but for their vocabulary and FFN width are held out together."""
        layer = self.card.stack[0]
        heads = layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else 0
        return self.card.hidden, len(self.card.stack), heads, layer.ffn.kind if layer.ffn else ""


def read() -> tuple[list[Runs], Counter[str]]:
    """The usable runs in groups, and how many rows were left out for which reason."""
    left_out: Counter[str] = Counter()
    groups: dict[tuple[tuple[str, ...], float], list[Row]] = defaultdict(list)
    for row in _distinct(RUNS):
        reason = unusable(row)
        if reason:
            left_out[reason] += 1
        else:
            groups[tuple(row[c] for c in SHARED), _prompt_tokens(row)].append(row)
    return [grouped(rows) for rows in groups.values()], left_out


def _distinct(path: Path) -> Iterator[Row]:
    """Rows of the table, a run that several of its figures show only once."""
    seen = set()
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = tuple(v for c, v in row.items() if c not in ("row_id", "provenance", "avg_power_w", "note"))
            if key not in seen:
                seen.add(key)
                yield row


def unusable(row: Row) -> str:
    """Why a row says nothing of what is predicted here; empty if it does."""
    total = int(row["input_len"]) + int(row["output_len"])
    if row["hardware"] not in DEVICES or row["framework"] not in ENGINES:
        return f"{row['hardware'] or 'unnamed hardware'} with {row['framework']} is not offered"
    if row["faster_than_memory_bandwidth"] == "1":
        return "faster than memory bandwidth"
    if not row["latency_s"] or row["output_len"] == "1":
        return "no latency of the whole batch"
    card = model(row["model"])
    if card is None:
        return "model of a single run without a card"
    if total > card.max_context:
        return "longer than the model's context: the engine stopped early"
    if _precision(row["kv_dtype"]) not in KV_BYTES or _precision(row["weight_dtype"]) not in WEIGHT_BYTES:
        return "int8 KV cache"
    return ""


@cache
def model(name: str) -> ModelCard | None:
    """The card of a model of the table, None where nothing is known of it."""
    if name in SHAPES:
        hidden, layers, heads, kv_heads, size, inner, matrices, vocab, context = SHAPES[name]
        return ModelCard.model_validate(
            {
                "name": name,
                "source": "figures published with the model",
                "hidden": hidden,
                "vocab": vocab,
                "max_context": context,
                "mixers": {
                    "attn": {"kind": "attention", "heads": heads, "kv_heads": kv_heads, "head_dim": size}
                },
                "ffns": {"dense": {"kind": "dense", "inner": inner, "matrices": matrices}},
                "layers": [{"times": layers, "of": ["attn/dense"]}],
            }
        )
    try:
        return catalog.find(SAME_SHAPE.get(name, name))[0]
    except InputError:
        return None


def grouped(rows: list[Row]) -> Runs:
    """Rows that agree in `SHARED`."""
    first = rows[0]
    card = model(first["model"])
    assert card is not None
    used = precisions(card, _precision(first["weight_dtype"]), _precision(first["kv_dtype"]))
    columns = (_column(rows, c) for c in ("input_len", "output_len", "effective_batch", "latency_s"))
    who = (first["hardware"], first["framework"], card, used, _prompt_tokens(first))
    return Runs(*who, _designs(rows), *columns)


def _prompt_tokens(row: Row) -> float:
    return float(row["batch"]) if row["framework"] == "llama.cpp" else 0.0


def _designs(rows: Iterable[Row]) -> Designs:
    """How each run was divided: by tp unless said; llama.cpp by layers."""
    found = []
    for row in rows:
        gpus = int(row["n_devices"]) * DIES.get(row["hardware"], 1)
        pp = gpus if row["framework"] == "llama.cpp" else int(float(row["pp"] or 1))
        ep = int(float(row["ep"] or 1))
        found.append((gpus // pp, pp, 1, gpus // pp // ep, ep))
    return Designs.plain(*np.array(found, dtype=np.int64).T)


def _column(rows: Iterable[Row], name: str) -> Floats:
    return np.array([float(row[name]) for row in rows])


def _precision(name: str) -> str:
    """The table's word in ours."""
    return "bf16" if name in ("", "fp16") else name
