"""Designs that the planner would not offer: rows of a table may name any, and are answered all the same."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.eras import engine_of
from planner.predict.loads import Group
from planner.predict.rows import Row
from planner.rules.designs import why_invalid
from planner.rules.devices import picks_entries, why_unsupported
from planner.rules.pairs import Cached, Side, no_role


def refusals(group: Group, rows: Sequence[Row]) -> list[str]:
    """Of each row why the engine, by its rules of the planner, does not start such a design, or "". The rows
    differ only in parallelism, lengths and load."""
    device, engine, used = group.node_class.device, engine_of(group.engine), group.used
    picks = picks_entries(group.card)
    common = why_unsupported(device, engine, used, group.card.moe, picks)
    known: dict[tuple[int, ...], str] = {}
    for row in rows:
        shape = _shape(row)
        if shape not in known:
            known[shape] = common or _of_design(group, engine, shape, bool(row.stages)) or ""
    return [f"the planner offers no such design: {why}" if (why := known[_shape(r)]) else "" for r in rows]


def _shape(row: Row) -> tuple[int, ...]:
    return row.tp, row.pp, row.attn_dp, row.moe_tp or 1, row.ep or 1, row.cp, len(row.stages)


def _of_design(group: Group, engine: str, shape: tuple[int, ...], unlike: bool) -> str | None:
    """By the rules of designs and of roles; of unlike stages by roles alone."""
    tp, pp, attn_dp, moe_tp, ep, cp, _ = shape
    reason = None if unlike else why_invalid(group.card, engine, tp, pp, attn_dp, moe_tp, ep, group.used, cp)
    side = Side.of(engine, group.node_class.device, (tp, pp, attn_dp, cp), group.used)
    return reason or no_role(group.role, side, Cached.of(group.card))
