"""The cluster as it is drawn: zones, classes, nodes, servers, and on each GPU its layers, experts, cache;
nodes that look alike are told once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError
from planner.launch.instances import Instance, instances
from planner.launch.server import kinds_of, machine_of, node_sizes
from planner.plans.schema import Plan, Replica, StageMemory
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.figures import by_device
from planner.reports.memory import GIB, PLACES, parts, what
from planner.reports.page.blocks import Box, Drawing, Frame, Gpu, Key, Rack, Site, in_row
from planner.reports.started import nodes_of, shortened

MEMORY = ("weights", "kv", "activations", "reserve")
"""Parts of a GPU's memory, in the order of `bars.parts`."""

MEMORY_KEYS = (
    Key("weights", "weights"),
    Key("kv", "KV cache"),
    Key("activations", "activations"),
    Key("reserve", "kept free for the engine"),
)

ROLE_WORDS = {
    "mixed": "prefill and decode together",
    "prefill": "prefill: reads prompts",
    "decode": "decode: writes answers",
    "attention": "attention only",
    "ffn": "feed-forward layers only",
    "chain": "a part of the layers",
}

MOST = 8
"""Servers of a node that are drawn one by one; of more, equal ones together."""

LOOKS = 6
"""Kinds of node of a class that are drawn, and links that are named; of more the rest is only counted."""


def drawing(plan: Plan) -> Drawing:
    """The cluster with the plan on it."""
    spots = placed(plan)
    racks: dict[str, list[Rack]] = {}
    for node in plan.problem.cluster["nodes"]:
        name = node.get("name") or node["device"]
        racks.setdefault(node.get("zone") or "", []).append(_rack(plan, node, spots[name]))
    roles = dict.fromkeys(r.role for r in plan.replicas)
    keys = (*(Key(role, ROLE_WORDS[role]) for role in roles), *MEMORY_KEYS)
    if len(racks) == 1:
        racks = {"": next(iter(racks.values()))}
    sites = tuple(Site(zone, tuple(found)) for zone, found in racks.items())
    return Drawing(sites, _links(plan), keys)


def _links(plan: Plan) -> str:
    """Declared links in words, the first few."""
    said = []
    for link in plan.problem.cluster.get("links", []):
        ends, delay = " – ".join(link["between"]), link.get("latency_ms") or 0
        late = f" at {say.milliseconds(delay)}" if delay else ""
        said.append(f"{ends} {say.number(link['gb_per_s'])} GB/s{late}")
    rest = [f"{len(said) - LOOKS:,} more"] if len(said) > LOOKS else []
    return f"Links: {', '.join([*said[:LOOKS], *rest])}." if said else ""


def _rack(plan: Plan, node: dict[str, Any], spots: list[Alike]) -> Rack:
    count = sum(len(alike.names) for alike in spots)
    name = node.get("name") or node["device"]
    price = node.get("price_usd_per_hour")
    about = [
        f"{counted(count, 'node')} of {_gpus(plan, node)}",
        *([f"{say.money(price)}/h a node"] if price else []),
        *(["spot"] if node.get("spot") else []),
    ]
    boxes = [_box(plan, alike) for alike in spots[:LOOKS]]
    if rest := spots[LOOKS:]:
        many = sum(len(alike.names) for alike in rest)
        idle = sum(alike.idle * len(alike.names) for alike in rest)
        boxes.append(
            Box(many, f"further nodes, each a mixture of the same servers; {idle:,} GPUs idle", (), 0)
        )
    return Rack(name, ", ".join(about), tuple(boxes))


def _gpus(plan: Plan, node: dict[str, Any]) -> str:
    """`8 × h100-sxm`."""
    kinds = by_device(node, plan.problem.devices)
    return " + ".join(f"{count} × {device}" for device, count in kinds)


