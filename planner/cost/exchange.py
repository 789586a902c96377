"""Tokens of groups of ranks to the experts of others and back, and what of it hides behind computing.

Tokens are gathered by all, or sent where they go; the faster. Where ranks lie beyond one scale-up domain and
the engine is started with DeepEP (`Engine.sends_wide`, planner/launch) they are sent:

- With prompts by its normal kernels: a copy to each node of a token's experts passes the NICs and is handed
  on inside the node in the same pipeline, so the slower of both links counts.
- Without by its low-latency kernels: a copy to each expert, over the NICs or inside the node, at once.
- Two batches take turns (SGLang `--enable-two-batch-overlap`, vLLM `--enable-dbo`): the one's tokens travel
  while the other is computed. A layer of both takes twice the longer of half a batch's parts. Normal kernels
  take SMS of the GPU's multiprocessors meanwhile, low-latency ones none. Where halves are too small to gain,
  a batch stays whole, as vLLM's thresholds have it.

Sources: DeepEP's README (kernels; 20 of 132 multiprocessors; 43 to 58 GB/s of a 50 GB/s NIC); DeepSeek-V3
(arXiv 2412.19437, 3.2 and 3.4); SGLang's large-scale expert parallelism (LMSYS, May 2025: 27 to 35 % more
prompt tokens by two batches).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import MoeFfn
from planner.cost.communication import Links
from planner.designs.shape import Designs, Floats

SMS: Final = 20 / 132
"""Share of the multiprocessors that DeepEP's normal kernels take on Hopper."""

SENT, RETURNED = 1.0, 2.0
"""Bytes of an element on its way to an expert, in 8 bits, and back, in 16."""


@dataclass(frozen=True)
class Exchange:
    """Messages between experts' ranks over one device's links; `able`: by an engine that has DeepEP for
    it."""

    links: Links
    able: bool

    def apart(self, designs: Designs) -> NDArray[np.bool_]:
        """Designs (n,) whose whole experts lie beyond one scale-up domain, and are sent to."""
        wide = (designs.tp * designs.groups > self.links.domain) & (designs.groups > 1)
        return np.asarray(wide & (designs.ep > 1) & (designs.moe_tp == 1) & self.able)

    def seconds(
        self, ffn: MoeFfn, hidden: int, rows: Floats, designs: Designs, prompts: NDArray[np.bool_]
    ) -> Floats:
        """Seconds to send `rows` tokens a group of ranks to their experts and back, (n,)."""
        gpus, mine = designs.tp * designs.groups, rows / designs.tp
        apart = self.apart(designs)
        bulk = prompts | ~apart
        sent = np.zeros(len(designs))
        for way, size in (("dispatch", SENT), ("combine", RETURNED)):
            token_bytes = np.full(len(designs), size * hidden)
            sent += self.links.exchange_s(mine, token_bytes, ffn.top_k, gpus, way, apart, bulk)
        gathered = 2 * self.links.all_gather_s(rows * designs.groups * RETURNED * hidden, gpus)
        faster = np.where(designs.ep > 1, np.minimum(gathered, sent), gathered)
        return np.asarray(np.where(apart, sent, faster), dtype=np.float64)


def taking_turns(whole: Floats, computed: Floats, sent: Floats, prompts: NDArray[np.bool_]) -> Floats:
    """Seconds of a layer, (n,), of which `whole` are those of an undivided batch, `computed` and `sent` those
    of half a batch.

    >>> one = np.ones(1)
    >>> taking_turns(3 * one, one, one, one < 0), taking_turns(1.5 * one, one, one, one < 0)
    (array([2.]), array([1.5]))
    """
    busy = computed / np.where(prompts, 1 - SMS, 1.0)
    return np.asarray(np.minimum(whole, 2 * np.maximum(busy, sent)))
