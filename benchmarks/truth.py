"""Public serving runs that predictions are compared with, and each run as a row of `predict`.

Rows come from two tables in a folder `shared` beside the repository: aggregated runs of
`silicon_train.csv.gz` as `serving/train_labels.csv.gz` and `serving/run_flags_train.csv.gz` describe them,
and runs of DeepSeek-R1 (`serving/inferencex_deepseek_r1.csv.gz`). Left out are speculative runs, those that
may be, repeats, hits of a prefix cache, and jobs of unknown replicas. Clients of the InferenceX harness draw
lengths evenly from 0.8 to 1 of what a row names, so a mean request has 0.9 of it; others send requests of
exactly that length, so theirs are alike.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from benchmarks import launched, recipes
from cluster_configs import devices
from model_zoo import catalog
from model_zoo.schema import MoeFfn
from planner.cost.eras import FAULTS, engine_of_era

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RUNS = DATA / "silicon_train.csv.gz"
SERVING = DATA / "serving"

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
    "llama-3.1-70b": "Llama-3.1-70B",
}
"""Models that share layers, widths and experts are one family: who has seen one has seen its twin."""

NVFP4 = {
    "DeepSeek-V3": "nvidia/DeepSeek-V3.1-NVFP4",
    "MiniMax-M2.5": "nvidia/MiniMax-M2.5-NVFP4",
    "Qwen3.5-397B-A17B": "nvidia/Qwen3.5-397B-A17B-NVFP4",
}
"""By family, checkpoints in NVFP4 as ModelOpt makes them, whose matrices are not all in what a row names:
their hf_quant_config.json keep DeepSeek's projections into Q, K and V in 16 bits, and of the other two all
but the experts. (The card of the one that DeepSeek's runs name, DeepSeek-R1-0528-FP4-v2, has the output's
projection as the only matrix of attention that is quantised.)"""

Row = dict[str, str]


DRAWN = 0.9
"""Mean of a length that a client draws evenly from 0.8 to 1 of it."""

AMD = ("mi300x", "mi325x", "mi355x")

ENGINE_KV = {"fp8": "fp8", "fp8_e4m3": "fp8", "auto": "bf16"}

SETTINGS = {
    "chunk": "max_step_tokens",
    "max_running": "max_running",
    "memory_share": "memory",
    "receive_steps": "recv_interval",
    "wait_steps": "batch_wait_iters",
}
"""Columns of `predict` by those of launch lines."""


@lru_cache(maxsize=1)
def clean_rows() -> tuple[Row, ...]:
    """The clean aggregated rows, those of both tables, with columns more: what they are (`described`), and
    what `as_asked` needs."""
    labels, flags = (by_id(SERVING / name) for name in ("train_labels.csv.gz", "run_flags_train.csv.gz"))
    rows = [
        row | labelled(row, labels[row["row_id"]], flags.get(row["row_id"], {}))
        for row in table(RUNS)
        if kept(row, labels[row["row_id"]])
    ]
    known = {row["row_id"] for row in rows}
    more = [
        deepseek(x)
        for x in table(SERVING / "inferencex_deepseek_r1.csv.gz")
        if x["train_row_id"].split(".")[0] not in known and kept_deepseek(x)
    ]
    rows = [row for row in rows + newest(more, CONFIGURATION, "measured") if not mended(row)]
    return tuple(row | described(row["model_path"], row["system"]) for row in rows)


MENDED = {
    # prompts up to 6 x, steps up to 4 x slower than two weeks later
    ("b300_sxm", "sglang", ""): "2026-05-17",
    # steps up to twice as slow in the first weeks of bringing it up
    ("mi355x", "sglang", "fp8"): "2026-01-05",
    ("mi355x", "sglang", "mxfp4"): "2025-12-19",
    # steps up to 1.7 times as slow until 0.5.12, an era where the version is told (planner/cost/eras.py)
    ("mi300x", "sglang", "fp8"): "2026-05-18",
}
"""By device, engine and weights: the first day on which DeepSeek runs were no longer held back by a fault
that the engine has mended since."""

LAYOUT = ("attn_tp", "attn_dp", "ep")
CONFIGURATION = ("era", "system", "backend", "gemm_quant_mode", *LAYOUT, "isl", "osl", "concurrency")
"""What a run of the second table was repeated with, often daily: the newest counts."""


def newest(rows: Iterable[Row], configuration: Sequence[str], day: str) -> list[Row]:
    """Of rows that are alike in some columns the last by its `day`."""
    found = {tuple(row[c] for c in configuration): row for row in sorted(rows, key=lambda r: r[day])}
    return list(found.values())


def mended(row: Row) -> bool:
    """Whether a DeepSeek run shows a fault of its engine that is mended."""
    if row["model_path"].split("/")[-1].startswith("DeepSeek"):
        days = [MENDED.get((row["system"], row["backend"], w), "") for w in ("", row["gemm_quant_mode"])]
        return bool(row["measured"]) and row["measured"] < max(days) and not row.get("era")
    return False


def table(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def by_id(path: Path) -> dict[str, Row]:
    return {row["row_id"]: row for row in table(path)}


def kept(row: Row, label: Row) -> bool:
    """Whether a row of the first table says what it seems to."""
    told = label["advice"]
    unsure = any(word in told for word in ("MTP run", "drop", "Dynamo job"))
    # of the 512, fewer than 100 ran at once
    crowd = row["model_path"].endswith("gpt-oss-120b") and row["concurrency"] == "512.0"
    hits = row["model_path"] == "nvidia/Llama-3.1-8B-Instruct-FP8"  # 94 % of peak FLOP/s
    return (
        row["mode"] == "agg"
        and (not row["suspect"] or "keep" in told)
        and not (unsure or hits or crowd or drafted(row, label))
    )


def drafted(row: Row, label: Row) -> bool:
    """Qwen3.5 runs of two days that are unmarked, but twice as fast with few in flight and slower with many
    than all others of their engine: as speculation is."""
    days = {("b200_sxm", "2026-03-20"), ("b300_sxm", "2026-04-03")}
    block = row["moe_quant_mode"] == "fp8_block" and row["attn_tp"] == "4.0"
    return "Qwen3.5" in row["model_path"] and block and (row["system"], label["measured"]) in days


def labelled(row: Row, label: Row, flags: Row) -> Row:
    """What is known of a run beside its row."""
    harness = label["lengths"] != "exact"
    kv = ENGINE_KV.get(flags.get("kv_dtype", "") or ("auto" if flags.get("launch") else ""), "")
    layout = launched.layout(flags)
    return {
        "backend_version": recipes.version_of(row, label["measured"]),
        "source": label["source"],
        "measured": label["measured"],
        "drawn": str(DRAWN if harness else 1.0),
        "warmed_up": "" if label["warmed_up"] == "no" else "1",
        "kv": kv,
        **{name: flags.get(column, "") for name, column in SETTINGS.items()},
        "max_running": per_replica(flags.get("max_running", ""), row | layout),
        "router": router(flags, row, label),
        "kernels": launched.kernels(flags),
        "graph_tokens": launched.graph_tokens(flags),
        **layout,
    }


TF32 = ("VLLM_FLOAT32_MATMUL_PRECISION=high", "--enable-tf32-matmul")
"""Words of a launch line with which routers in 32 bits are multiplied by tensor cores."""


def router(flags: Row, row: Row, label: Row) -> str:
    """What routers of experts are computed in where more is known of it than the engine's version: a nightly
    image of 2026-04-03 has none, and is of between vLLM 0.19 and 0.20."""
    told = flags.get("launch", "") + flags.get("env", "")
    if any(word in told for word in TF32):
        return "tf32"
    early = row["backend_version"].startswith("nightly") and label["measured"] < "2026-05"
    return "fp32" if early and "MiniMax-M2" in row["model_path"] else ""


def per_replica(told: str, row: Row) -> str:
    """Requests at once of all attention-dp ranks: SGLang's limit is theirs together, the others' of each."""
    ranks = 1.0 if row["backend"] == "sglang" else float(row["attn_dp"])
    return str(round(float(told) * ranks)) if told else ""


def kept_deepseek(x: Row) -> bool:
    """Aggregated runs without drafts on engines that there are."""
    run = (x["device"], x["engine"], x["date"])
    fault = run == ("h200_sxm", "sglang", "2026-05-13")  # mended four days later
    plain = x["disagg"] == "False" and x["spec_method"] == "none"
    return plain and x["engine"] in ("sglang", "trtllm") and not fault


def version_by(engine: str, day: str) -> str:
    """TensorRT-LLM's version where a row does not say it: rows of these days that do all have it."""
    return "1.1.0rc2" if engine == "trtllm" and day < "2026-01-20" else ""


