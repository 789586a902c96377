"""`python -m benchmarks.placement_scale [--seeds 1] [--seconds 60]`: 80 layers on 200 nodes, timed.

Clusters are drawn: six classes of node spread unevenly over five zones, links inside a zone that never bind
and a slower one between any two nodes of different zones. A node's tokens/s are a roofline of its memory:
weights and KV cache are read once a pass, the batch is what fits.

For each: the flow and the bound of `placement.solve`, then one node leaves and the
layers are placed again (ten nodes in turn: the worst of each figure).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.formulations import placement
from solvers.linear import Limits, gap
from solvers.placement import replan as placement_replan
from solvers.placement.types import Network

CLASSES = {
    "a100-80": (80e9, 2039e9, 312e12),
    "a100-40": (40e9, 1555e9, 312e12),
    "l40s": (48e9, 864e9, 362e12),
    "a10": (24e9, 600e9, 125e12),
    "v100-32": (32e9, 900e9, 125e12),
    "t4": (16e9, 320e9, 65e12),
}
"""Memory bytes, memory bytes/s, dense fp16 FLOP/s of the makers' data sheets."""
LAYERS, LAYER_BYTES, KV_BYTES, ACTIVATION_BYTES = 80, 1.71e9, 4096.0, 16384.0
"""Llama-2-70B in fp16: a layer's weights, a token's KV cache in one layer, what one token sends."""
CONTEXT, BATCH, USABLE = 1000.0, 512, 0.9
ZONES, NODES, LEAVES = 5, 200, 10
LINKS_GBIT_PER_S = (10.0, 1.0, 0.1, 0.01)


def capacity(name: str) -> tuple[float, ...]:
    """Tokens/s of a node that holds 1, 2, ... layers."""
    memory, bandwidth, flops = CLASSES[name]
    found = []
    for k in range(1, LAYERS + 1):
        free = USABLE * memory - k * LAYER_BYTES
        batch = min(BATCH, int(free / (k * CONTEXT * KV_BYTES)))
        if batch < 1:
            break
        read = (LAYER_BYTES + batch * CONTEXT * KV_BYTES) / bandwidth
        found.append(batch / (k * max(read, batch * LAYER_BYTES / flops)))
    return tuple(found)


def cluster(seed: int, gbit_per_s: float, nodes: int = NODES, zones: int = ZONES) -> Network:
    """A drawn cluster; between zones each pair of nodes has a link of `gbit_per_s`, varied by a fifth."""
    draw = np.random.default_rng(seed)
    kinds = tuple(
        str(k) for k in draw.choice(list(CLASSES), nodes, p=draw.dirichlet(np.full(len(CLASSES), 3)))
    )
    zone = np.sort(draw.choice(zones, nodes, p=draw.dirichlet(np.full(zones, 5))))
    inside, token = 25e9 / 8 / ACTIVATION_BYTES, 25e9 / 8 / 4
    between = gbit_per_s * 1e9 / 8 / ACTIVATION_BYTES * draw.uniform(0.8, 1.2, (nodes, nodes))
    link = np.where(zone[:, None] == zone[None, :], np.inf, np.minimum(between, inside))
    table = {name: tuple(min(c, inside) for c in capacity(name)) for name in CLASSES}
    return Network(LAYERS, table, kinds, link, np.full(nodes, token), np.full(nodes, token))


def _row(network: Network, seconds: float) -> str:
    began = time.perf_counter()
    found = placement.solve(network, "maxflow", Limits(seconds=seconds, gap=0.05))
    took, lost, loaded, longest = time.perf_counter() - began, 0.0, 0, 0.0
    for gone in range(0, len(network.kinds), len(network.kinds) // LEAVES):
        began = time.perf_counter()
        again = placement_replan.replan(network, found.intervals, {gone})
        longest = max(longest, time.perf_counter() - began)
        lost, loaded = max(lost, 1 - again.after / again.before), max(loaded, again.moved_layers)
    off = gap(found.tokens_per_s, found.bound)
    return (
        f"{found.tokens_per_s:9.1f}  {found.bound:9.1f}  {off:5.1%}  {took:7.1f} |"
        f"        {lost:9.1%}  {loaded:13}  {longest:7.2f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement_scale")
    parser.add_argument("--seeds", type=int, default=1, help="clusters a link (1)")
    parser.add_argument("--seconds", type=float, default=60, help="limit of a cluster (60)")
    options = parser.parse_args(argv)
    print("seed  Gbit/s      tok/s      bound    gap  seconds | one leaves:   lost  layers loaded  seconds")
    for seed in range(options.seeds):
        for speed in LINKS_GBIT_PER_S:
            print(f"{seed:4}  {speed:6}  {_row(cluster(seed, speed), options.seconds)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
