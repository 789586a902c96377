"""Version eras of engines: releases whose kernels or host work were another's than today's.

An engine of an era has a key ("vllm-0.6"). Those of 2024 are engines of their own to kernels and engine
parameters: the key stands in the efficiency files, in front of the plain engine's, and in `era/2024.yaml`
what it adds to a step. Those of 2025 are today's engines but for factors of their own at the calibration's
level "era".
"""

from __future__ import annotations

import re

Version = tuple[int, int, int]

Eras = dict[str, list[tuple[Version, Version, str]]]

ERAS: Eras = {
    "vllm": [((0, 0, 0), (0, 7, 0), "vllm-0.6")],  # 0.7 brought today's engine core (V1)
    "trtllm": [((0, 10, 0), (0, 13, 0), "trtllm-0.12")],  # below 0.10: Dynamo's images of today's engine
}
"""Engine → first version, version after the last, key: eras of 2024."""

LATE_ERAS: Eras = {
    "trtllm": [((0, 13, 0), (1, 1, 0), "trtllm-1.0"), ((1, 1, 0), (1, 2, 0), "trtllm-1.1")],
    "sglang": [
        ((0, 0, 0), (0, 5, 4), "sglang-0.5.3"),
        ((0, 5, 4), (0, 5, 7), "sglang-0.5.6"),
        ((0, 5, 7), (0, 5, 10), "sglang-0.5.9"),
    ],
}
"""Engine → first version, version after the last, key: eras of 2025. DeepSeek's decode steps on Blackwell are
20 to 30 % shorter since TensorRT-LLM 1.2 (InferenceX's runs of the same configurations, month by month).
Since 1.1.0rc0 it samples in PyTorch's own sampler (its release notes)."""

HOPPER_ERAS: Eras = {
    **LATE_ERAS,
    "trtllm": [
        ((0, 5, 0), (0, 9, 0), "trtllm-1.1"),
        ((0, 13, 0), (1, 1, 0), "trtllm-1.0"),
        ((1, 1, 0), (1, 3, 0), "trtllm-1.1"),
    ],
}
"""The same on Hopper, where 1.2 is as 1.1 still: InferenceX's servers of one kind go from 1.1.0rc2 to
1.3.0rc14 there, and decode workers of 1.2.0rc6 take what the former took (13.4 and 13.7 ms a step of four
sequences of DeepSeek-R1 on H200, where the latter take 11.8). Below 0.9 these are Dynamo's images, whose 0.8
holds 1.2.0rc6 (its support matrix)."""

CDNA3_ERAS: Eras = {"sglang": [((0, 0, 0), (0, 5, 12), "sglang-0.5.11")]}
"""The same on CDNA3. DeepSeek's decode steps on MI300X are 10 ms shorter since SGLang 0.5.12, however many
decode (InferenceX): kernels around GEMMs with block scales, Triton's there (its pull request 32516), are
fused since (14043, 18242). So it tells of that precision alone: with one request in flight ERNIE-4.5-21B in
16 bits and Ministral-3-14B in FP8 take 4.1 and 6.6 ms a token on 0.5.7 (SGLang's cookbook), told as 5.0 and
6.6, and 8.0 and 11.0 where it told of all."""

GENERATIONS = {"hopper": HOPPER_ERAS, "cdna3": CDNA3_ERAS}

FAULTS = {key for own in CDNA3_ERAS.values() for _, _, key in own}
"""Eras that were slower on that generation alone."""

ALIKE = {"sglang-0.5.6": "sglang", "sglang-0.5.9": "sglang"}
"""Eras that only what is known of them tells from today's engine (fused.py): fits know them as that one."""

HOSTS = {"trtllm-1.0": "trtllm-1.1", "sglang-0.5.11": "sglang"}
"""Eras of 2025 → those whose first tokens they share: what a request waits for beside the steps."""

TAKING_TURNS = {"vllm-0.6", "trtllm-0.12", "sglang-0.5.6"}
"""Eras whose pipeline stages were seen to work one after the other (`benchmarks/choice/pipelines.py`)."""

