"""Requests in buckets, as arrays: what the servers of n designs are asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.cost.shape import Floats


@dataclass(frozen=True)
class Requests:
    """Of w buckets, shape (n, w) or (1, w): prompt tokens computed (`new`) and in all (`isl`), tokens of an
    answer (`osl`), share of all requests; the shares of a row add to one."""

    new: Floats
    isl: Floats
    osl: Floats
    share: Floats

    @property
    def decodes(self) -> Floats:
        """Mean decode steps of a request, E[osl - 1], (n,): the first token is the prompt's."""
        return self.mean(self.osl - 1)

    @property
    def prompt(self) -> Floats:
        """Mean prompt tokens to compute, (n,)."""
        return self.mean(self.new)

    @property
    def keys(self) -> Floats:
        """Tokens that a prompt token attends to on average, (n,): those found in the cache, and half of those
        computed."""
        return self.mean(self.isl - self.new / 2)

    @property
    def context(self) -> Floats:
        """Mean context of a decoding sequence, (n,): long answers are in the batch for longer; of prompts
        alone where nobody decodes.

        >>> one, none = np.array([[1000.0, 1000.0]]), np.array([[1.0, 1.0]])
        >>> long = Requests(one, one, np.array([[101.0, 301.0]]), 0.5 * none)
        >>> [round(float(x.context[0]), 1) for x in (long, Requests(one, one, none, 0.5 * none))]
        [1125.5, 1000.0]
        """
        steps = self.decodes
        decoding = self.mean((self.osl - 1) * (self.isl + self.osl / 2)) / np.maximum(steps, 1e-9)
        return np.where(steps > 0, decoding, self.mean(self.isl))

    def mean(self, values: Floats) -> Floats:
        """Over requests, (n,)."""
        return np.asarray((self.share * values).sum(axis=-1))
