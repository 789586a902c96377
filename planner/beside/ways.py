"""What is told beside a plan, in this order. A way is a function of the planned fleet that yields lines, none
where it does not apply; it lives in a file of its own and goes with its line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planner.beside.alternatives import alternatives, other_phases
from planner.beside.assumptions import assumptions
from planner.beside.blocks import in_blocks
from planner.beside.cache_worth import lower_cache
from planner.beside.chains import chains
from planner.beside.checkpoints import checkpoints
from planner.beside.contexts import other_contexts
from planner.beside.long_prompts import long_prompts
from planner.beside.other_engines import other_engines
from planner.beside.over_nodes import cut_over_nodes
from planner.beside.peers import peer_to_peer
from planner.beside.pipelined_drafts import pipelined_drafts
from planner.beside.planned import Line, Planned
from planner.beside.prices import node_prices, prices
from planner.beside.rare_lengths import deciding_lengths
from planner.beside.risk import risk_price
from planner.beside.speculation import speculation
from planner.beside.unlike import unlike

Way = Callable[[Planned], Iterable[Line]]

WAYS: tuple[Way, ...] = (
    alternatives,
    speculation,
    pipelined_drafts,
    lower_cache,
    checkpoints,
    other_contexts,
    other_engines,
    cut_over_nodes,
    unlike,
    chains,
    in_blocks,
    risk_price,
    peer_to_peer,
    deciding_lengths,
    long_prompts,
    assumptions,
    prices,
)

BRIEF: tuple[Way, ...] = (other_phases, deciding_lengths, node_prices)
"""Those that a first screen shows."""
