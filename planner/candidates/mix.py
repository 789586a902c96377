"""What is asked of every candidate as arrays: the mix of requests, and the promise in seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from planner.candidates.idle_cache import Keep
from planner.designs.shape import Floats
from planner.inputs.workload import LIMITS, Percentile, Slo, Workload
from planner.operating.requests import Requests, computed


@dataclass(frozen=True)
class Mix:
    """Buckets as arrays (w,): prompt tokens computed and in all, output tokens, share; `held` = output tokens
    an engine that reserves for the worst case must reserve for; `own` = prompt tokens that a sequence alone
    has room for; `emitted` = tokens that a decode step gives a sequence."""

    new: Floats
    isl: Floats
    osl: Floats
    share: Floats
    held: Floats
    own: Floats
    emitted: float = 1.0

    @staticmethod
    def of(workload: Workload, keep: Keep | None = None, emitted: float = 1.0) -> Mix:
        """The mix of a workload. What a prefix cache finds counts for nobody; what `keep` finds each replica
        holds by itself, but for beginnings that are shared."""
        isl = np.array([b.isl for b in workload.buckets], dtype=float)
        osl = np.array([b.osl for b in workload.buckets], dtype=float)
        new = computed(isl, workload.prefix_hit * isl if keep is None else keep.found)
        own = new if keep is None else np.maximum(isl - keep.shared, 1.0)
        held = np.maximum(osl, float(workload.max_osl)) if workload.max_osl else osl
        return Mix(new, isl, osl, np.array(workload.shares), held, own, emitted)

    def only(self, w: int) -> Mix:
        """Bucket `w` alone."""
        share = np.zeros_like(self.share)
        share[w] = 1.0
        return replace(self, share=share)

    @property
    def decodes(self) -> Floats:
        """Decode steps of a request, (osl - 1) / emitted."""
        return (self.osl - 1) / self.emitted

    @property
    def steps(self) -> float:
        """Mean decode steps of a request."""
        return float(self.share @ self.decodes)

    @property
    def prompt(self) -> float:
        """Mean prompt tokens to compute."""
        return float(self.share @ self.new)

    @property
    def in_steps(self) -> float:
        """The context at which steps are timed where answers have as many tokens as they take steps
        (`planner.operating.steps.decoding_steps`)."""
        return self.context if self.emitted == 1 else float(self.requests.in_steps.context[0])

    @property
    def requests(self) -> Requests:
        """One row of requests, as all servers get the same mix."""
        return Requests(self.new[None], self.isl[None], self.osl[None], self.share[None], self.emitted)

    @property
    def context(self) -> float:
        """Mean context of a decoding sequence, length-biased: long outputs are in the batch for longer."""
        if self.steps == 0:
            return float(self.share @ self.isl)
        return float(self.share @ (self.decodes * (self.isl + self.osl / 2))) / self.steps


UNHURRIED_S = 1e6
"""Limit on a first token that is kept at whatever load has a queue with an end."""


@dataclass(frozen=True)
class Promise:
    """The SLO in seconds as the cautious prediction must keep it, and how load arrives."""

    ttft_s: float
    tpot_s: float
    percentile: Percentile
    loop: Literal["open", "closed"]

    @staticmethod
    def of(slo: Slo, loop: Literal["open", "closed"]) -> Promise:
        """Of limits in milliseconds."""
        ttft, tpot = (slo.limits.get(name, np.inf) / 1e3 for name in LIMITS)
        return Promise(ttft, tpot, slo.percentile, loop)