def _box(plan: Plan, alike: Alike) -> Box:
    groups = {r.id: r for r in plan.replicas}
    most = MOST if sum(len(s.stages) for s in alike.seats) <= 2 * MOST else 1
    seats = together(alike.seats, most)
    frames = tuple(_frame(plan, groups[seat.replica], seat, times) for seat, times in seats)
    held = [groups[name] for name in dict.fromkeys(s.replica for s in alike.seats)]
    beside = tuple(line for r in held for line in _beside(plan, r, alike))
    return Box(len(alike.names), shortened(list(alike.names)), frames, alike.idle, beside)


def _frame(plan: Plan, r: Replica, seat: Seat, times: int) -> Frame:
    where = f", part of a server over {seat.nodes} nodes" if seat.nodes > 1 else ""
    memory = {m.stage: m for m in r.memory}
    gpus = tuple(_gpu(plan, r, stage, memory.get(stage)) for stage in seat.stages)
    layout = "" if r.role == "chain" else say.layout(r)  # of a chain its GPUs say all
    return Frame(r.id, r.role, f"{layout}{where}", gpus, times)


def _gpu(plan: Plan, r: Replica, at: int, memory: StageMemory | None) -> Gpu:
    lines = tuple(held(plan, r, at, memory))
    if memory is None or not memory.capacity_bytes:
        return Gpu(lines, (), f"{r.stages[at].device}, {', '.join(lines)}")
    bar = in_row(MEMORY, parts(memory), memory.capacity_bytes)
    return Gpu(lines, bar, f"{r.stages[at].device}, {', '.join(lines)}; memory: {in_words(memory)}")


def held(plan: Plan, r: Replica, at: int, memory: StageMemory | None) -> Iterator[str]:
    """What a GPU of stage `at` holds: its layers, its experts of each, its room for cache."""
    first, end = r.stages[at].layers
    if end > first:
        yield f"layer {first}" if end == first + 1 else f"layers {first}–{end - 1}"
        if r.stages[at].tp > 1:
            yield f"1/{r.stages[at].tp} of each layer"
    if told := experts(plan, r):
        yield told
    if memory is not None and memory.kv_bytes:
        yield f"KV {say.number(memory.kv_bytes / GIB)} GiB"


