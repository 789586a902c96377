"""What a launch line tells an engine that its times and its memory hang on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Told:
    """What a launch line tells an engine beside a design: the share of memory to take, in the engine's own
    sense of it (0: its default); tokens up to which it captures graphs of steps with prompts (None: its
    default, 0: of none)."""

    memory_share: float = 0.0
    graph_tokens: float | None = None


AS_USUAL: Final = Told()
