"""What one replica holds, and what limits it: contexts x users, and the most of either.

A cell is one decode step with all users at that context. Where they fit, what the step mostly waits for is
the largest of: reading weights, reading the cache, FLOPs (each at the device's peak), and `overhead`, all
that the prediction has beyond these (launches, messages, the engine, kernels below peak), where it is most of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.cost.attention import Load
from planner.cost.memory import device_bytes, kv_bytes_by_stage, room_by_stage, stage_layers
from planner.cost.model import CostModel
from planner.cost.reserve import default_tokens_per_step
from planner.designs.shape import Designs
from planner.fit.fits import Ask, ClassFit, Fit, Row, layout

SHORTEST, GROWTH = 2048, 4
NEARLY = 0.5
"""Of the most users a GPU that any parallelism holds: among those the quickest is shown."""
USERS = (1, 4, 16, 64, 256)
LIMITS = ("weights", "KV cache", "compute", "overhead")


@dataclass(frozen=True)
class Cell:
    """`tpot_s` None: does not fit, by `missing_bytes` a GPU. `limit`: one of LIMITS, or memory."""

    context: int
    users: int
    tpot_s: float | None
    limit: str
    missing_bytes: float


@dataclass(frozen=True)
class Grid:
    """Cells of one replica by context (rows) and users (columns)."""

    replica: Row
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Most:
    """Of the quickest parallelism that holds half of the most users a GPU, or more; None: nothing fits."""

    value: int
    count: int
    layout: str
    device: str
    limit: str


def grid(ask: Ask, node: NodeClass, part: ClassFit) -> Grid | None:
    """Of the quickest parallelism that holds at least half of the most users a GPU; None: nothing fits."""
    fitting = [row for row in part.rows if row.fits]
    if not fitting or part.engine is None:
        return None
    model = CostModel(ask.card, node, part.engine, ask.used)
    most = max(row.concurrency / row.gpus for row in fitting)
    near = [row for row in fitting if row.concurrency / row.gpus >= NEARLY * most]
    alone = model.step_s(_designs(near), Load.of(1.0, float(ask.tokens)))
    best = near[int(alone.argmin())]
    contexts = _contexts(ask.card.max_context)
    points = [(c, u) for c in contexts for u in USERS]
    context, users = (np.array(x, dtype=np.float64) for x in zip(*points, strict=True))
    designs = _designs([best] * len(points))
    batch = np.ceil(users / best.attn_dp)
    missing = _missing(ask, node, part.engine, designs, context, batch)
    step = model.step_s(designs, Load.of(batch, context))
    limits = _limits(model, designs, batch, context, step)
    cells = [
        Cell(c, u, None if short > 0 else float(s), "memory" if short > 0 else limit, max(0.0, float(short)))
        for (c, u), short, s, limit in zip(points, missing, step, limits, strict=True)
    ]
    wide = len(USERS)
    return Grid(best, tuple(tuple(cells[i * wide : (i + 1) * wide]) for i in range(len(contexts))))


def _designs(rows: Sequence[Row]) -> Designs:
    sizes = [(row.tp, row.pp, row.attn_dp, row.moe_tp, row.ep) for row in rows]
    return Designs.plain(*np.array(sizes, dtype=np.int64).T)


def _contexts(longest: int) -> list[int]:
    steps = int(np.log(max(longest / SHORTEST, 1)) / np.log(GROWTH) + 1e-9)
    return sorted({min(SHORTEST * GROWTH**i, longest) for i in range(steps + 1)} | {longest})


def _missing(
    ask: Ask, node: NodeClass, engine: str, designs: Designs, context: np.ndarray, batch: np.ndarray
) -> np.ndarray:
    """Bytes a GPU that `batch` sequences of `context` need beyond what there is, (n,), on the worst stage."""
    capacity = device_bytes(node.device)
    tokens = default_tokens_per_step(engine, capacity)
    left = room_by_stage(ask.card, capacity, designs, ask.used, engine, tokens).kv_bytes
    one, ranges = designs.take(np.array([0])), stage_layers(len(ask.card.stack), int(designs.pp[0]))
    held = kv_bytes_by_stage(ask.card, one, ask.used, engine, context[None, :], ranges)[0]
    return np.asarray((held * batch[:, None] - left).max(axis=1))


def _limits(
    model: CostModel, designs: Designs, batch: np.ndarray, context: np.ndarray, step: np.ndarray
) -> list[str]:
    """What each step mostly waits for."""
    compute, memory = model.peaks_s(designs, Load.of(batch, context))
    weights = model.peaks_s(designs, Load.of(batch))[1]
    cache, passes = memory - weights, np.clip(batch, 1.0, designs.pp)  # each micro-batch reads the weights
    weights = weights * passes
    overhead = np.where(step > 2 * np.maximum(compute, weights + cache), step, 0.0)
    parts = np.stack([weights, cache, compute, overhead])
    return [LIMITS[i] for i in parts.argmax(axis=0)]


def most_users(found: Fit, cluster: ResolvedCluster) -> Most:
    """Users of the asked context that the cluster holds at once, on equal replicas in each class; the layout
    is that of the class which holds the most."""
    best = [
        most for node, part in zip(cluster.classes, found.classes, strict=True) for most in _best(node, part)
    ]
    largest = max(best, key=lambda most: most.value)
    return replace(largest, value=sum(most.value for most in best))


def _best(node: NodeClass, part: ClassFit) -> list[Most]:
    """The layout of a class that holds the most users, replicas side by side in its nodes; none: nothing
    fits."""
    fitting = [(row, count) for row in part.rows if row.fits and (count := copies(row.gpus, node))]
    if not fitting:
        return []
    row, count = max(fitting, key=lambda x: (x[1] * x[0].concurrency, -x[0].gpus))
    return [Most(count * row.concurrency, count, layout(row), part.device, "memory")]


def copies(gpus: int, node: NodeClass) -> int:
    """Replicas of so many GPUs that stand in the nodes of a class."""
    whole, nodes = node.gpus_per_node, node.gpus // node.gpus_per_node
    return nodes * (whole // gpus) if gpus <= whole else nodes // -(-gpus // whole)


def most_context(ask: Ask, found: Fit) -> Most:
    """The longest context of one user, on the smallest replica that holds it."""
    rows = [(row, part) for part in found.classes for row in part.rows if row.max_context]
    row, part = max(rows, key=lambda x: (x[0].max_context, -x[0].gpus))
    limit = "the model" if row.max_context >= ask.card.max_context else "memory"
    return Most(row.max_context, 1, layout(row), part.device, limit)
