"""Groups that rest on the user's own table: their rates, GPUs and watts are counted again from its rows.

Such a group states no step times, so roofline, weights and queueing have nothing to say of it; instead no
replica may be busier than the table allows: requests/s over the rate that the replica sustains of that
bucket alone, added up over buckets, at most one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster_configs.schema import NodeClass
from planner.check.case import Case, gpus_of
from planner.check.violation import EXACT, MODEL, Violation, at_most, same
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Bucket
from planner.plans.schema import Replica


def violations(case: Case) -> Iterator[Violation]:
    """Everything that the table does not say."""
    for index, replica in enumerate(case.plan.replicas):
        if case.measured(replica):
            design = case.table.designs.get(replica.id)
            rows = [row for row in case.table.profile if row.design == design]
            where = f"replicas[{index}]"
            if rows:
                yield from _design(case, replica, rows[0], where)
                yield from _busy(case, replica, rows, where)
            else:
                text = f"the embedded table has no design `{design}`" if design else "no design is named"
                yield Violation("not_in_profile", where, text)


def _design(case: Case, replica: Replica, row: ProfileRow, where: str) -> Iterator[Violation]:
    """Device, GPUs, role and watts are the row's."""
    gpus = gpus_of(replica)
    if gpus != row.gpus or replica.role != row.role:
        text = f"{replica.role} on {gpus} GPUs, the table measured {row.role} on {row.gpus}"
        yield Violation("not_as_measured", where, text)
    for stage in replica.stages:
        if stage.device != row.device:
            yield Violation("not_as_measured", where, f"on {stage.device}, measured on {row.device}")
    if row.watts is not None and not same(replica.watts, row.watts):
        yield Violation("not_as_measured", f"{where}.watts", f"{replica.watts:g} W, measured {row.watts:g} W")


def _busy(case: Case, replica: Replica, rows: Sequence[ProfileRow], where: str) -> Iterator[Violation]:
    """The share of their time that the replicas are busy, by the table."""
    busy = 0.0
    for bucket, rate in case.loads[replica.id].buckets:
        alone = _alone_rps(rows, bucket)
        if not alone:
            text = f"its rows say nothing of isl {bucket.isl}, osl {bucket.osl}"
            yield Violation("bucket_not_measured", where, text)
            return
        busy += rate / alone / replica.count
    if not at_most(busy, 1.0, EXACT):
        text = f"its requests take {busy:.6g} times what the table says it sustains"
        yield Violation("rate_above_profile", where, text)
    if "utilisation" in replica.model_fields_set and not same(replica.utilisation, busy, MODEL):
        text = f"{replica.utilisation:.4g}, by the table {busy:.4g}"
        yield Violation("utilisation_wrong", f"{where}.utilisation", text)


def _alone_rps(rows: Sequence[ProfileRow], bucket: Bucket) -> float:
    """Requests/s of the bucket alone: what the narrowest row that covers it says, of equals the least."""
    covering = (r for r in rows if r.covers(bucket.isl, bucket.osl))
    ranked = (((r.isl_max - r.isl_min + 1) * (r.osl_max - r.osl_min + 1), r.max_rps) for r in covering)
    return min(ranked, default=(0, 0.0))[1]


def usd_per_hour(case: Case, node_class: NodeClass) -> float | None:
    """What the class's replicas cost by the table; None where it prices no design on this device.

    A design without a price beside one that has one pays its share of the node.
    """
    mine = [r for r in case.plan.replicas if any(s.node_class == node_class.id for s in r.stages)]
    rows = [row for row in case.table.profile if row.device == node_class.device.name]
    prices = {row.design: row.price_usd_per_hour for row in rows}
    if not mine or not all(case.measured(r) for r in mine) or all(p is None for p in prices.values()):
        return None
    total = 0.0
    for replica in mine:
        own = prices.get(case.table.designs.get(replica.id, ""))
        share = gpus_of(replica) / node_class.gpus_per_node
        total += replica.count * (own if own is not None else share * (node_class.price_usd_per_hour or 0.0))
    return total
