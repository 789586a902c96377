"""GPUs that are told to draw less than they may: a setup's designs at each such limit, where a rack or zone
cannot hold all its GPUs as they come.

Offered on one class of nodes and with all weights on the GPUs: of others no step under a limit is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.candidates.ask import Ask
from planner.candidates.setup import Made


def limited(made: Made, ask: Ask) -> Iterator[Made]:
    """The setup as it comes, and at every limit of its class."""
    yield made
    if made.node is None or made.setup.model.stagings:
        return
    for watts in ask.power_limits.get(made.node.id, ()):
        own = replace(made.setup, model=made.setup.model.limited(watts))
        yield replace(made, key=replace(made.key, power=watts), setup=own)
