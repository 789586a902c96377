"""What a plan rests on that nobody asked for, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from planner.plans.schema import Plan, Problem
from planner.reading.units import counted
from planner.reports import words as say

WORDS: dict[str, Callable[[Any], str]] = {
    "isl": lambda x: f"{x:,} tokens in",
    "osl": lambda x: f"{x:,} tokens out",
    "ttft_ms": lambda x: f"TTFT within {x:,g} ms",
    "tpot_ms": lambda x: f"TPOT within {x:,g} ms",
    "percentile": lambda x: "limits on the mean" if x == "mean" else f"limits at {x}",
    "objective": lambda x: f"objective {x}",
    "engine": lambda x: "any engine" if x == "any" else f"engine {x}",
    "arrivals": lambda x: "random arrivals" if x == "open" else "a closed loop",
    "risk": lambda x: f"limits kept with a chance of {1 - x:.0%} (risk {x:g})".replace("%", " %"),
    "precision": lambda x: f"weights {x or 'as in the checkpoint'}",
    "kv_precision": lambda x: f"KV cache {x or 'as in the checkpoint'}",
}
"""Last part of the name in `defaulted` → its words, from its value (None: left to the checkpoint)."""


def assumed(problem: Problem) -> list[str]:
    """Each defaulted option with the value that was used, in the order of `defaulted`.

    >>> assumed(Problem(cluster={}, devices={}, model={}, workload={"slo": {"tpot_ms": 50.0}}, options={},
    ...                 defaulted=["slo.tpot_ms", "workload.name", "cluster.nodes.nic"]))
    ['TPOT within 50 ms', 'workload.name', 'nodes and links as is usual for the devices']
    """
    named = [_words(problem, name) for name in problem.defaulted if not name.startswith("cluster.")]
    if not any(name.startswith("cluster.") for name in problem.defaulted):
        return named
    told = list(
        dict.fromkeys(filter(None, (usual(problem, node) for node in problem.cluster.get("nodes", []))))
    )
    source = " (`meshwright devices NAME` names the source)" if any("$" in text for text in told) else ""
    figures = f": {'; '.join(told)}{source}" if told else ""
    return [*named, f"nodes and links as is usual for the devices{figures}"]


UNSAID = (
    "options.objective",
    "options.engine",
    "options.precision",
    "options.kv_precision",
    "options.risk",
    "arrivals",
    "workload.arrivals",
    "workload.name",
)
"""Defaults that a first screen leaves out: they take nothing away, or it shows them elsewhere."""


def assumed_briefly(plan: Plan) -> str:
    """The defaults that decide, in one sentence, of nodes those of classes in use; "" where all was told."""
    problem, classes = plan.problem, {stage.node_class for r in plan.replicas for stage in r.stages}
    decide = [name for name in problem.defaulted if name not in UNSAID]
    named = [_words(problem, name) for name in decide if not name.startswith("cluster.")]
    if len(named) < len(decide):
        used = [n for n in problem.cluster.get("nodes", []) if (n.get("name") or n.get("device")) in classes]
        nodes = (usual(problem, node) for node in used)
        named += dict.fromkeys(filter(None, nodes)) or ["usual nodes and links"]
    return "; ".join(named)


def decisive(plan: Plan) -> list[str]:
    """What the plan loses where an assumption is off, a line each."""
    unit = plan.proof.unit
    lines = []
    for a in plan.assumptions:
        if a.objective is None or a.loss is None:
            lines.append(f"With {a.what} these kinds of replica could not serve this within the limits.")
        else:
            left = f"{say.rate(a.objective, unit)} in place of {say.rate(plan.proof.own, unit)}"
            lines.append(
                f"With {a.what} these kinds of replica would be {say.percent(a.loss)} worse: {left}."
            )
    return lines


FIGURES: dict[str, Callable[[Any, Any], str]] = {
    "intra_gb_per_s": lambda x, node: f"{x:,g} GB/s between the GPUs of a node",
    "nic_gb_per_s": lambda x, node: f"{x:,g} GB/s a GPU beyond it ({node.get('nic')})",
    "price_usd_per_hour": lambda x, node: f"${x:,.2f}/h a node",
}
"""Fields of nodes whose figures decide most → their words, from the value and the node."""


def usual(problem: Problem, node: Mapping[str, Any]) -> str:
    """The figures of a node that nobody told, and its GPUs where there are several; "" without any.

    >>> problem = Problem(cluster={}, devices={}, model={}, workload={}, options={},
    ...                   defaulted=["cluster.nodes.intra_gb_per_s"])
    >>> usual(problem, {"device": "l40s", "intra_gb_per_s": 32.0, "nic_gb_per_s": 50.0})
    'l40s 32 GB/s between the GPUs of a node'
    """
    if node.get("gpus"):
        return ""  # of several kinds: a warning says how they are planned
    left = [name.rpartition(".")[2] for name in problem.defaulted if name.startswith("cluster.nodes.")]
    words = [say(node[key], node) for key, say in FIGURES.items() if key in left and node.get(key)]
    alike = [one for one in problem.cluster.get("nodes", []) if one.get("device") == node["device"]]
    several = sum(one.get("count", 1) for one in alike) > 1
    size = f" in nodes of {counted(node['gpus_per_node'], 'GPU')}:" if several else ""
    return f"{node['device']}{size} {', '.join(words)}" if words else ""


def _words(problem: Problem, name: str) -> str:
    key, value = name.split(".")[-1], _value(problem, name)
    if key in WORDS and (value is not None or key.endswith("precision")):
        return WORDS[key](value)
    return name if value is None else f"{name} {value}"


def _value(problem: Problem, name: str) -> Any:
    """What the dotted `name` is in the problem as used; None where it is no plain value."""
    buckets = problem.workload.get("buckets") or []
    roots = [problem.workload, {"options": problem.options, "workload": problem.workload}, problem.options]
    for root in [*roots, buckets[0] if len(buckets) == 1 else {}]:
        found: Any = root
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, (str, int, float)):
            return found
    return None


def untried(plan: Plan) -> Iterator[str]:
    """How the plan runs that there were no measurements of, a line each."""
    for e in plan.evidence:
        whose = f" ({', '.join(e.replicas)})" if len(e.replicas) < len(plan.replicas) else ""
        wider = f", ±{say.percent(e.band)} by that alone" if e.band else ""
        yield f"{e.what}{whose}{wider}"
