"""Kinds of replica: an entry of `KINDS` each. A new kind is a file here and its line; without its line the
others still plan."""

from __future__ import annotations

from typing import Final

from planner.replicas import (
    alike,
    attention_apart,
    host_memory,
    several_hosts,
    uneven_heads,
    unlike_stages,
)
from planner.replicas.kind import Kind

KINDS: Final = (
    Kind("alike", alike.made),
    Kind("host memory", host_memory.made),
    Kind("several hosts", several_hosts.made),
    Kind("unlike stages", unlike_stages.made, several=True),
    Kind("uneven heads", uneven_heads.made, several=True),
    Kind("attention apart", attention_apart.made, several=True),
)
