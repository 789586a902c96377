"""`python -m sglang.bench_serving --output-file`: one JSON object a line and run.

Field names as written by python/sglang/bench_serving.py. Newer ones carry the server's arguments and so its
model and parallelism, but no device, unless the run was started with `--tag "device=h100-sxm tp=2"`: such
words of the tag are columns here. Failed requests are told by `--output-details` alone.
"""

from __future__ import annotations

from dataclasses import replace

from planner.calibration.fields import Fields
from planner.calibration.formats import vllm
from planner.calibration.formats.engines import SPLIT, SPLIT_HINT, engine_in
from planner.calibration.runs import Run
from planner.errors import InputError

OWN = ("total_output_tokens_retokenized", "mean_e2e_latency_ms", "dataset_name", "server_info")
"""Fields of which every version has some, and vLLM none."""


def matches(data: Fields) -> bool:
    """Whether these are the results of one run."""
    return "completed" in data and "duration" in data and any(name in data for name in OWN)


def run(data: Fields) -> Run:
    """The run. Raises InputError."""
    server = data.part("server_info")
    told = {"engine": engine_in(data.text("backend"))} | _server(server) | _tagged(data.text("tag"))
    speculative = server.text("speculative_algorithm") or (data.number("accept_length") or 0) > 1
    if speculative:
        raise InputError(
            "ran with speculative decoding, but does not say how many tokens were drafted",
            hint="write a CSV with `draft_tokens` and `accepted_tokens`",
        )
    errors = data.data.get("errors")
    found = vllm.serving_run(
        data,
        told=told,
        guessed={"engine": "sglang"} | _lengths(data),
        failed=float(sum(map(bool, errors))) if isinstance(errors, list) else 0.0,
        latency_ms=data.number("mean_e2e_latency_ms"),
    )
    copies = 1 if server.data.get("enable_dp_attention") else server.whole("dp_size")
    shares = data.text("dataset_name") == "generated-shared-prefix"
    return replace(found, replicas=copies, shares_prefix=shares)


def _lengths(data: Fields) -> dict[str, str]:
    """Whether all lengths are alike: random ones, drawn from this share of the stated length to all of it."""
    alike = data.text("dataset_name") == "random" and data.number("random_range_ratio") == 1.0
    return {"lengths": "alike"} if alike else {}


def _tagged(tag: str) -> dict[str, str]:
    """The columns among the words of a tag.

    >>> _tagged("tuesday device=h100-sxm tp=2 nodes=3")
    {'device': 'h100-sxm', 'tp': '2'}
    """
    return vllm.stated(Fields(dict(word.split("=", 1) for word in tag.split() if "=" in word)))


def _server(server: Fields) -> dict[str, str]:
    """Columns that the server's arguments say; "tp" is there all ranks of a stage. Raises InputError."""
    if "prefill" in server or "decode" in server or server.text("disaggregation_mode") not in ("", "null"):
        raise InputError(SPLIT, hint=SPLIT_HINT)
    if "tp_size" not in server:
        return {}
    attn_dp = server.whole("dp_size") if server.data.get("enable_dp_attention") else 1
    ep = server.whole("ep_size")
    told = {
        "model": server.text("model_path"),
        "engine": "sglang",
        "engine_version": server.text("version"),
        "tp": str(server.whole("tp_size") // attn_dp),
        "pp": str(server.whole("pp_size")),
        "attn_dp": str(attn_dp),
        "ep": str(ep) if ep > 1 else "",
        "precision": "fp8" if server.text("quantization") == "fp8" else "",
        "kv_precision": "fp8" if server.text("kv_cache_dtype").startswith("fp8") else "",
    }
    return {column: text for column, text in told.items() if text}
