"""Version eras of engines: releases whose kernels or host work were another's than today's.

An engine of an era is an engine of its own to kernels and engine parameters: its key ("vllm-0.6") stands in
the efficiency files, in front of the plain engine's, and in `era/2024.yaml` what it adds to a step.
"""

from __future__ import annotations

import re

ERAS: dict[str, tuple[tuple[int, int], tuple[int, int], str]] = {
    "vllm": ((0, 0), (0, 7), "vllm-0.6"),  # 0.7 brought today's engine core (V1)
    "trtllm": ((0, 10), (0, 13), "trtllm-0.12"),  # numbers below 0.10 are Dynamo's images of today's engine
}
"""Engine → first version, version after the last, key."""

LATER = ("blackwell_dc", "blackwell_rtx", "cdna4")
"""Generations that no engine of those eras runs on: such a number is that of an image around today's."""

OF_KEY = {key: engine for engine, (_, _, key) in ERAS.items()}

_NUMBERS = re.compile(r"(?:[^\d.]*[-_ =:])?v?(\d+)\.(\d+)")


def engine_of_era(engine: str, version: str, generation: str) -> str:
    """The key of the engine at `version` on a device of a generation; the engine itself where the version is
    blank, unknown or today's.

    >>> [engine_of_era("vllm", v, "ampere") for v in ("v0.6.3.post1", "vllm-0.5", "0.11.2", "nightly-5b", "")]
    ['vllm-0.6', 'vllm-0.6', 'vllm', 'vllm', 'vllm']
    >>> [engine_of_era("trtllm", v, "hopper") for v in ("0.12.0.dev2024072302", "0.8.1.post1", "1.2.0rc2")]
    ['trtllm-0.12', 'trtllm', 'trtllm']
    """
    numbers = _NUMBERS.match(version.strip().lower())
    if not numbers or engine not in ERAS or generation in LATER:
        return engine
    first, after, key = ERAS[engine]
    return key if first <= (int(numbers[1]), int(numbers[2])) < after else engine


def engine_of(key: str) -> str:
    """The engine without its era.

    >>> engine_of("vllm-0.6"), engine_of("sglang")
    ('vllm', 'sglang')
    """
    return OF_KEY.get(key, key)
