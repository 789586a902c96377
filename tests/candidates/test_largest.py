"""The largest load at which a promise is kept, also where less load does not keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.candidates import largest as module
from planner.candidates.candidate import Key
from planner.candidates.largest import largest
from planner.candidates.points import Points, batched
from planner.candidates.setup import Setup
from planner.designs.shape import Ints
from planner.inputs.workload import Bucket
from planner.question.asked import read
from planner.question.posed import pooled
from tests.candidates.samples import CHAT, ask, one_setup


def test_a_percentile_of_tpot_may_be_kept_only_by_more_load():
    """Answers of 12 tokens, whose limit is kept up to 3.1 sequences as well: at 3.6 the 95th percentile is
    too long, at 4.3 it is not, and with 4.6 there is no end of waiting."""
    load = {"isl": 20_000, "osl": 12, "ttft_ms": "none", "tpot_ms": 135, "percentile": "p95", "rate": 0.1}
    asked = read(None, "llama-3.1-8b", "8xh100", "chat", load, {"engine": "vllm", "risk": 0.5})
    pool, _ = pooled(asked)
    s = pool.made[Key("h100-sxm", "vllm")].setup
    d = s.designs
    plain = (d.attn_dp == 1) & (d.ep == 1) & (d.redundant == 0) & (d.cp == 1)
    one = np.flatnonzero((d.tp == 4) & (d.pp == 1) & plain)[:1]
    slow = [batched(s, one, np.array([x]), "mixed").slow.max() for x in (3.6, 4.3, 4.6)]
    low, high = largest(s, one, [("mixed", s.promise.tpot_s)])

    assert slow[0] > 0 > slow[1]
    assert slow[2] > 0
    assert 4.3 < low.min() <= high.max() < 4.6


def test_buckets_that_one_limit_binds_are_looked_at_together(monkeypatch: pytest.MonkeyPatch):
    """Of six prompts alike, with answers of six lengths, one TPOT is the limit of all."""
    buckets = [Bucket(isl=1000, osl=100 + 10 * i, share=1.0) for i in range(6)]
    s = one_setup(ask(workload=CHAT.model_copy(update={"buckets": buckets})), gpus="1xH100")
    asked, rows = batched, list[int]()

    def counted(s: Setup, index: Ints, *more: Any) -> Points:
        rows.append(len(index))
        return asked(s, index, *more)

    monkeypatch.setattr(module, "batched", counted)
    low, _ = largest(s, s.fitting[:1], [("mixed", s.promise.tpot_s)])

    assert len({f"{x:.9g}" for x in low.ravel()}) == 1
    assert max(rows[1:]) == 1
