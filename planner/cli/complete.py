"""What a shell offers for values: names of models, GPUs and workloads, read off file names to be quick."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

PRESETS = ("chat", "code", "rag", "agent", "reasoning", "long-context", "batch", "offline")
"""As `planner/inputs/presets.py` has them, which takes long to load."""


def models(incomplete: str) -> Iterator[str]:
    """Models of the zoo that begin so."""
    yield from (name for name in _names("model_zoo", "cards") if name.startswith(incomplete.lower()))


def gpus(incomplete: str) -> Iterator[str]:
    """ "8xh1" → 8xh100-sxm, …: GPUs after a count, behind what stands before."""
    before, comma, part = incomplete.rpartition(",")
    told = re.fullmatch(r"(?:(\d+)x?)?(.*)", part)
    count, begun = (told[1] or "8", told[2]) if told else ("8", part)
    for name in _names("cluster_configs", "devices"):
        if name.startswith(begun.lower()):
            yield f"{before}{comma}{count}x{name}"


def workloads(incomplete: str) -> Iterator[str]:
    """Presets, then YAML files here."""
    yield from (name for name in PRESETS if name.startswith(incomplete))
    yield from clusters(incomplete)


def _names(package: str, folder: str) -> list[str]:
    return sorted(entry.name.removesuffix(".yaml") for entry in (files(package) / folder).iterdir())


def clusters(incomplete: str) -> Iterator[str]:
    """YAML files here, and folders on the way to some."""
    split = incomplete.rfind("/") + 1
    for path in sorted(Path(incomplete[:split] or ".").glob(f"{incomplete[split:]}*")):
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in (".yaml", ".yml", ".json"):
            yield str(path)
