"""`vllm bench serve --save-result` and the older `benchmarks/benchmark_serving.py`: one JSON object a run.

Field names as written by vllm/benchmarks/serve.py. The server's GPUs are not in the file, unless the run was
started with `--metadata device=h100-sxm tp=2`: these come to stand beside the results and are columns here.
"""

from __future__ import annotations

import math

from planner.calibration.fields import Fields
from planner.calibration.formats.engines import engine_in, mean_of
from planner.calibration.runs import COLUMNS, Run
from planner.errors import InputError

LOAD = ("isl", "osl", "concurrency")
"""Columns that the run itself says."""


def matches(data: Fields) -> bool:
    """Whether these are the results of one run."""
    return all(name in data for name in ("completed", "duration", "total_input_tokens"))


def run(data: Fields) -> Run:
    """The run. Raises InputError."""
    drafted = speculation(data)
    if drafted:  # gaps between chunks of tokens say nothing of one
        data = Fields({name: value for name, value in data.data.items() if name != "mean_itl_ms"})
    backend = data.text("backend", "endpoint_type")
    completed, failed = data.number("completed") or 0.0, data.number("failed")
    if failed is None:  # older versions
        failed = max((data.number("num_prompts") or 0.0) - completed, 0.0)
    return serving_run(
        data,
        told={"model": data.text("model_id"), **drafted, **stated(data)},
        guessed={"engine": engine_in(backend) or "vllm"},
        failed=failed,
        latency_ms=data.number("mean_e2el_ms"),
    )


def stated(data: Fields) -> dict[str, str]:
    """Columns that whoever ran the benchmark wrote beside its results."""
    return {column: data.text(column) for column in COLUMNS if column in data and column not in LOAD}


def speculation(data: Fields) -> dict[str, str]:
    """Columns of speculative decoding; none without it. Raises InputError."""
    if data.number("spec_decode_acceptance_length") is None:
        return {}
    steps, tokens = data.number("spec_decode_num_drafts"), data.number("spec_decode_draft_tokens")
    accepted = data.number("spec_decode_accepted_tokens")
    if not steps or tokens is None or accepted is None:
        raise InputError("ran with speculative decoding, but does not say how many tokens were drafted")
    return {"draft_tokens": str(round(tokens / steps)), "accepted_tokens": f"{accepted / steps:.6g}"}


def serving_run(
    data: Fields, told: dict[str, str], guessed: dict[str, str], failed: float, latency_ms: float | None
) -> Run:
    """What vLLM's results and SGLang's, that grew from them, have in common."""
    completed, duration = data.number("completed") or 0.0, data.number("duration")
    tokens_in, tokens_out = data.number("total_input_tokens"), data.number("total_output_tokens")
    ttft, ttft_note = mean_of("TTFT", data.number("mean_ttft_ms"), data.number("median_ttft_ms"))
    tpot, tpot_note = mean_of(
        "TPOT", data.number("mean_tpot_ms"), data.number("median_tpot_ms"), data.number("mean_itl_ms")
    )
    return Run(
        told=told,
        guessed=guessed,
        isl=tokens_in / completed if tokens_in and completed else None,
        osl=tokens_out / completed if tokens_out and completed else None,
        ttft_ms=ttft,
        tpot_ms=tpot,
        latency_ms=latency_ms,
        rps=completed / duration if duration else None,
        completed=completed,
        failed=failed,
        cap=data.number("max_concurrency") or math.inf,
        asked_rps=None if data.text("request_rate") == "trace" else data.number("request_rate"),
        notes=(*ttft_note, *tpot_note),
    )
