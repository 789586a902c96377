"""Where requests go: every bucket is served whole, by groups that exist, in the roles they have, or by the
chains."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check.case import Case
from planner.check.violation import EXACT, Violation, same
from planner.plans.schema import Replica, Route


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the routing."""
    buckets = len(case.workload.buckets)
    for number, route in enumerate(case.plan.routing):
        where = f"routing[{number}]"
        if not 0 <= route.bucket < buckets:
            yield Violation("unknown_bucket", f"{where}.bucket", f"bucket {route.bucket} of {buckets}")
        yield from _ends(case, route, where)
    for bucket in range(buckets):
        total = sum(route.share for route in case.plan.routing if route.bucket == bucket)
        if not same(total, 1.0, EXACT):
            text = f"shares of bucket {bucket} add up to {total:.7g}, not 1"
            yield Violation("shares", "routing", text)


def _ends(case: Case, route: Route, where: str) -> Iterator[Violation]:
    """Either one group that does both phases, or one for each, or the chains."""
    named = (route.replica is not None, route.prefill is not None, route.decode is not None, route.chains)
    if named not in ((True, False, False, False), (False, True, True, False), (False, False, False, True)):
        text = "needs either `replica`, or `prefill` and `decode`, or `chains`"
        yield Violation("route_ends", where, text)
    for field, name, roles in (
        ("replica", route.replica, ("mixed",)),
        ("prefill", route.prefill, ("prefill",)),
        ("decode", route.decode, ("decode",)),
    ):
        if name is None:
            continue
        group = case.groups.get(name)
        if group is None:
            yield Violation("unknown_replica", f"{where}.{field}", f"there is no group {name}")
        elif group.role not in roles:
            yield Violation(
                "wrong_role", f"{where}.{field}", f"{name} is {group.role}, not {' or '.join(roles)}"
            )
    if route.prefill is not None and route.decode is not None:
        yield from _pair(case.groups.get(route.prefill), case.groups.get(route.decode), where)


def _pair(prefill: Replica | None, decode: Replica | None, where: str) -> Iterator[Violation]:
    """Both ends read the same cache: one engine, one KV precision."""
    if prefill is None or decode is None:
        return
    if prefill.engine != decode.engine:
        yield Violation("pair_disagrees", where, f"engines {prefill.engine} and {decode.engine}")
    if prefill.precision.kv != decode.precision.kv:
        text = f"KV precisions {prefill.precision.kv} and {decode.precision.kv}"
        yield Violation("pair_disagrees", where, text)
