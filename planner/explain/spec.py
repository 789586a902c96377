"""What a design is asked to be: "tp=8", "tp=4 pp=2 engine=vllm", "role=mixed device=l40s"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from planner.candidates.candidate import Candidate, Design
from planner.engines import NAMES
from planner.errors import InputError, nearest, squash

SIZES: Final[Mapping[str, str]] = {
    **{"tp": "tp", "pp": "pp", "dp": "attn_dp", "attn_dp": "attn_dp"},
    **{"ep": "ep", "moe_tp": "moe_tp", "cp": "cp"},
}
"""Words for the sizes of a design."""

ROLES: Final = ("mixed", "split")
"""Whether servers do both phases, or only one each."""

WORDS: Final = (*SIZES, "engine", "role", "device")
MOST = 4096
"""GPUs of a size at most."""


@dataclass(frozen=True)
class Spec:
    """Sizes by name, and where they are told an engine, a role and a device; `text` as it was written."""

    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    engine: str | None = None
    role: str | None = None
    device: str | None = None

    def design(self, d: Design) -> bool:
        """Whether a design has these sizes, in all of its stages."""
        return all(getattr(d, name) == size for name, size in self.sizes.items())

    def candidate(self, c: Candidate, device: str) -> bool:
        """Whether a candidate on a `device` is so."""
        split = c.role != "mixed"
        return (
            self.design(c.design)
            and self.engine in (None, c.engine)
            and self.role in (None, "split" if split else "mixed")
            and self.device in (None, squash(device))
        )


def parse(text: str) -> Spec:
    """A design in words. Raises InputError, with the nearest spelling.

    >>> spec = parse("tp=8, engine=vllm")
    >>> dict(spec.sizes), spec.engine
    ({'tp': 8}, 'vllm')
    """
    sizes, told = dict[str, int](), dict[str, str]()
    for part in text.replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals or not value or name not in WORDS:
            close = ", ".join(f"`{w}`" for w in nearest(name, WORDS, 3))
            raise InputError(
                f"`{part[:60]}` is not NAME=VALUE of a design",
                "--why-not",
                f"nearest: {close}; as in --why-not 'tp=8 engine=vllm'",
            )
        if name in SIZES:
            sizes[SIZES[name]] = _size(part, value)
        else:
            told[name] = _word(name, value)
    if not sizes and not told:
        raise InputError("name a design", "--why-not", "as in --why-not 'tp=8 engine=vllm'")
    return Spec(" ".join(text.replace(",", " ").split()), sizes, **told)


def _size(part: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= MOST or len(value) > 9:
        raise InputError(f"`{part[:60]}`: a size is a whole number from 1 to {MOST:,}", "--why-not")
    return int(value)


def _word(name: str, value: str) -> str:
    """An engine or role that is known; of a device any spelling."""
    if name == "device":
        return squash(value)
    known = NAMES if name == "engine" else ROLES
    if value not in known:
        hint = f"did you mean `{nearest(value[:60], known, 1)[0]}`? {name}s: {', '.join(known)}"
        raise InputError(f"unknown {name} `{value[:60]}`", "--why-not", hint)
    return value
