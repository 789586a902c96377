"""What rows do not state of their runs and the recipes of those weeks do: InferenceMAX's, later InferenceX's
(github.com/SemiAnalysisAI/InferenceX).

TensorRT-LLM's version in runs of October and November 2025 is that of the recipe's image. DeepSeek's ran in
`release:1.1.0rc2.post2` on both devices (`dsr1-tmpl.yml`, later `nvidia-master.yaml`), gpt-oss-120b's on H200
in `release:gpt-oss-dev` (`gptoss-tmpl.yml`, later `nvidia-master.yaml`; rows of December state it
themselves). On B200 gpt-oss-120b ran in 1.2.0rc0.post1, from November on in 1.2.0rc2; both are of today's
era, so its rows stay unstated. So do Llama-70B's, although theirs ran in 1.1.0rc2.post2, too
(`70b-tmpl.yml`): docs/calibration-tried.md says why.
"""

from __future__ import annotations

from collections.abc import Mapping

IMAGES = (
    ("DeepSeek-", ("b200_sxm", "h200_sxm"), "1.1.0rc2.post2"),
    ("gpt-oss-120b", ("h200_sxm",), "gpt-oss-dev"),
)
"""How a model's name begins, its devices, and the version of its TensorRT-LLM image."""

STATED_FROM = "2025-12-01"
"""Rows measured from this day on state their version."""


def version_of(row: Mapping[str, str], measured: str) -> str:
    """The engine's version in a run: as its row states it, else as its recipe did; blank where neither does.

    >>> row = {"backend": "trtllm", "backend_version": "", "model_path": "openai/gpt-oss-120b"}
    >>> [version_of(row | {"system": device}, "2025-11-02") for device in ("h200_sxm", "b200_sxm")]
    ['gpt-oss-dev', '']
    """
    stated = row["backend_version"]
    if stated or row["backend"] != "trtllm" or not measured or measured >= STATED_FROM:
        return stated
    model = row["model_path"].split("/")[-1]
    return next((v for name, on, v in IMAGES if model.startswith(name) and row["system"] in on), "")


RECEIVES = ("b200_sxm", "b300_sxm")
"""Devices whose SGLang recipes for DeepSeek set how many steps pass before new requests are looked at."""


def receive_steps(run: Mapping[str, str]) -> str:
    """Decode steps between looks at new requests in a DeepSeek run on SGLang (`dsr1_fp8_b200.sh`,
    `dsr1_fp4_b300.sh` and their like: 30 from 16 in flight on, else 10; on four GPUs in FP8 always 10); blank
    where it looks at each.

    >>> run = {"engine": "sglang", "device": "b300_sxm", "precision": "fp8", "tp": "8.0"}
    >>> [receive_steps(run | {"concurrency": c}) for c in ("8", "16")]
    ['10', '30']
    """
    if run["engine"] != "sglang" or run["device"] not in RECEIVES:
        return ""
    few = run["precision"] == "fp8" and float(run["tp"]) == 4
    return "10" if few or float(run["concurrency"]) < 16 else "30"


PIECES_FROM = "2026-01-29"
"""Recipes of TensorRT-LLM for DeepSeek on B200 capture steps with prompts in pieces from this day on."""


def graph_tokens(run: Mapping[str, str]) -> str:
    """Tokens up to which steps with prompts are replayed from graphs in a DeepSeek run on TensorRT-LLM
    (`dsr1_fp8_b200_trt.sh`, `dsr1_fp4_b200_trt.sh`: all of a step's 8,192 and more); blank where the engine
    is told nothing.

    >>> run = {"engine": "trtllm", "device": "b200_sxm", "date": "2026-02-05", "isl": "1024", "osl": "1024"}
    >>> fp8 = run | {"precision": "fp8", "tp": "8.0", "attn_dp": "1.0", "ep": "1.0"}
    >>> [graph_tokens(fp8 | {"concurrency": c}) for c in ("32", "64")]
    ['', '8192']
    """
    if (run["engine"], run["device"]) != ("trtllm", "b200_sxm") or run["date"] < PIECES_FROM:
        return ""
    lengths, many = (run["isl"], run["osl"]), float(run["concurrency"])
    if run["precision"] == "fp4":
        gpus = float(run["tp"]) * float(run["attn_dp"])
        replayed = lengths == ("1024", "1024") and gpus == float(run["ep"]) == 8
    else:
        replayed = 128 <= many < 256 if lengths == ("1024", "8192") else many >= 64
    return "8192" if replayed else ""
