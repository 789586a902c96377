"""Decode steps that a first token waits beside the queue, by what a launch line tells the engine.

Sources: TensorRT-LLM llmapi/llm_args.py (`batch_wait_timeout_iters`, `attention_dp_config`) with public runs
with and without them; SGLang server_args.py (`--scheduler-recv-interval`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.cost.eras import engine_of
from planner.designs.shape import Floats, Ints
from planner.engines import named
from planner.predict.rows import Row


def held_back(engine: str, rows: Sequence[Row], ranks: Ints, sequences: Floats, osl: Floats) -> Floats:
    """Steps of each row's server, (n,): those for which prompts are kept for others, half of those between
    two looks at new requests, and what attention-dp ranks wait for each other. `sequences` of a rank."""
    usual = named(engine_of(engine)).balance_steps
    most = [r.balance_steps if r.balance_steps is not None else usual * (r.start == "at_once") for r in rows]
    told = np.array([r.wait_steps + r.receive_steps / 2 for r in rows])
    return np.asarray(told + balanced_steps(np.array(most, dtype=np.float64), ranks, sequences, osl))


def balanced_steps(most: Floats, ranks: Ints, sequences: Floats, osl: Floats) -> Floats:
    """Decode steps that a prompt waits on average, (n,), where attention-dp ranks hold prompts back until
    each has one, for `most` steps. A rank's `sequences` end one every osl / sequences steps, so all `ranks`
    have one after H(ranks) times that (the coupon collector's last coupon); prompts come evenly meanwhile.

    >>> balanced_steps(np.array([60.0]), np.array([4]), np.array([64.0]), np.array([922.0])).round(1)
    array([15.])
    """
    harmonic = np.array([sum(1 / i for i in range(1, int(r) + 1)) for r in ranks])
    all_have = harmonic * osl / np.maximum(sequences, 1e-9)
    return np.where(ranks > 1, np.minimum(most, all_have) / 2, 0.0)
