"""Public serving runs that predictions are compared with, and each run as a row of `predict`.

Clean aggregated rows only (`mode` agg, `suspect` empty) of `silicon_train.csv.gz`, in a folder `shared`
beside the repository.
"""

from __future__ import annotations

import csv
import gzip
from functools import lru_cache
from pathlib import Path

from cluster_configs import devices
from model_zoo import catalog
from model_zoo.schema import MoeFfn

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RUNS = DATA / "silicon_train.csv.gz"

CONFIGS = {
    "meta-llama/Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama--Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama--Meta-Llama-3.1-8B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen--Qwen3-32B",
}
"""Config files of models that have none of their own name: the same shape."""

FAMILIES = {
    "DeepSeek-R1": "DeepSeek-V3",
    "DeepSeek-R1-NVFP4": "DeepSeek-V3",
    "DeepSeek-V3.1-NVFP4": "DeepSeek-V3",
    "Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "Llama-3.1-8B-Instruct-FP8": "Llama-3.1-8B",
    "Qwen3-32B-NVFP4": "Qwen3-32B",
    "Qwen3-235B-A22B-FP8": "Qwen3-235B-A22B",
}
"""Models that share layers, widths and experts are one family: who has seen one has seen its twin."""

Row = dict[str, str]


def clean_rows() -> list[Row]:
    """The clean aggregated rows with three columns more: `family`, device `generation`, `ffn` (dense or
    moe)."""
    with gzip.open(RUNS, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "agg" and not row["suspect"]]
    return [row | _described(row["model_path"], row["system"]) for row in rows]


def group_of(row: Row) -> tuple[str, str]:
    """What is held out together: model family and device."""
    return row["family"], row["system"]


def as_asked(row: Row) -> Row:
    """A measured row in the columns of `predict`."""
    return {
        "model": str(config(row["model_path"])),
        "device": row["system"],
        "engine": row["backend"],
        "engine_version": row["backend_version"],
        "gemm_precision": row["gemm_quant_mode"],
        "moe_precision": row["moe_quant_mode"],
        "tp": row["attn_tp"],
        "attn_dp": row["attn_dp"],
        "moe_tp": row["moe_tp"],
        "ep": row["ep"],
        "pp": str(max(1, round(float(row["gpus"]) / (float(row["attn_tp"]) * float(row["attn_dp"]))))),
        "isl": row["isl"],
        "osl": row["osl"],
        "concurrency": row["concurrency"],
    }


def config(model: str) -> Path:
    """The Hugging Face config that describes `model`."""
    return DATA / "model_configs" / f"{CONFIGS.get(model, model.replace('/', '--'))}.json"


@lru_cache(maxsize=256)
def _described(model: str, system: str) -> Row:
    """What follows from the names of a row's model and device."""
    name = model.split("/")[-1]
    experts = any(isinstance(layer.ffn, MoeFfn) for layer in catalog.find(str(config(model)))[0].stack)
    return {
        "family": FAMILIES.get(name, name),
        "generation": devices.find(system).generation,
        "ffn": "moe" if experts else "dense",
    }
