"""A cluster file from one line of GPUs: every figure that planning would take, with its source, to be
changed."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.reading import from_gpus
from cluster_configs.schema import NodeClass
from planner.clusters.writing import value_text

HEAD = """\
# Written by `meshwright cluster init`. Figures are those that `--gpus` takes: change what is other with you.
# GB = 1e9 bytes; rates in one direction; a line of 10 Gbit/s is 1.25 GB/s. All fields: docs/cluster.md
"""
FOOT = """\
# Zones: nodes of one zone talk over their NICs. Between zones nothing passes but over links written here:
# links:
#   - {between: [default, elsewhere], gb_per_s: 1.25, latency_ms: 1}
"""


def init(line: str) -> str:
    """The text of a cluster file that reads back to the cluster of `--gpus line`. Raises InputError.

    >>> init("2xL40S").splitlines()[3]
    'nodes:'
    """
    cluster = from_gpus(line)
    body = "\n".join(text for node in cluster.classes for text in _entry(node))
    return f"{HEAD}name: {value_text(cluster.name)}\nnodes:\n{body}\n{FOOT}"


def _entry(node: NodeClass) -> Iterator[str]:
    """Lines of one entry, each figure with what it means and where it is from."""
    rows = list(_fields(node))
    width = max(len(field) for field, _ in rows)
    for i, (field, comment) in enumerate(rows):
        yield f"  {'- ' if i == 0 else '  '}{field:<{width}}  # {comment}" if comment else f"    {field}"
    watts = node.device.tdp_watts * node.gpus_per_node
    yield (
        f"    # power_cap_watts: {watts:g}   # of the whole node; without it each GPU may draw its "
        f"{node.device.tdp_watts:g} W"
    )
    if not node.device.unified_memory:
        yield "    # host: {memory_gb: 512, gb_per_s: 300}   # lets weights rest in host memory"
    yield "    # spot: true, availability: 0.99   # where the node may be taken away"


def _fields(node: NodeClass) -> Iterator[tuple[str, str]]:
    d, gib = node.device, node.device.memory_gb * 1e9 / 2**30
    rate = d.tflops.get("bf16") or d.tflops["fp16"]
    yield f"name: {node.id}", "nodes are called " + f"{node.id}-0, {node.id}-1, ..."
    yield f"count: {node.node_count}", "identical nodes"
    yield (
        f"device: {d.name}",
        f"{gib:.4g} GiB at {d.memory_gb_per_s:,g} GB/s, {rate:,.4g} TFLOP/s in 16 bit, {d.tdp_watts:g} W",
    )
    yield f"gpus_per_node: {node.gpus_per_node}", ""
    if node.price_usd_per_hour is None:
        yield (
            "# price_usd_per_hour: 1.0",
            "the whole node; no price is known here, --objective cost needs one",
        )
    else:
        each = f"{node.gpus_per_node} x {d.price_usd_per_gpu_hour:g}"
        yield (
            f"price_usd_per_hour: {value_text(node.price_usd_per_hour)}",
            f"the whole node, {each}: {d.sources.get('price', 'no source')}",
        )
    yield f"scale_up_gpus: {node.scale_up_gpus}", f"GPUs that {d.intra_link} joins"
    yield f"intra_gb_per_s: {value_text(node.intra_bytes_per_s / 1e9)}", "between them, per GPU"
    gbit = node.nic_bytes_per_s * 8e-9
    source = d.sources.get("nic", "usual for the device")
    yield (
        f"nic_gb_per_s: {value_text(node.nic_bytes_per_s / 1e9)}",
        f"between nodes, per GPU: {gbit:g} Gbit/s, {source}",
    )
    yield f"nic: {node.nic}", "infiniband, roce or ethernet"
    yield f"zone: {node.zone}", ""