LATER = ("blackwell_dc", "blackwell_rtx", "cdna4")
"""Generations that no engine of 2024 runs on: such a number is that of an image around today's."""

OF_KEY = {
    key: engine for eras in (ERAS, LATE_ERAS, CDNA3_ERAS) for engine, own in eras.items() for _, _, key in own
}

NAMED: dict[tuple[str, str], Version] = {
    ("trtllm", "gpt-oss-dev"): (1, 1, 0),
    ("sglang", "nightly-dev-202602"): (0, 5, 9),
}
"""Engine and how an image without a number begins: TensorRT-LLM's for gpt-oss is of a branch of early August
2025 (pull request 7101) that first came out in 1.1.0rc0 of that month (its release notes: "Add model
gpt-oss"); SGLang's nightly ones of February 2026 are of 0.5.9's month."""

_NUMBERS = re.compile(r"(?:[^\d.]*[-_ =:])?v?(\d+)\.(\d+)(?:\.(\d+))?")


def engine_of_era(engine: str, version: str, generation: str) -> str:
    """The key of the engine at `version` on a device of a generation; the engine itself where the version is
    blank, unknown or today's.

    >>> [engine_of_era("vllm", v, "ampere") for v in ("v0.6.3.post1", "vllm-0.5", "0.11.2", "nightly-5b", "")]
    ['vllm-0.6', 'vllm-0.6', 'vllm', 'vllm', 'vllm']
    >>> [engine_of_era("trtllm", v, "hopper") for v in ("0.12.0.dev2024072302", "0.8.1.post1", "1.3.0rc1")]
    ['trtllm-0.12', 'trtllm-1.1', 'trtllm']
    >>> [engine_of_era("trtllm", v, "blackwell_dc") for v in ("1.0.0rc3", "0.8.1.post1", "1.2.0rc2")]
    ['trtllm-1.0', 'trtllm', 'trtllm']
    >>> [engine_of_era("sglang", "0.5.9", generation) for generation in ("hopper", "cdna3", "cdna4")]
    ['sglang-0.5.9', 'sglang-0.5.11', 'sglang-0.5.9']
    """
    number = number_of(engine, version)
    if not number:
        return engine
    late = GENERATIONS.get(generation, LATE_ERAS)
    possible = (late,) if generation in LATER else (ERAS, late)
    for first, after, key in (era for eras in possible for era in eras.get(engine, [])):
        if first <= number < after:
            return key
    return engine


def number_of(engine: str, version: str) -> Version | None:
    """A version of an engine as numbers; None where it is blank or has none.

    >>> number_of("vllm", "v0.19.0rc1"), number_of("trtllm", "gpt-oss-dev"), number_of("vllm", "nightly-5b")
    ((0, 19, 0), (1, 1, 0), None)
    """
    told = version.strip().lower()
    for (of, begins), number in NAMED.items():
        if of == engine and told.startswith(begins):
            return number
    numbers = _NUMBERS.match(told)
    return (int(numbers[1]), int(numbers[2]), int(numbers[3] or 0)) if numbers else None


MARLIN_UNTIL: Version = (0, 20, 0)
"""vLLM's version from which on experts in MXFP4 on Hopper are left to its own choice, Triton's kernels. They
were slower before (its pull request 27523), and public recipes asked for Marlin's (InferenceX, with 0.18)."""


def kernels_of_era(engine: str, version: str, generation: str, experts: str) -> str:
    """The experts' kernels that public recipes asked an older release for; blank where it is as today.

    >>> [kernels_of_era("vllm", version, "hopper", "mxfp4") for version in ("0.18.0", "0.24.0", "")]
    ['marlin', '', '']
    """
    number = number_of(engine, version)
    marlin = engine == "vllm" and generation == "hopper" and experts == "mxfp4"
    return "marlin" if marlin and number is not None and number < MARLIN_UNTIL else ""


def engine_of(key: str) -> str:
    """The engine without its era.

    >>> engine_of("vllm-0.6"), engine_of("sglang")
    ('vllm', 'sglang')
    """
    return OF_KEY.get(key, key)
