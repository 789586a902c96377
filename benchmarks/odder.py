"""Odd problems of other commands than `plan`, by `python -m benchmarks.odd --of NAME`: price lists of
thousands of offers, days and weeks of traffic, clusters of a million GPUs. Each keeps its time limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from benchmarks.fuzz.writing import written

Asked = tuple[dict[str, bytes], str]
"""Files by name, and the command with its options but the time limit."""

MODELS = ("qwen3-0.6b", "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "gpt-oss-20b")


@cache
def _priced() -> tuple[tuple[str, float], ...]:
    """Devices with a price of a GPU's hour."""
    from cluster_configs.devices import load, names

    each = ((name, load(name).price_usd_per_gpu_hour) for name in names())
    return tuple((name, price) for name, price in each if price)


def _offer(r: random.Random, i: int) -> dict[str, Any]:
    device, price = r.choice(_priced())
    gpus = r.choice((1, 2, 4, 8))
    return {
        "name": f"o{i}",
        "device": device,
        "gpus_per_node": gpus,
        "nic_gb_per_s": round(r.uniform(1, 50), 2),
        "price_usd_per_hour": round(gpus * price * r.uniform(0.5, 2), 3),
    } | ({"count": r.choice((1, 3))} if r.random() < 0.2 else {})


def purchase(r: random.Random) -> Asked:
    """Up to 3,000 offers, for a rate or a budget."""
    many = r.choice((1, 5, 40, 120, 500, 3000))
    offers = {"name": "offers", "nodes": [_offer(r, i) for i in range(many)]}
    wanted = r.choice(("--rate 0.01", "--rate 5", "--rate 90", "--budget 3$/h", "--budget 400$/h"))
    outlook = " --outlook" if r.random() < 0.2 else ""
    command = f"buy --prices offers.yaml -m {r.choice(MODELS)} {wanted}{outlook} -o plan.json"
    return {"offers.yaml": written("offers.yaml", offers)}, command


def day(r: random.Random) -> Asked:
    """Up to a week by the hour on up to six classes, some of them spot."""
    slots = r.choice((1, 2, 24, 168))
    nodes = [
        _offer(r, i) | {"count": r.choice((1, 4, 200)), "spot": r.random() < 0.3}
        for i in range(r.choice((1, 2, 6)))
    ]
    rates = [r.choice((0, 0.01, 1, 8, 60)) for _ in range(slots)]
    traffic = {"slot_s": r.choice((300, 3600)), "rate_rps": rates if any(rates) else [1, *rates[1:]]}
    lengths = {"isl": r.choice((64, 2000, 30_000)), "osl": r.choice((1, 300))}
    load = {"name": "day", **lengths, "rate_rps": 1, "traffic": traffic}
    files = {"c.yaml": written("c.yaml", {"name": "c", "nodes": nodes}), "w.yaml": written("w.yaml", load)}
    return files, f"schedule c.yaml -m {r.choice(MODELS)} -w w.yaml -o day.csv"


def vast(r: random.Random) -> Asked:
    """Up to a million nodes, for a few requests or for as many as they serve."""
    nodes = [
        _offer(r, i) | {"count": r.choice((1, 1800, 60_000, 999_000)), "gpus_per_node": r.choice((1, 8, 16))}
        for i in range(r.choice((1, 1, 2, 5)))
    ]
    goal = r.choice(("", "--rate 0.5", "--rate 40 --objective energy", "--rate 3000", "--percentile p95"))
    cluster = {"name": "vast", "nodes": nodes}
    return {"c.yaml": written("c.yaml", cluster)}, f"plan c.yaml -m {r.choice(MODELS)} {goal} -o plan.json"


KINDS: dict[str, Callable[[random.Random], Asked]] = {"buy": purchase, "schedule": day, "vast": vast}