def fault_of(x: Row) -> str:
    """The era of an older release that is slower on such a device alone, blank of others and where no version
    is told: those runs stay beside the newest ones."""
    era = engine_of_era(x["engine"], x["engine_version"], str(devices.find(x["device"]).generation))
    return era if era in FAULTS else ""


def deepseek(x: Row) -> Row:
    """A run of the second table in the columns of the first: a median first token, where it is told, is that
    of the steady state; a mean has the benchmark's first wave in it."""
    nvidia = x["device"] not in AMD
    weights = {"fp8": "fp8", "fp4": "nvfp4" if nvidia else "mxfp4"}[x["precision"]]
    return {
        **{name: x[name] for name in ("isl", "osl", "concurrency", "attn_dp", "ep", "moe_tp")},
        "row_id": f"r1-{x['row']}",
        "era": fault_of(x),
        "backend": x["engine"],
        "backend_version": x["engine_version"] or version_by(x["engine"], x["date"]),
        "model_path": x["model"],
        "system": x["device"],
        "precision": x["precision"],
        "gemm_quant_mode": weights,
        "moe_quant_mode": "fp8_block" if weights == "fp8" else weights,
        "gpus": str(float(x["tp"]) * float(x["attn_dp"])),
        "attn_tp": x["tp"],
        "silicon_ttft_ms": x["median_ttft_ms"] or x["mean_ttft_ms"],
        "silicon_tpot_ms": x["mean_tpot_ms"] or x["median_tpot_ms"],
        "start": "steady" if x["median_ttft_ms"] else "",
        "receive_steps": recipes.receive_steps(x),
        "graph_tokens": recipes.graph_tokens(x),
        "balance_steps": "60" if x["engine"] == "trtllm" else "",
        "source": "deepseek-r1",
        "measured": x["date"],
        "drawn": str(DRAWN),
        "router": "",
        "warmed_up": "1" if x["warmed_up"] == "1" else "",
    }


