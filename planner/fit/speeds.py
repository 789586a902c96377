"""Tokens a second of readers on replicas that fit, by the model that answers `predict`
(`planner/predict/predictions.py`), in its steady state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster_configs.schema import NodeClass
from planner.fit.fits import Ask, ClassFit, Row
from planner.fit.grid import copies
from planner.predict.loads import Group
from planner.predict.predictions import predict_group
from planner.predict.rows import parse

ANSWER = 256
"""Tokens that a reader gets, at the end of the context asked for: `predict`'s own default."""


@dataclass(frozen=True)
class Speed:
    """`readers` at once share the `replicas` that the nodes hold; figures are those of each reader.
    `tok_per_s` counts from the first token on, `ttft_s` is the time to it."""

    readers: int
    isl: int
    osl: int
    replicas: int
    tok_per_s: float
    ttft_s: float


def speeds(ask: Ask, node: NodeClass, part: ClassFit, readers: int) -> dict[Row, Speed]:
    """Every parallelism of the class that holds so many readers of the asked context, quickest first."""
    able = [
        (row, count)
        for row in part.rows
        if row.fits and (count := copies(row.gpus, node)) * row.concurrency >= readers
    ]
    if not able or part.engine is None:
        return {}
    answer = max(1, min(ANSWER, ask.tokens // 2))
    prompt = max(1, ask.tokens - answer)
    rows = [
        parse(
            {
                "model": ask.card.name,
                "device": node.id,
                "concurrency": str(math.ceil(readers / count)),
                **{name: str(getattr(row, name)) for name in ("tp", "pp", "attn_dp", "moe_tp", "ep")},
                "isl": str(prompt),
                "osl": str(answer),
                "start": "steady",
            }
        )
        for row, count in able
    ]
    found = predict_group(Group(ask.card, node, part.engine, "mixed", ask.used), rows, None)
    timed = {
        row: Speed(readers, prompt, answer, count, 1e3 / one.tpot_ms, one.ttft_ms / 1e3)
        for (row, count), one in zip(able, found, strict=True)
        if one.tpot_ms and one.ttft_ms
    }
    return dict(sorted(timed.items(), key=lambda item: (-item[1].tok_per_s, item[0].gpus)))