def experts(plan: Plan, r: Replica) -> str:
    """`16 of 128 experts`; "" of a model without any, and where some lie beside the GPUs."""
    ffns = plan.problem.model.get("ffns", {}).values()
    many = max((ffn.get("experts", 0) for ffn in ffns), default=0)
    away = any(part.what == "experts" and part.replica == r.id for part in plan.tiers)
    if not many or away or r.role == "attention":
        return ""
    told = [e for e in plan.experts.replicas if e.replica == r.id] if plan.experts else []
    own = told[0].slots_per_rank if told else -(-(many + r.redundant_experts) // r.ep)
    part = f", 1/{r.moe_tp} of each" if r.moe_tp > 1 else ""
    return f"{own} of {many} experts{part}" if own < many else f"all {many} experts{part}"


def in_words(memory: StageMemory) -> str:
    """A GPU's memory in GiB, part by part."""
    sizes = zip(MEMORY_KEYS, parts(memory), strict=True)
    told = [f"{key.words} {say.number(size / GIB)}" for key, size in sizes if size]
    return f"{', '.join(told)} of {say.number(memory.capacity_bytes / GIB)} GiB"


def _beside(plan: Plan, r: Replica, alike: Alike) -> Iterator[str]:
    """Weights and idle cache of a group in memory of its node beside the GPUs."""
    layers = sum(run["times"] * len(run["of"]) for run in plan.problem.model.get("layers", []))
    moe = any(ffn.get("experts") for ffn in plan.problem.model.get("ffns", {}).values())
    here = {stage for seat in alike.seats if seat.replica == r.id for stage in seat.stages}
    for part in plan.tiers:
        stage = len(r.stages) - 1 if part.stage is None else part.stage
        if part.replica != r.id or stage not in here:
            continue
        size = f"{say.number(part.bytes / 1e9)} GB"
        if part.what == "cache":
            yield f"{r.id}: {size} of KV cache kept between requests in {PLACES.get(part.tier, part.tier)}"
        else:
            yield f"{r.id}: {what(part, layers, moe)}, {size}"


@dataclass(frozen=True)
class Seat:
    """GPUs that one server of group `replica` has on one node, by the stage that each holds; `nodes` that the
    server stands on."""

    replica: str
    stages: tuple[int, ...]
    nodes: int


@dataclass(frozen=True)
class Alike:
    """Nodes with the same seats, and so many GPUs that nothing runs on."""

    names: tuple[str, ...]
    seats: tuple[Seat, ...]
    idle: int


def placed(plan: Plan) -> dict[str, list[Alike]]:
    """Nodes by the entry of the cluster, those that look alike together, the most numerous first."""
    seats = seats_by_node(plan)
    sizes, found = node_gpus(plan), dict[str, list[Alike]]()
    for entry, names in nodes_of(plan).items():
        looks: dict[tuple[tuple[Seat, ...], int], list[str]] = defaultdict(list)
        for name in names:
            own = tuple(sorted(seats.get(name, []), key=lambda s: (s.replica, s.stages)))
            idle = sizes[entry] - sum(len(s.stages) for s in own)
            looks[own, max(idle, 0)].append(name)
        alike = [Alike(tuple(names), own, idle) for (own, idle), names in looks.items()]
        found[entry] = sorted(alike, key=lambda a: (not a.seats, -len(a.names)))
    return found


def node_gpus(plan: Plan) -> dict[str, int]:
    """GPUs of one node by the entry of the cluster, all kinds together."""
    kinds = kinds_of(plan)
    boxes = {
        entry: sum(kinds[names[0]].values()) for entry, names in nodes_of(plan).items() if names[0] in kinds
    }
    return boxes | {name: n for name, n in node_sizes(plan).items() if "/" not in name}


def seats_by_node(plan: Plan) -> dict[str, list[Seat]]:
    """Seats by the name of the node. Where a plan does not say which GPUs a server has, its servers are dealt
    over the nodes it names."""
    try:
        made = instances(plan)
    except InputError:
        return _dealt(plan)
    found: dict[str, list[Seat]] = defaultdict(list)
    for instance in made:
        for node, stages in stages_on(instance).items():
            found[node].append(Seat(instance.replica.id, tuple(stages), len(instance.gpus)))
    return found


def stages_on(instance: Instance) -> dict[str, list[int]]:
    """The stage that each GPU of a server holds, by node: stages are dealt in order, each to nodes of its
    own."""
    order = list(instance.gpus)
    if instance.replica.engine == "llama.cpp":  # the node that answers holds the last stage
        order = order[1:] + order[:1]
    room, found = {node: len(gpus) for node, gpus in order}, dict[str, list[int]]()
    for at, stage in enumerate(instance.replica.stages):
        left, mine = stage.gpus, {machine_of(node) for node in stage.nodes}
        for node in room:
            here = min(left, room[node]) if node in mine else 0
            room[node] -= here
            left -= here
            found.setdefault(node, []).extend([at] * here)
    return {node: stages for node, stages in found.items() if stages}


def _dealt(plan: Plan) -> dict[str, list[Seat]]:
    found: dict[str, list[Seat]] = defaultdict(list)
    for r in plan.replicas:
        for number in range(r.count):
            for node, stages in _whole(r, number).items():
                found[node].append(Seat(r.id, tuple(stages), 1))
    return found


def _whole(r: Replica, number: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, stage in enumerate(r.stages):
        node = machine_of(stage.nodes[number % len(stage.nodes)])
        found.setdefault(node, []).extend([at] * stage.gpus)
    return found


def together(seats: Sequence[Seat], most: int) -> Iterator[tuple[Seat, int]]:
    """Each seat once for itself, where there are at most so many; else equal ones together, with their
    number."""
    if len(seats) <= most:
        yield from ((seat, 1) for seat in seats)
    else:
        yield from Counter(seats).items()
