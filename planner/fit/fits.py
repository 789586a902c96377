"""Does a model fit on a cluster, with how much context and how many users, for each parallelism; what is
missing else.

Each node class is looked at alone: replicas over unequal GPUs are the planner's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import Device, NodeClass, ResolvedCluster
from model_zoo.derive import kv_bytes_per_seq as kv_bytes_of_all_gpus
from model_zoo.derive import total_params, weight_bytes
from model_zoo.schema import WEIGHT_BYTES, ModelCard
from planner.cost.memory import (
    default_tokens_per_step,
    device_bytes,
    fullest_at,
    kv_bytes_per_seq,
    kv_capacity,
    longest_context,
    room_by_stage,
)
from planner.designs.precision import precisions
from planner.designs.shape import Precisions
from planner.engines import NAMES, named
from planner.errors import Infeasible, InputError
from planner.reading.units import sizes_in_words
from planner.rules.designs import valid_designs
from planner.rules.devices import picks_entries, why_unsupported

DEFAULT_CONTEXT = 8192
LARGEST_REPLICA = 144
"""GPUs of the largest replica that is looked at."""

QUANTISED = ("fp8", "int4_wo", "nvfp4")
"""Checkpoints that are proposed, gentlest first."""


@dataclass(frozen=True)
class Ask:
    """What should fit: sequences of `context` tokens; None: the checkpoint's precision, the model's usual
    context."""

    card: ModelCard
    context: int | None = None
    weights: str | None = None
    kv: str | None = None
    engine: str = "any"

    @property
    def used(self) -> Precisions:
        """Precisions of weights and cache."""
        return precisions(self.card, self.weights, self.kv)

    @property
    def tokens(self) -> int:
        """Context of one sequence."""
        return min(DEFAULT_CONTEXT, self.card.max_context) if self.context is None else self.context

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that may serve it, in order of preference."""
        return NAMES if self.engine == "any" else (named(self.engine).name,)


@dataclass(frozen=True)
class Row:
    """One parallelism: bytes per GPU of the fullest stage, and what one replica can hold."""

    gpus: int
    tp: int
    pp: int
    attn_dp: int
    moe_tp: int
    ep: int
    weights_bytes: float
    activation_bytes: float
    reserve_bytes: float
    capacity_bytes: float
    kv_bytes: float  # room for the KV cache; negative: weights and buffers alone are too large
    max_context: int  # of one sequence, at most the model's
    concurrency: int  # sequences of the asked context
    missing_bytes: float  # per GPU, for one sequence of the asked context; 0 where it fits

    @property
    def fits(self) -> bool:
        """One sequence of the asked context fits."""
        return self.missing_bytes <= 0


