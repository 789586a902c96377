"""What servers are asked: requests in buckets, as arrays, and the terms on which they are served."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.queueing import Loop, Percentile, Role


def computed(isl: Floats, found: Floats) -> Floats:
    """Tokens of prompts of `isl` that are computed where `found` of them are in the cache on average: the
    last one always. A mean, so parts of a token count; but not rounding errors, as steps are counted whole.

    >>> computed(np.array([128.0, 17.0]), np.array([126.72, 16.83])).tolist()
    [1.28, 1.0]
    """
    return np.asarray(np.maximum(np.round(isl - found, 6), 1.0))


@dataclass(frozen=True)
class Requests:
    """Requests of w buckets, shape (n, w) or (1, w): prompt tokens computed (`new`) and in all (`isl`),
    tokens of an answer (`osl`), share of all requests; the shares of a row add to one. `emitted` (n, 1), or
    one for all: tokens that a decode step gives a sequence, more than one where drafted ones are accepted.
    `receive_steps` (n,), or one for all: decode steps between two looks of the engine at what has come."""

    new: Floats
    isl: Floats
    osl: Floats
    share: Floats
    emitted: Floats | float = 1.0
    receive_steps: Floats | float = 1.0

    @cached_property
    def in_steps(self) -> Requests:
        """The same as if each step gave one token: answers of as many tokens as they take steps, and one."""
        return replace(self, osl=1 + (self.osl - 1) / self.emitted, emitted=1.0)

    @cached_property
    def decodes(self) -> Floats:
        """Mean decode steps of a request, E[osl - 1] / emitted, (n,): the first token is the prompt's."""
        return self.mean((self.osl - 1) / self.emitted)

    @cached_property
    def prompt(self) -> Floats:
        """Mean prompt tokens to compute, (n,)."""
        return self.mean(self.new)

    @cached_property
    def keys(self) -> Floats:
        """Tokens that a prompt token attends to on average, (n,): those found in the cache, and half of those
        computed."""
        return self.mean(self.isl - self.new / 2)

    @cached_property
    def context(self) -> Floats:
        """Mean context of a decoding sequence, (n,): long answers are in the batch for longer; of prompts
        alone where nobody decodes.

        >>> one, none = np.array([[1000.0, 1000.0]]), np.array([[1.0, 1.0]])
        >>> long = Requests(one, one, np.array([[101.0, 301.0]]), 0.5 * none)
        >>> [round(float(x.context[0]), 1) for x in (long, Requests(one, one, none, 0.5 * none))]
        [1125.5, 1000.0]
        """
        tokens = self.mean(self.osl - 1)
        decoding = self.mean((self.osl - 1) * (self.isl + self.osl / 2)) / np.maximum(tokens, 1e-9)
        return np.where(tokens > 0, decoding, self.mean(self.isl))

    def mean(self, values: Floats) -> Floats:
        """The mean of `values` (n, w) over all requests, by their shares: (n,)."""
        return np.asarray(np.add.reduce(self.share * values, axis=-1))

    def only(self, w: int) -> Requests:
        """The requests of bucket `w` alone."""
        new, isl, osl = (x[:, w : w + 1] for x in (self.new, self.isl, self.osl))
        return replace(self, new=new, isl=isl, osl=osl, share=np.ones((1, 1)))

    def take(self, index: Ints) -> Requests:
        """Requests of the servers at `index` (repeats allowed)."""
        each = (getattr(self, field.name) for field in fields(self))
        return Requests(*(x if np.ndim(x) == 0 else np.asarray(x)[index] for x in each))


@dataclass(frozen=True)
class Terms:
    """What servers do, with so many tokens a micro-batch at most ((n,) or one for all); times at which
    percentile, and how requests arrive: at random ("open") or as soon as one ends ("closed"). `computed`:
    tokens of a sequence in a decode step, drafted ones with its own."""

    role: Role
    token_budget: Floats | float
    percentile: Percentile = "mean"
    loop: Loop = "closed"
    computed: Floats | float = 1.0
