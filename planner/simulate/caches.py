"""Prefix caches of servers, block by block: what of a prompt was computed here before, and is still there.

A server keeps the blocks of the prompts that it has computed until others need the room: least recently used
first, of a prompt its last blocks first. Room is what requests in work leave of the KV cache (their own
prompts are in both and count once), and `beside` it, where cache is kept outside GPU memory too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from planner.designs.shape import Ints


@dataclass(frozen=True, eq=False)
class Blocks:
    """What prompts are made of: ids (`block[start[i] : end[i]]` of request i, in order) of blocks of so many
    `tokens`; equal ids mean equal tokens up to and including the block."""

    block: Ints
    start: Ints
    end: Ints
    tokens: int

    def of(self, request: int) -> list[int]:
        """Ids of a prompt's blocks."""
        found: list[int] = self.block[self.start[request] : self.end[request]].tolist()
        return found


class PrefixCache:
    """That of one server. `found_tokens` of `asked_tokens` of all prompts were in it."""

    def __init__(self, blocks: Blocks, isl: Sequence[int], beside: int = 0) -> None:
        self.blocks, self.isl, self.beside = blocks, isl, beside
        self.held: OrderedDict[int, None] = OrderedDict()
        self.pinned: dict[int, int] = {}  # blocks of prompts in work
        self.pinned_blocks = 0
        self.found_tokens = self.asked_tokens = 0

    def match(self, request: int) -> int:
        """Tokens at the beginning of a prompt that are here."""
        found, held = 0, self.held
        for b in self.blocks.of(request):
            if b not in held:
                break
            found += 1
        return min(found * self.blocks.tokens, self.isl[request] - 1)

    def enter(self, request: int, room_tokens: float) -> int:
        """Prompt tokens that are computed of a request that enters now: one at least."""
        self._shrink(room_tokens)
        found = self.match(request)
        self.found_tokens += found
        self.asked_tokens += self.isl[request]
        return self.isl[request] - found

    def done(self, request: int, room_tokens: float) -> None:
        """A prompt is computed: its blocks are the last used of all, the first ones last."""
        own = self.blocks.of(request)
        self.pinned_blocks += len(own) - self.pinned.get(request, 0)
        self.pinned[request] = len(own)
        for b in reversed(own):
            self.held[b] = None
            self.held.move_to_end(b)
        self._shrink(room_tokens)

    def left(self, request: int) -> None:
        """A request is no longer in work."""
        self.pinned_blocks -= self.pinned.pop(request, 0)

    def _shrink(self, room_tokens: float) -> None:
        most = room_tokens / self.blocks.tokens + self.pinned_blocks + self.beside
        while len(self.held) > max(most, 0):
            self.held.popitem(last=False)
