"""Offline tables at full load, and what is predicted: `python -m benchmarks.saturated`.

TensorRT-LLM's overview sends 1,000 to 3,000 requests at once (its section "Preparing a Dataset") and counts
output tokens until the last one ends. All are alike, so as many as have a place start together, and when they
end the next ones start: a closed loop with as many in flight as a wave has, at the engine's defaults (2,048
sequences a rank), in steady state, caches in FP8 where the checkpoint's weights are ModelOpt's FP8 or NVFP4,
else in 16 bits. It names no kernels for experts, so they are the engine's own choice (CUTLASS). SGLang's
cookbook: printouts by hand, without warm-up, of launch lines that name no kernels either; mean lengths and
requests in flight as printed. Neither table is fitted.

The last table says how comparable the cookbook's runs are. What is off with one request in flight is kernels
that the launch line leaves to a default; the rest is prompts. SGLang computes these in steps of their own,
for which all decoding stops, on all attention-dp ranks. Were each as long as the first token of a lone
request took on the same server, TPOT would be the one in the last column: not a prediction, as it takes a
measurement.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.scores.render import share, table
from cluster_configs import devices
from planner.errors import InputError
from planner.predict.loads import Places, Rows
from planner.predict.predictions import looked_up, predict_rows
from planner.predict.rows import parse

SERVING = Path(__file__).resolve().parents[2] / "shared" / "data" / "serving"
RUNNING = 2048
"""Sequences of a rank at once: TensorRT-LLM's default."""

OVERVIEW = "1.2.0"
"""TensorRT-LLM's version in the overview, which does not say it. The document of release 1.2 (its pull
request 12098, March 2026) has B300, GB300 and Kimi K2 beside these, that of 1.0 other lengths and models: it
is of 1.1 or of a candidate of 1.2. On Hopper that is the same."""

REQUESTS = {1024: 3000, 8192: 1500, 32768: 1000}
"""Requests that the overview sends, by the longer of the two lengths (of 1,000 tokens as of 1,024)."""

LONG = 8192
"""Tokens in or out from which on requests are long."""

BUSY = 64
"""Requests in flight from which on a cookbook's run counts."""

TRITON = {
    "MiniMaxAI/MiniMax-M2.5",
    "MiniMaxAI/MiniMax-M2.7",
    "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
}
"""Models for which SGLang 0.5.6 to 0.5.10 takes Triton's kernels on data-centre Blackwell, where those of
DeepSeek's architecture in FP8 get TensorRT-LLM's (server_args.py of those versions)."""

MAIN = {"main branch": "0.5.9"}
"""The one run that says so is of Nemotron 3 Super, whose page came with the model in March 2026: of SGLang
between 0.5.9 of February and 0.5.10 of April."""

NO_AITER = "SGLANG_USE_AITER=0"
"""Leaves experts on AMD's GPUs to Triton, too."""

Row = Mapping[str, str]
Scored = tuple[Row, float, float]


def overview() -> list[tuple[Row, dict[str, str], float]]:
    """Row, columns of `predict`, output tokens/s of all GPUs."""
    found = []
    for row in read("trtllm_perf_overview.csv"):
        ranks = int(row["attn_dp"])
        requests = next(
            n for longest, n in REQUESTS.items() if max(int(row["isl"]), int(row["osl"])) <= longest
        )
        sizes = {
            name: row[name] for name in ("model", "precision", "tp", "pp", "attn_dp", "ep", "isl", "osl")
        }
        cells = sizes | {"engine": "trtllm", "engine_version": OVERVIEW, "start": "steady"}
        cells["device"] = row["device"].replace("_", "-")
        cells["max_running"] = str(RUNNING * ranks)
        if row["precision"] in ("fp8", "nvfp4"):
            cells |= {"kv_precision": "fp8", "expert_kernels": "cutlass"}
        waves = math.ceil(requests / (ranks * places(cells)))
        cells["concurrency"] = str(requests / waves)
        gpus = int(row["tp"]) * int(row["pp"]) * ranks
        found.append((row, cells, gpus * float(row["out_tok_per_s_per_gpu"])))
    return found


def places(cells: Row) -> int:
    """Requests that one attention-dp rank has room for at once, at least one."""
    group, row = looked_up(parse({**cells, "concurrency": "1"}))
    held = Places.of(group.cost(), Rows.of(group, [row]), group.token_budget)
    return max(math.floor(held.sequences[0]), 1)


