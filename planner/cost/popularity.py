"""Experts' loads, as far as steps depend on them: how full the fullest of `ep` ranks is on average.

The fullest rank sets the step. Without a report of loads, experts are as popular as a law says, and a rank
holds those next to each other in the checkpoint: as full as the largest of `ep` Gaussians, each the mean of
E/ep loads. With copies of experts (`redundant`) the engine's balancer places them by the loads it has seen;
what that leaves is for a solver to say (`planner/problems/balance.py`), here: nothing.
"""

from __future__ import annotations

import numpy as np

from planner.designs.shape import Designs, Floats

SPREAD = 0.6
"""Standard deviation of experts' popularity around its mean, as a share of the mean, without a load report:
makes the fullest of 8 ranks of 128 experts 1.3 times the mean; measured kernels take 1.2-1.8 times as long at
power-law 1.2."""

MANY = 1 << 20


class Popularity:
    """Loads by the law; copies balance them wholly. `tokens` (steps, layers, experts): recorded loads."""

    source = "assumed"
    tokens: Floats | None = None

    def hottest(self, experts: int, ep: int, redundant: int) -> float:
        """Tokens of the fullest rank over the mean rank's, mean over layers.

        >>> round(Popularity().hottest(256, 8, 0), 2), Popularity().hottest(256, 8, 8)
        (1.2, 1.0)
        """
        return 1.0 if redundant else self.in_order(experts, ep)

    def in_order(self, experts: int, ep: int) -> float:
        """Times the mean that the fullest rank is busy where nothing balances: each rank holds the next
        experts of the checkpoint."""
        return float(1 + np.sqrt(2 * np.log(ep) * SPREAD**2 * (ep - 1) / experts))

    def of(self, experts: int, designs: Designs) -> Floats:
        """`hottest` of each design, shape (n,)."""
        kinds, at = np.unique(designs.ep * MANY + designs.redundant, return_inverse=True)
        return np.array([self.hottest(experts, *divmod(int(kind), MANY)) for kind in kinds])[at]