def group_of(row: Row) -> tuple[str, str]:
    """What is held out together: model family and device."""
    return row["family"], row["system"]


def as_asked(row: Row) -> Row:
    """A measured row in the columns of `predict`."""
    if row.get("asked"):  # of the printouts
        return row
    return {
        **checkpoint(row["model_path"], row["gemm_quant_mode"], row["moe_quant_mode"]),
        "device": row["system"],
        "engine": row["backend"],
        "engine_version": row["backend_version"],
        "tp": row["attn_tp"],
        "attn_dp": row["attn_dp"],
        "moe_tp": row["moe_tp"],
        "ep": row["ep"],
        "pp": str(max(1, round(float(row["gpus"]) / (float(row["attn_tp"]) * float(row["attn_dp"]))))),
        "isl": str(round(float(row["drawn"]) * float(row["isl"]))),
        "osl": str(round(float(row["drawn"]) * float(row["osl"]))),
        "kv_precision": row.get("kv", ""),
        "router_precision": row.get("router", ""),
        "expert_kernels": row.get("kernels", ""),
        **{name: row.get(name, "") for name in (*SETTINGS, "balance_steps", "graph_tokens")},
        "start": row.get("start", ""),
        "lengths": "varied" if float(row["drawn"]) < 1 else "alike",
        "concurrency": row["concurrency"],
    }


def checkpoint(model: str, gemm: str, experts: str) -> Row:
    """What a run named `model` in these precisions has loaded, in the columns of `predict`."""
    mixed = NVFP4.get(family_of(model)) if gemm == "nvfp4" else None
    return {
        "model": str(config(mixed or model)),
        "gemm_precision": "" if mixed else gemm,
        "moe_precision": "" if mixed else experts,
    }


def family_of(model: str) -> str:
    """What twins of `model` are called alike."""
    name = model.split("/")[-1]
    return FAMILIES.get(name, name)


def config(model: str) -> Path:
    """The Hugging Face config that describes `model`."""
    return DATA / "model_configs" / f"{CONFIGS.get(model, model.replace('/', '--'))}.json"


@lru_cache(maxsize=256)
def described(model: str, system: str) -> Row:
    """What follows from the names of a row's model and device; `model`: of a config file, else of a card."""
    named = str(config(model)) if config(model).is_file() else model
    experts = any(isinstance(layer.ffn, MoeFfn) for layer in catalog.find(named)[0].stack)
    return {
        "family": family_of(model),
        "generation": devices.find(system).generation,
        "ffn": "moe" if experts else "dense",
    }
