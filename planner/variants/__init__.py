"""What replicas of any kind may also be: an entry of `VARIANTS` each. A new variant is a file and its line.

A variant is a function from a setup that is offered to those that are offered in its place: itself, where the
variant only adds to it, and further ones, each under a key of its own. The one model of a server judges all,
so a variant says what a step takes and what memory holds, never what is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from planner.candidates.ask import Ask
from planner.candidates.setup import Made
from planner.variants.chunks import chunked
from planner.variants.drafts import drafted
from planner.variants.idle_cache import keeping
from planner.variants.limited import limited

Variant = Callable[[Made, Ask], Iterator[Made]]

VARIANTS: Final[tuple[Variant, ...]] = (drafted, keeping, chunked, limited)
"""Each is applied to what those before it made."""
