"""Which engines serve which devices in which precision: natively, or as weights alone beside 16-bit
arithmetic (the tables: `planner/engines/`). 16-bit weights run as fp16 before Ampere."""

from __future__ import annotations

from collections.abc import Mapping

from cluster_configs.schema import Device
from model_zoo.schema import Attention, Mla, ModelCard
from planner.designs.shape import Precisions
from planner.engines import named
from planner.engines.engine import Generations


def balances(device: Device, engine: str, experts: str) -> bool:
    """Whether the engine keeps copies of experts of a precision on the device."""
    return device.generation in named(engine).balanced.get(experts, set())


def picks_entries(card: ModelCard) -> bool:
    """Whether the model's attention picks entries of a latent, or of compressed caches."""
    mixers = card.mixers.values()
    return any(
        (isinstance(m, Mla) and m.indexer) or (isinstance(m, Attention) and m.compress) for m in mixers
    )


def supports(device: Device, engine: str, precision: str) -> str | None:
    """Why `engine` cannot serve weights in `precision` on `device`, or None.

    vLLM on Ampere and Turing holds fp8 and fp4 weights as they are and computes in 16 bit (Marlin): allowed.
    """
    return _why_not(device, engine, precision, named(engine).weights, "weights")


def supports_cache(device: Device, engine: str, precision: str) -> str | None:
    """Why `engine` cannot keep its KV cache in `precision` on `device`, or None."""
    return _why_not(device, engine, precision, named(engine).cache, "KV cache")


def why_unsupported(
    device: Device, engine: str, used: Precisions, moe: bool, picks: bool = False
) -> str | None:
    """The first reason against any of `used` on `device`; `moe` False: the experts' precision does not
    matter; `picks`: see `picks_entries`."""
    if reason := _why_not_device(device, engine):
        return reason
    sparse = named(engine).sparse
    if picks and sparse is not None and device.generation not in sparse:
        return f"{engine} has no sparse attention on {device.name} ({device.generation})"
    weights = {used.gemm, used.embedding} | ({used.experts} if moe else set())
    reasons = [supports(device, engine, precision) for precision in sorted(weights)]
    return next((r for r in reasons if r), None) or supports_cache(device, engine, used.kv)


def _why_not_device(device: Device, engine: str) -> str | None:
    served = device.generation in named(engine).generations
    return None if served else f"{engine} does not run on {device.name} ({device.generation})"


def _why_not(
    device: Device, engine: str, precision: str, table: Mapping[str, Generations], what: str
) -> str | None:
    if reason := _why_not_device(device, engine):
        return reason
    if precision == "bf16" or device.generation in table.get(precision, set()):
        return None
    return f"{engine} has no {precision} {what} on {device.name} ({device.generation})"