def cookbook(least: float = BUSY) -> list[tuple[Row, dict[str, str], float]]:
    """The same of the usable printouts with `least` in flight or more."""
    found = []
    for row in read("cookbook_blocks.csv"):
        if not _usable(row) or float(row["concurrency"] or 0) < least:
            continue
        tp, dp = int(float(row["tp"])), int(float(row["dp"] or 1))
        ranks = dp if "--enable-dp-attention" in row["launch"] else 1
        version = MAIN.get(row["version"], row["version"])
        cells = {"model": row["model"], "engine": "sglang", "engine_version": version}
        cells |= {"device": row["device"].replace("_", "-"), "tp": str(tp // ranks), "attn_dp": str(ranks)}
        cells |= {name: str(max(round(float(row[f"{name}_mean"])), 1)) for name in ("isl", "osl")}
        blackwell = devices.find(cells["device"]).generation == "blackwell_dc"
        triton = NO_AITER in row["launch"] or (blackwell and row["model"] in TRITON)
        cells |= {
            "expert_kernels": "triton" if triton else "",
            "ep": str(int(float(row["ep"] or 1))),
            "start": "steady",
            "concurrency": row["mean_concurrency"] or row["concurrency"],
        }
        found.append((row, cells, float(row["out_tok_per_s"])))
    return found


def _usable(row: Row) -> bool:
    """Whether a printout says what ran: text of random lengths (four are of conversations, some of which are
    many times as long as their mean) on a device and a tp that are told, nothing drafted."""
    sure = row["device_sure"] == row["text_only"] == "1" and row["speculative"] == "0"
    return sure and row["dataset"] == "random" and bool(row["tp"] and row["isl_mean"])


def read(name: str) -> list[dict[str, str]]:
    with (SERVING / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def scored(rows: Sequence[tuple[Row, dict[str, str], float]]) -> list[Scored]:
    """Rows whose model and device are known, with predicted over measured throughput, and how far it may be
    off: TPOT's band."""
    answers = predict_rows([cells for _, cells, _ in rows])
    return [
        (row, told.out_tok_per_s / measured, told.tpot_ms_high / told.tpot_ms)
        for (row, _, measured), told in zip(rows, answers, strict=True)
        if not isinstance(told, InputError) and told.out_tok_per_s and told.tpot_ms and told.tpot_ms_high
    ]


def stopped() -> str:
    """The cookbook's runs once more: TPOT of one request in flight, of all, of a server that only decodes,
    and of one that stops for every prompt as long as a lone one takes, all over what was measured."""
    every, alone = cookbook(1), {}
    for row, cells, _ in every:
        if float(row["concurrency"]) == 1:
            alone[_server(row, cells)] = (row, cells)
    lines = []
    for row, cells, _ in every:
        one = alone.get(_server(row, cells))
        told = [_tpot_ms(x) for x in (cells, cells | {"role": "decode"})]
        if float(row["concurrency"]) < BUSY or one is None or None in told:
            continue
        together, decoding = (x or 0.0 for x in told)
        prompts = float(cells["concurrency"]) / float(cells["osl"])
        waits = decoding + prompts * float(one[0]["median_ttft_ms"])
        lone = (_tpot_ms(one[1]) or 0.0) / float(one[0]["median_tpot_ms"])
        name = f"{row['model'].split('/')[1]} {cells['device']} {cells['isl']}/{cells['osl']}"
        ratios = [x / float(row["mean_tpot_ms"]) for x in (together, decoding, waits)]
        figures = [f"{prompts:.2f}", f"{lone:.2f}", *(f"{x:.2f}" for x in ratios)]
        lines.append([name, cells["attn_dp"], *figures])
    heads = ("run", "attention-dp", "prompts a step", "one in flight", "all", "decoding alone", "stopped")
    return table(heads, lines)


def _server(row: Row, cells: Row) -> tuple[str, str, bool]:
    """Model, device, and whether prompts are long."""
    return row["model"], cells["device"], int(cells["isl"]) > LONG // 4


def _tpot_ms(cells: dict[str, str]) -> float | None:
    """Predicted; None of a model without a card."""
    (told,) = predict_rows([cells])
    return None if isinstance(told, InputError) else told.tpot_ms


def line(name: str, runs: Sequence[Scored]) -> list[str]:
    """Runs, typical factor either way, its 90th percentile, the median ratio, the share inside the band."""
    logs, reach = np.log(np.array([[ratio, most] for _, ratio, most in runs])).T
    off = np.abs(logs)
    figures = (np.median(off), np.quantile(off, 0.9), np.median(logs))
    return [name, str(len(logs)), *(f"{np.exp(x):.2f}" for x in figures), share((off <= reach).mean())]


def _pair(row: Row) -> tuple[str, str]:
    """Model and device."""
    return row["model"].split("/")[1], row["device"]


def main() -> None:
    """Predict and print."""
    if not SERVING.is_dir():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    rows = scored(overview())
    classes = {
        "long prompts": lambda r: int(r["isl"]) >= LONG,
        "long answers": lambda r: int(r["osl"]) >= LONG,
        "short": lambda r: max(int(r["isl"]), int(r["osl"])) < LONG,
        **{
            name: lambda r, name=name: r["device"] == name for name in sorted({r["device"] for r, *_ in rows})
        },
        **{
            name.split("/")[1]: lambda r, name=name: r["model"] == name
            for name in sorted({r["model"] for r, *_ in rows})
        },
    }
    lines = [line("all", rows)]
    lines += [line(name, [run for run in rows if of(run[0])]) for name, of in classes.items()]
    heads = ["", "n", "typical factor", "P90", "median ratio", "inside"]
    print(f"TensorRT-LLM's overview\n{table(heads, lines)}")
    told = cookbook()
    runs = scored(told)
    lines = [line("all", runs)]
    for name in sorted({_pair(row) for row, *_ in runs}):
        lines.append(line(" ".join(name), [run for run in runs if _pair(run[0]) == name]))
    print(f"\nSGLang's cookbook, {BUSY} in flight or more ({len(told) - len(runs)} of models without a card)")
    print(table(heads, lines))
    print(f"\nThe same runs, TPOT over what was measured\n{stopped()}")


if __name__ == "__main__":
    main()
