"""One replica of a made-up plan, with whatever a test changes of it."""

from __future__ import annotations

from typing import Any

from planner.launch.server import Server
from planner.plans.schema import Draft, Plan, Route, Tiered
from tests.exporters.samples import made, replica


def server(
    engine: str,
    role: str = "mixed",
    problem: dict[str, Any] | None = None,
    tiers: list[dict[str, Any]] | None = None,
    draft: str | None = None,
    told: dict[str, Any] | None = None,
    **sizes: Any,
) -> Server:
    """`problem`: parts of the problem put over the sample's; `tiers`: weights beside its GPUs; `draft`: the
    option that a drafter is asked for with; `told`: fields of the replica."""
    plan = made(replica("r1", engine, role, **sizes))
    beside = [Tiered(replica="r1", **{"tier": "host", "bytes": 1.0, **tier}) for tier in tiers or []]
    drafts = Draft(kind="eagle", tokens=3, accepted=1.5, weights_bytes=0, option=draft) if draft else None
    own = plan.replicas[0].model_copy(update={"draft": drafts, **(told or {})})
    update = {"problem": plan.problem.model_copy(update=problem or {}), "tiers": beside, "replicas": [own]}
    return Server(plan.model_copy(update=update), own)


def paired(s: Server, **sizes: int) -> Server:
    """The same as the decode side of a pair with a prefill replica of those sizes."""
    first = replica("p1", s.replica.engine, "prefill", **sizes)
    routes = [Route(bucket=0, share=1.0, prefill="p1", decode="r1")]
    plan: Plan = s.plan.model_copy(update={"replicas": [first, s.replica], "routing": routes})
    return Server(plan, s.replica)


def on_device(name: str, memory_gb: float) -> dict[str, Any]:
    """The sample's problem where its GPUs are of another size."""
    return {"devices": {"h200-sxm": {"name": name, "memory_gb": memory_gb, "vendor": "nvidia"}}}


def after(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]
