"""What benchmark files have in common: names of engines, and means that may be missing."""

from __future__ import annotations

ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trt": "trtllm",
    "tensorrt": "trtllm",
    "llama.cpp": "llama.cpp",
    "llama-cpp": "llama.cpp",
    "llm-d": "vllm",
}
"""Parts of what tools call a backend, an image or a component; llm-d's own images serve with vLLM."""

SPLIT = "prefill and decode ran on different GPUs"
SPLIT_HINT = "write a CSV: TTFT in a row of role `prefill`, TPOT in one of role `decode`"


def engine_in(text: str) -> str:
    """The engine that a backend, an image or a tool is named after, "" if none is.

    >>> engine_in("sglang-oai-chat"), engine_in("ghcr.io/llm-d/llm-d-cuda:0.3.1"), engine_in("openai")
    ('sglang', 'vllm', '')
    """
    return next((engine for part, engine in ENGINES.items() if part in text.lower()), "")


def mean_of(
    what: str, mean: float | None, median: float | None, gaps: float | None = None
) -> tuple[float | None, tuple[str, ...]]:
    """The mean of a latency, or what stands in for it, and a note that says so.

    `gaps`: the mean of all gaps between tokens, which is a TPOT where no chunk holds several tokens.
    """
    if mean is not None:
        return mean, ()
    if median is not None:
        return median, (f"{what} is a median",)
    return gaps, (f"{what} is a mean of gaps",) if gaps is not None else ()
