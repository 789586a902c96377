"""Purchases against every mix of small markets, and prices at which they change against a scan:
`python -m benchmarks.buy`.

Markets are drawn by `--seed`: three offers of one GPU each at random prices, an 8B model, and either a budget
or a rate. Every mix that the money buys is planned by itself.

    found, best  requests/s (budget) or $/h (rate) of the purchase, and of the best of all mixes
    better       the purchase against the best mix: below 0 % it missed one
    bound        the best mix against the purchase's bound: above 0 % it would prove the bound false
    prices       at how many of `--scan` prices of each offer between a tenth and ten times its own the mix is
                 the cheapest exactly where the prices found say so, of how many (rates)

Then the shipped list of rents: seconds of a purchase, and how far it is from the bound.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner import api
from planner.buy.answer import Purchase
from planner.buy.find import Wish, asked_of, buy
from planner.buy.market import Market
from planner.buy.outlook import WIDE, Prices
from planner.errors import Infeasible

PRICES = {
    "l4": 0.7,
    "a10": 0.9,
    "l40s": 1.5,
    "a100-pcie": 1.6,
    "rtx-a6000": 0.6,
    "h100-pcie": 2.4,
    "h200-sxm": 3.5,
}
"""US$ an hour of one GPU, about; drawn between 0.7 and 1.4 times that."""

LIMITS: dict[str, Any] = {"engine": "vllm", "ttft_ms": 2000, "tpot_ms": 60}
"""Asked for: limits that are only defaulted give way where nothing keeps them."""

SMALL, LARGE = "llama-3.1-8b", ("qwen3-32b", "llama-3.1-70b")


@dataclass(frozen=True)
class Case:
    """Offers of one GPU with their prices, and a budget or a rate."""

    offers: tuple[tuple[str, float], ...]
    budget: float | None
    rate: float | None

    def __str__(self) -> str:
        asked = f"${self.budget:g}/h" if self.budget else f"{self.rate:g} req/s"
        return ", ".join(f"{name} {price:g}" for name, price in self.offers) + f": {asked}"


def cases(count: int, seed: int) -> Iterator[Case]:
    """Random markets, by turns with a budget and with a rate."""
    rng = random.Random(seed)
    for i in range(count):
        names = rng.sample(sorted(PRICES), 3)
        offers = tuple((name, round(PRICES[name] * rng.uniform(0.7, 1.4), 2)) for name in names)
        budget = round(rng.uniform(2.0, 4.5), 1) if i % 2 == 0 else None
        yield Case(offers, budget, None if budget else round(rng.uniform(8.0, 40.0), 1))


def main() -> None:
    """Print a row for each market."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.buy")
    parser.add_argument("--markets", type=int, default=12)
    parser.add_argument("--scan", type=int, default=12, help="prices of each offer")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{'':58}{'found':>8}{'best':>8}{'mixes':>6}{'better':>8}{'bound':>8}{'prices':>9}")
    for case in cases(asked.markets, asked.seed):
        print(row(case, asked.scan), flush=True)
    print(f"\n{'all shipped rents':42}{'takes':>10}{'req/s':>9}{'gap':>7}{'s':>7}")
    for model in (SMALL, *LARGE):
        for budget, rate in (("50$/h", None), ("500$/h", None), (None, 20.0), (None, 200.0)):
            print(shipped(model, budget, rate), flush=True)


def row(case: Case, scan: int) -> str:
    """One market, bought from and tried."""
    found, offered, wish = bought(case)
    best, tried = best_mix(case, found.takes)
    sign = 1 if case.rate is None else -1
    better, under = sign * (found.value / best - 1), sign * (best / found.bound - 1)
    told = f"{case!s:58}{found.value:8.3f}{best:8.3f}{tried:6}{100 * better:7.2f}%{100 * under:7.2f}%"
    return told if case.rate is None else f"{told}{scanned(found, offered, wish, scan):>9}"


def bought(case: Case) -> tuple[Purchase, Market, Wish]:
    """The purchase from a list of the case's offers."""
    offers = "".join(
        f"  - {{name: {name}-1, device: {name}, gpus_per_node: 1, price_usd_per_hour: {price}}}\n"
        for name, price in case.offers
    )
    wish = asked_of(
        SMALL,
        f"{case.budget}$/h" if case.budget else None,
        lambda text: None,
        rate=case.rate,
        gap=0.0,
        **LIMITS,
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "offers.yaml"
        path.write_text(f"name: offers\nnodes:\n{offers}")
        return *buy(None, str(path), wish), wish


def best_mix(case: Case, takes: float) -> tuple[float, int]:
    """The most that a mix within the budget serves, or the least that one takes which serves the rate, of all
    that take no more than the purchase; and how many were tried."""
    money = case.budget or takes
    values = list[float]()
    every = [range(int(money / price + 1e-9) + 1) for _, price in case.offers]
    mixes = [mix for mix in product(*every) if any(mix) and price_of(case, mix) <= money * (1 + 1e-9)]
    for mix in mixes:
        served = alone(case, mix)
        if served is not None:
            values.append(served if case.rate is None else price_of(case, mix))
    return (max(values) if case.rate is None else min(values)), len(mixes)


def price_of(case: Case, mix: tuple[int, ...]) -> float:
    """Dollars an hour of so many nodes of each offer."""
    return sum(n * price for n, (_, price) in zip(mix, case.offers, strict=True))


def alone(case: Case, mix: tuple[int, ...]) -> float | None:
    """Requests/s of a mix planned by itself; None: it does not serve the rate, or anything."""
    from cluster_configs.resolving import resolve
    from cluster_configs.schema import Cluster

    nodes = [
        {"name": f"{name}-1", "device": name, "gpus_per_node": 1, "count": n, "price_usd_per_hour": price}
        for n, (name, price) in zip(mix, case.offers, strict=True)
        if n
    ]
    cluster = resolve(Cluster.model_validate({"name": "mix", "nodes": nodes}))
    try:
        plan = api.plan(cluster, SMALL, rate=case.rate, gap=0.0, simple=0.0, explain=False, **LIMITS)
    except Infeasible:
        return None
    return plan.predicted.rps.value


def scanned(found: Purchase, offered: Market, wish: Wish, scan: int) -> str:
    """At how many prices of a scan the mix is the cheapest just where it is said to be, of all."""
    prices, right, tried = Prices(found, offered, wish), 0, 0
    for name in offered.offers:
        one, mine = prices.of(name), prices.own(name)
        for i in range(scan):
            price = one.price * WIDE ** (2 * (i + 0.5) / scan - 1)
            said = (one.below or 0.0) <= price <= (one.above or float("inf"))
            least = prices.cheapest(name, price)
            cheapest = least is None or least.at(price) >= mine.at(price) * (1 - 1e-6)
            right, tried = right + (said == cheapest), tried + 1
    return f"{right}/{tried}"


def shipped(model: str, budget: str | None, rate: float | None) -> str:
    """A purchase from the list of rents that is shipped."""
    began = time.perf_counter()
    found, _ = buy(None, "rented", asked_of(model, budget, lambda text: None, rate=rate))
    took = time.perf_counter() - began
    what = f"{model}, {budget or f'{rate:g} req/s'}"
    rps = found.plan.predicted.rps.value
    return f"{what:42}{found.takes:10.2f}{rps:9.1f}{100 * found.gap:6.2f}%{took:7.1f}"


if __name__ == "__main__":
    main()
