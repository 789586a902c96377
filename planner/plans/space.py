"""What the bound speaks of: which designs, at which loads, and every cap that is in force."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from planner.candidates.ask import CHUNKS, LONG
from planner.candidates.columns import FEW
from planner.candidates.largest import MOST_SEQUENCES
from planner.candidates.setup import Made
from planner.plans.found import Found
from planner.plans.schema import OUT_OF_TIME, Cap, Space
from planner.problems.feeds import SHARES
from planner.question.asked import Asked
from planner.replicas.alike import MOST_GPUS
from planner.replicas.pool import Pool
from planner.replicas.several_hosts import MOST_NODES, SEQUENCES
from planner.replicas.unlike_stages import SHORTLIST
from solvers.fleet import nodes as fleet_nodes
from solvers.fleet import survive as fleet_survive

NEAR = 1 - 1e-6
"""Share of a cap from which on it holds a server."""


ROUTES = "fleets every route of which keeps the limits by itself, not only all requests of a bucket together"
"""What the bound speaks of where means over routes were not looked at."""


def space_of(asked: Asked, found: Found) -> Space:
    """The space of a solved fleet; complete where no cap leaves anything out."""
    caps = list(_caps(asked, found))
    return Space(
        considered=found.pool.considered,
        kept=len(found.space.columns),
        complete=not any(cap.binds for cap in caps),
        what=words(asked, found),
        caps=caps,
    )


def _caps(asked: Asked, found: Found) -> Iterator[Cap]:
    """Every cap in force, those of kinds of replica that there are."""
    pool, nodes = found.pool, {node.id: node for node in found.cluster.classes}
    if pool.late:
        yield Cap(what=OUT_OF_TIME + _not_seen(pool), value=pool.columns, binds=True)
    gpus = max(node.gpus for node in nodes.values())
    own = [made.setup for made in pool.plain if made.node is not None]
    usual, sizes = sum(len(s.designs) for s in own), sum(s.left_out for s in own)
    if not asked.offload:
        yield Cap(what="GPUs of a replica", value=MOST_GPUS, binds=gpus > MOST_GPUS)
        what = "designs of usual sizes (whole nodes; inside a node of 2, 4, 8 … GPUs powers of two)"
        yield Cap(what=what, value=usual, binds=sizes > 0, considered=usual + sizes, left_out=sizes)
    full = any(c.batch >= MOST_SEQUENCES * c.design.attn_dp * NEAR for c in pool.candidates)
    yield Cap(what="sequences of a server", value=MOST_SEQUENCES, binds=full)
    if any(c.role == "prefill" for c in pool.candidates) or not asked.workload.decodes:
        most = asked.options.max_utilisation
        busy = any(c.busy >= most * NEAR for c in pool.candidates)
        yield Cap(what="utilisation of servers that only prefill", value=most, binds=busy)
    several, tried = _pipelines(pool)
    if several:
        what = "pipelines over several classes, the most promising"
        left = several - tried
        yield Cap(what=what, value=tried, binds=left > 0, considered=several, left_out=left)
    if pool.levels:
        yield Cap(what="levels of keeping idle KV cache", value=pool.levels, binds=True)
    if many := len(pool.drafts):
        yield Cap(what="ways to draft", value=many, binds=asked.options.draft_tokens is None)
        some = sum(made.considered for key, made in pool.made.items() if key.draft) // many
        what = "designs that draft (one class, one stage, no context parallelism, no cache kept)"
        left = max(usual - some, 0)
        yield Cap(what=what, value=some, binds=left > 0, considered=usual, left_out=left)
    if pool.limits:
        yield Cap(what="limits that the GPUs of a class may be told", value=pool.limits, binds=True)
    capped = [node.id for node in nodes.values() if node.gpu_most_watts < node.device.tdp_watts]
    if capped and any(_held(made, capped) for made in pool.made.values()):
        what = "loads of a replica under a node's power cap that no step is timed at (the largest it keeps)"
        yield Cap(what=what, value=1, binds=True)
    if asked.workload.longest >= LONG and not asked.offload:
        yield Cap(what="sizes of a long prompt's chunks", value=len(CHUNKS) + 1, binds=True)
    if found.apart and asked.workload.slo.limits:
        yield Cap(what=ROUTES, value=1, binds=True)
    if len(asked.workload.buckets) > FEW:
        yield Cap(what="buckets whose servers are looked at almost alone", value=FEW, binds=True)
    if found.objective.name == "latency" and len(asked.workload.buckets) > 1:
        what = "mixes of a server under which its requests' waiting is looked at (the workload's own)"
        yield Cap(what=what, value=1, binds=True)
    if found.space.survive is not None and not fleet_nodes.apart(found.space):
        many = len(fleet_survive.ways(found.space))
        what = "losses of nodes of several classes that the bound looks at"
        yield Cap(what=what, value=fleet_survive.LOSSES, binds=many > fleet_survive.LOSSES)
    if asked.offload and pool.made:
        yield Cap(what="placements in host memory: the fewest bytes away for each batch", value=1, binds=True)


def _not_seen(pool: Pool) -> str:
    """What the time did not suffice for, by class."""
    engines: dict[str, list[str]] = {}
    for node, engine in pool.unseen:
        engines.setdefault(node, []).append(engine)
    named = "; ".join(f"{', '.join(own)} on {node}" for node, own in engines.items())
    return f" (none of {named})" if named else ""


def _held(made: Made, capped: Collection[str]) -> bool:
    """Whether a setup has GPUs on `capped` nodes that are told no limit: a replica that draws more there at
    its largest load is not offered at lighter ones, either."""
    s = made.setup
    homes = {node.id for node, gpus in s.model.by_class(s.designs) if gpus.any()}
    return s.model.limit_watts is None and not homes.isdisjoint(capped)


def words(asked: Asked, found: Found) -> str:
    """The designs of the space."""
    engine = asked.options.engine
    if asked.offload:
        return _offloaded(engine, found)
    engines = "all engines'" if engine == "any" else f"all {engine}-valid"
    designs = f"{engines} tp x pp x attention-dp x ep designs of usual sizes up to {MOST_GPUS} GPUs"
    parts = [f"{designs}, one device class a replica, mixed and prefill/decode, at any load"]
    if found.pool.levels:
        parts.append(
            f"each of one class without idle KV cache and at up to {found.pool.levels} levels of keeping it, "
            "one time to live for all of it and one place; replicas on several classes keep none"
        )
    if ways := ", ".join(found.pool.drafts):
        parts.append(f"each of one class and one stage without drafts and with ({ways})")
    if found.pool.limits:
        shares = ", ".join(f"{100 * share:g}" for share in SHARES)
        parts.append(
            f"each of one class with its GPUs as they come, limited to {shares} % of their own limit, and to "
            "the share at which all of their rack or zone run alike"
        )
    several, tried = _pipelines(found.pool)
    if several:
        some = "all" if tried == several else f"the {tried} most promising of"
        parts.append(f"and with stages on several classes {some} {several:,} pipelines")
    if lost := asked.options.survive:
        nodes = "any node" if lost.nodes == 1 else f"any {lost.nodes:,} nodes"
        parts.append(f"fleets whose rest serves {100 * lost.share:g} % of the rate after the loss of {nodes}")
    return "; ".join(parts)


def _pipelines(pool: Pool) -> tuple[int, int]:
    """With unlike stages: those that were ranked, and those that became designs."""
    ranked = [made.considered for key, made in pool.made.items() if key.kind == "unlike stages"]
    return sum(ranked), sum(min(n, SHORTLIST) for n in ranked)


def _offloaded(engine: str, found: Found) -> str:
    own = "llama.cpp and SGLang" if engine == "any" else engine
    least = (
        f"{own}: for every number of sequences the fewest experts away from the GPUs, then the fewest "
        "layers, split over the GPUs to that end; each step computed on the CPU or copied over PCIe, the "
        "faster; "
    )
    streamed = "vllm: every number of layers whose weights each step copies to the GPUs; "
    ways = {"any": least + streamed, "vllm": streamed}.get(engine, least)
    over = any(key.kind == "several hosts" for key in found.pool.made)
    more = (
        f"up to {MOST_NODES} nodes with llama.cpp's RPC: for {len(SEQUENCES)} numbers of sequences the "
        "layers over GPUs and host memories that decode fastest, fewest nodes first; "
    )
    return f"one node with weights in host memory, {ways}{more if over else ''}at any load"
