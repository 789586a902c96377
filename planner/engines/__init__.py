"""The serving engines, one file each. A new one is its file and its line here."""

from __future__ import annotations

from typing import Final

from planner.engines.engine import Engine
from planner.engines.llama_cpp import LLAMA_CPP
from planner.engines.sglang import SGLANG
from planner.engines.trtllm import TRTLLM
from planner.engines.vllm import VLLM
from planner.errors import InputError

ENGINES: Final[tuple[Engine, ...]] = (VLLM, SGLANG, TRTLLM, LLAMA_CPP)

NAMES: Final = tuple(engine.name for engine in ENGINES)


def named(name: str) -> Engine:
    """The engine of a name, or an InputError that lists those known."""
    found = next((engine for engine in ENGINES if engine.name == name), None)
    if found is None:
        raise InputError(f"unknown engine `{name}`", hint=f"one of: {', '.join(NAMES)}")
    return found