@dataclass(frozen=True)
class ClassFit:
    """All parallelisms on one node class, by GPUs; without an engine that serves it, `reason` and no rows."""

    node_class: str
    device: str
    gpus: int
    engine: str | None
    reason: str | None
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Fit:
    """The answer. `changes`: where nothing fits, what would help, gentlest first."""

    model: str
    context: int
    max_context: int
    params: int
    checkpoint_bytes: float  # with MTP layers and vision tower, in the checkpoint's own precision
    kv_bytes: float  # of one sequence of `context`, over all GPUs, each byte counted once
    precision: Precisions
    classes: tuple[ClassFit, ...]
    changes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Something fits."""
        return any(row.fits for c in self.classes for row in c.rows)


def fit(ask: Ask, cluster: ResolvedCluster) -> Fit:
    """Look at every class of `cluster`. Raises InputError for a context or precision that cannot be."""
    card = ask.card
    if not 1 <= ask.tokens <= card.max_context:
        raise InputError(
            f"a context of {ask.tokens:,} tokens: {card.name} takes 1 to {card.max_context:,}", where="--isl"
        )
    classes = tuple(class_fit(ask, node) for node in cluster.classes)
    found = Fit(
        model=card.name,
        context=ask.tokens,
        max_context=card.max_context,
        params=total_params(card),
        checkpoint_bytes=sum(weight_bytes(card, mtp=True, vision=True).values()),
        kv_bytes=kv_bytes_of_all_gpus(card, ask.tokens, ask.used.kv),
        precision=ask.used,
        classes=classes,
        changes=(),
    )
    return found if found.fits else replace(found, changes=tuple(_changes(ask, cluster, classes)))


def infeasible(found: Fit, cluster: str) -> Infeasible:
    """The error that says what is missing, and the smallest change that would help."""
    rows = [row for c in found.classes for row in c.rows]
    reasons = [c.reason for c in found.classes if c.reason]
    if rows:
        best = min(rows, key=lambda row: row.missing_bytes)
        reasons.insert(0, f"{best.missing_bytes / 2**30:.1f} GiB short on each GPU even with {layout(best)}")
    message = f"{found.model} does not fit on {cluster}: {reasons[0] if reasons else 'no design is valid'}"
    changes = found.changes or ("none found up to the largest replica looked at",)
    return Infeasible(message, hint="smallest change: " + "; or ".join(changes))


def left_out(cluster: ResolvedCluster, fits: bool) -> tuple[str, ...]:
    """What a plan of these nodes may also use, and nothing here counts: a line each."""
    several = len(cluster.classes) > 1 and "replicas over several classes of nodes"
    host = not fits and any(n.host and n.host.memory_gb for n in cluster.classes) and "weights in host memory"
    missed = [what for what in (several, host) if what]
    return tuple(f"{what} are not looked at here: `meshwright plan` does" for what in missed)


def layout(row: Row) -> str:
    """Parallelism in a word, as everywhere: "tp4 pp2", "dp8 ep8"; "tp1" for one GPU."""
    return sizes_in_words(tp=row.tp, pp=row.pp, dp=row.attn_dp, ep=row.ep) or "tp1"


def class_fit(ask: Ask, node: NodeClass) -> ClassFit:
    """The class with the first engine on which it fits; else with the first that serves it at all."""
    moe = ask.card.moe
    reason = None
    served: list[ClassFit] = []
    for engine in ask.engines:
        refused = why_unsupported(node.device, engine, ask.used, moe, picks_entries(ask.card))
        if refused is None:
            rows = _rows(ask, node.device, engine, node.gpus, node.scale_up_gpus)
            part = ClassFit(node.id, node.device.name, node.gpus, engine, None, rows)
            if any(row.fits for row in rows):
                return part
            served.append(part)
        reason = reason or refused
    served.sort(key=lambda part: not part.rows)  # stable: in order of preference
    return served[0] if served else ClassFit(node.id, node.device.name, node.gpus, None, reason, ())


def _rows(ask: Ask, device: Device, engine: str, gpus: int, scale_up: int) -> tuple[Row, ...]:
    """Every design that `engine` starts on at most `gpus` devices."""
    widest = min(gpus, LARGEST_REPLICA)
    designs = valid_designs(ask.card, engine, widest, widest, min(scale_up, widest), ask.used)
    if not len(designs):
        return ()
    capacity = device_bytes(device)
    tokens = default_tokens_per_step(engine, capacity)
    by_stage = room_by_stage(ask.card, capacity, designs, ask.used, engine, tokens)
    fullest = fullest_at(ask.card, designs, ask.used, engine, by_stage)
    context = np.array([float(ask.tokens)])
    needed = kv_bytes_per_seq(ask.card, designs, ask.used, engine, context, stage=fullest.stage)[:, 0]
    sequences = kv_capacity(ask.card, designs, ask.used, engine, by_stage, context)[:, 0]
    columns = (  # in the order of Row's fields
        designs.gpus,
        designs.tp,
        designs.pp,
        designs.attn_dp,
        designs.moe_tp,
        designs.ep,
        fullest.weights_bytes,
        fullest.activation_bytes,
        fullest.reserve_bytes,
        fullest.capacity_bytes,
        fullest.kv_bytes,
        longest_context(ask.card, designs, ask.used, engine, by_stage),
        (sequences * designs.attn_dp).astype(np.int64),
        np.where(sequences >= 1, 0.0, np.maximum(needed - fullest.kv_bytes, 1.0)),
    )
    return tuple(Row(*values) for values in zip(*(c.tolist() for c in columns), strict=True))


def _changes(ask: Ask, cluster: ResolvedCluster, classes: tuple[ClassFit, ...]) -> Iterator[str]:
    """What would make it fit, gentlest first: engine, cache precision, context, GPUs, checkpoint."""
    also = ""
    if ask.engine != "any":
        yield from [f"--engine {e}" for e in NAMES if _any_fits(replace(ask, engine=e), cluster)][:1]
        if not any(c.rows for c in classes):  # this engine will not do it, whatever else changes
            ask, also = replace(ask, engine="any"), "--engine any and "
    if ask.used.kv == "bf16" and _any_fits(replace(ask, kv="fp8"), cluster):
        yield f"{also}an fp8 KV cache (--kv-precision fp8)"
    longest = max((row.max_context for c in classes for row in c.rows), default=0)
    if longest:
        yield f"a context of at most {longest:,} tokens (--isl {longest})"
    yield from (also + more for more in _more_gpus(ask, cluster))
    now = WEIGHT_BYTES[ask.used.experts]
    lower = [p for p in QUANTISED if WEIGHT_BYTES[p] < now and _any_fits(replace(ask, weights=p), cluster)]
    yield from (f"{also}a checkpoint in {p} (--precision {p})" for p in lower[:1])


def _any_fits(ask: Ask, cluster: ResolvedCluster) -> bool:
    return any(row.fits for node in cluster.classes for row in class_fit(ask, node).rows)


def _more_gpus(ask: Ask, cluster: ResolvedCluster) -> Iterator[str]:
    """The class that needs the fewest further GPUs of its own kind."""
    wanted: list[tuple[int, int, str]] = []
    for node in cluster.classes:
        scale_up = max(node.scale_up_gpus, node.device.scale_up_gpus)
        served = class_fit(ask, node).engine
        rows = _rows(ask, node.device, served, LARGEST_REPLICA, scale_up) if served else ()
        needed = min((row.gpus for row in rows if row.fits), default=0)
        size = node.device.gpus_per_node
        if needed > size:  # only whole nodes make one class
            needed = -(-needed // size) * size
        if needed > node.gpus:
            wanted.append((needed - node.gpus, needed, node.device.name))
    if wanted:
        _, needed, device = min(wanted)
        yield f"{needed} x {device} (--gpus {needed}x{device})"
