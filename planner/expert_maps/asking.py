"""The question of an expert map, read and checked: what can be asked together, and what cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner.errors import InputError
from planner.expert_maps import formats
from planner.inputs.expert_loads import ExpertLoads, read_expert_loads
from planner.inputs.expert_samples import Floats, Ints, read_tokens, read_transitions
from planner.inputs.numbers import POSITIVE, Range, number
from planner.problems.experts import Gpus, groups_of, of_model, read_gpus
from solvers.experts.robust import Over
from solvers.experts.types import Aim, Objective, Place
from solvers.linear import Limits


@dataclass(frozen=True)
class Ask:
    """All as numbers. `previous`: places of the map in service; `gb_per_s`: into each GPU, for moves."""

    loads: ExpertLoads
    gpus: Gpus
    aim: Aim
    limits: Limits
    card: ModelCard | None = None
    group: Ints | None = None
    tokens: Sequence[Ints] | None = None
    transitions: Floats | None = None
    previous: Sequence[Place] | None = None
    keep_within: float = 0.01
    robust: Over | None = None
    gb_per_s: float | None = None
    warnings: tuple[str, ...] = ()


def ask(
    path: str | Path,
    *,
    gpus: str,
    gpus_per_node: int | None = None,
    slots: str | None = None,
    groups: int | None = None,
    objective: Objective = "balance",
    traffic_weight: float = 0.1,
    max_balance: float = 1.02,
    tokens: str | Path | None = None,
    affinity: str | Path | None = None,
    previous: str | Path | None = None,
    keep_within: float = 0.01,
    robust: Over | None = None,
    model: str | None = None,
    gb_per_s: float | None = None,
    gap: float = 0.02,
    time_limit_s: float = 30.0,
    seed: int = 0,
) -> Ask:
    """Reads the files and checks that they belong together. Raises InputError."""
    _check_numbers(traffic_weight, max_balance, keep_within, gb_per_s, gap, time_limit_s)
    aim = Aim(objective, traffic_weight, max_balance, grouped=groups is not None and objective == "balance")
    named = {"--groups": groups, "--affinity": affinity, "--previous": previous, "--robust": robust}
    _check_together({name for name, value in named.items() if value is not None}, objective, tokens is None)
    loads = read_expert_loads(path)
    card, warnings = (None, list[str]()) if model is None else catalog.find(model)
    if card is not None:
        loads = of_model(loads, card, str(path))
    experts = loads.tokens.shape[2]
    found = read_gpus(gpus, gpus_per_node, slots, experts)
    if robust and len(loads.tokens) < 2:
        message = "--robust wants loads of several steps, and there is one"
        raise InputError(message, str(path), "an array [steps, layers, experts], or a CSV with `step`")
    if affinity is not None:
        _check_affinity(found, slots, experts)
    return Ask(
        loads=loads,
        gpus=found,
        aim=aim,
        limits=Limits(gap=gap, seconds=time_limit_s, seed=seed),
        card=card,
        group=None if groups is None else groups_of(groups, experts, found, aim.grouped),
        tokens=None if tokens is None else read_tokens(tokens, loads),
        transitions=None if affinity is None else read_transitions(affinity, loads),
        previous=None if previous is None else formats.read_map(previous, loads, found.count),
        keep_within=keep_within,
        robust=robust,
        gb_per_s=gb_per_s,
        warnings=tuple(warnings),
    )


def _check_numbers(
    weight: float, most: float, within: float, gb_per_s: float | None, gap: float, seconds: float
) -> None:
    ranges = [
        ("--traffic-weight", weight, Range(high=1000)),
        ("--max-balance", most, Range(low=1, high=1000)),
        ("--keep-within", within, Range(high=1000)),
        ("--gb-per-s", 1.0 if gb_per_s is None else gb_per_s, POSITIVE),
        ("--gap", gap, Range(high=1000)),
        ("--time-limit", seconds, POSITIVE),
    ]
    for name, value, allowed in ranges:
        number(value, name, name, allowed)


def _check_together(named: set[str], objective: Objective, no_tokens: bool) -> None:
    if objective != "balance" and no_tokens:
        message = f"--objective {objective} wants --tokens, a sample of tokens with their experts"
        raise InputError(message, "--objective", "an array [layers, tokens, experts a token]")
    alone = [name for name in ("--affinity", "--previous", "--robust") if name in named]
    others = named - {"--groups"} if objective != "balance" else named
    if alone and len(others) > 1:
        first, second = alone[0], min(others - {alone[0]})
        raise InputError(f"{first} cannot be combined with {second}", first, "ask one after the other")
    if alone and objective != "balance":
        raise InputError(f"{alone[0]} cannot be combined with --objective {objective}", alone[0])


def _check_affinity(gpus: Gpus, slots: str | None, experts: int) -> None:
    """Affinity places every expert once, and as many on each GPU."""
    if slots is not None and int(gpus.slots.sum()) > experts:
        message = "--affinity places every expert once: replicas cannot be combined with it"
        raise InputError(message, "--slots", f"leave out --slots: {experts / gpus.count:g} experts a GPU")
    if experts % gpus.count:
        raise InputError(f"{experts} experts do not divide among {gpus.count} GPUs", "--affinity")
    if not gpus.alike or len({gpus.node.tolist().count(n) for n in range(gpus.nodes)}) > 1:
        raise InputError("--affinity wants GPUs and nodes that are alike", "--gpus")
