"""What a fleet problem is made of and what its solution says; maths and units are in `solvers/fleet`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from solvers.linear import Floats, Linear, Status, Term, Var

What = Literal["usd_per_hour", "gpus", "watts", "latency"]
"""What a fleet spends, as budgets name it."""

Pair = tuple[str, str, str]
"""(prefill group, decode group, bucket)."""


@dataclass(frozen=True)
class Column:
    """One replica design at one operating point. `use[j]`: the buckets it may serve -> share of a replica.

    It stands on nodes of `stock` as one block of `gpus`; or as `blocks` (stock, GPUs), each inside a node, on
    several stocks, of which `stock` is the first and `gpus` the GPUs of all. `tangents` (a replica, a
    request/s of each bucket) stand for `watts`, or for `latency`: `costs.py`.
    """

    stock: str
    gpus: int
    use: Mapping[str, Mapping[str, float]]
    watts: float = 0.0
    latency: Mapping[str, float] = field(default_factory=dict)
    group: str | None = None  # None: mixed; else its prefill or decode group
    joined: bool = False  # spans nodes and needs one scale-up domain
    price: float = 0.0  # beside that of its nodes
    blocks: tuple[tuple[str, int], ...] = ()
    sent: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # link -> bucket -> bytes a request
    tangents: Sequence[tuple[float, Mapping[str, float]]] = ()
    feeds: Mapping[str, float] = field(default_factory=dict)  # watts of a replica on each: `feeds.py`
    least: float = 0.0  # requests/s of all buckets that each of its replicas serves at least
    waits: Mapping[str, Sequence[tuple[float, Mapping[str, float]]]] = field(
        default_factory=dict
    )  # `waits.py`

    @cached_property
    def stands(self) -> Mapping[tuple[str, int], int]:
        """How many blocks of each (stock, GPUs) one replica takes."""
        return Counter(self.blocks or ((self.stock, self.gpus),))

    def gpus_on(self, stock: str) -> int:
        """GPUs of one replica on a stock."""
        return sum(gpus * times for (g, gpus), times in self.stands.items() if g == stock)

    @property
    def first(self) -> Mapping[str, float]:
        """The use of its first resource: time."""
        return next(iter(self.use.values()))

    @property
    def buckets(self) -> Sequence[str]:
        return list(self.first)


@dataclass(frozen=True)
class Stock:
    """Nodes of one class."""

    nodes: int
    gpus_per_node: int
    price: float | None = None
    domain_nodes: int = 1
    idle_watts: float = 0.0  # of a GPU in no replica
    box: str | None = None  # stocks of one box are parts of the same nodes, whose price each of them has

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    def span(self, gpus: int) -> int:
        """Nodes that a replica of `gpus` takes whole; 0 where it shares a node.

        >>> [Stock(4, 8).span(gpus) for gpus in (2, 8, 12)]
        [0, 0, 2]
        """
        return 0 if gpus <= self.gpus_per_node else -(-gpus // self.gpus_per_node)

    def price_of(self, gpus: int) -> float:
        """Dollars an hour of so many of its GPUs; nothing where no price is known."""
        return (self.price or 0.0) * gpus / self.gpus_per_node

    def most(self, gpus: int) -> int:
        """No more replicas of `gpus` than this fit."""
        span = self.span(gpus)
        return self.nodes // span if span else self.nodes * (self.gpus_per_node // gpus)


@dataclass(frozen=True)
class Transfer:
    """What one request of a pair moves, over which links, and how long that takes; whether NICs or what is
    `inside` a node may limit it."""

    bytes: float
    latency: float = 0.0
    links: tuple[str, ...] = ()
    on_nic: bool = True
    inside: bool = False


@dataclass(frozen=True)
class Goal:
    """What a fleet is chosen by: its terms of the model, always minimised, and its value of a fleet; what it
    spends where that is all; whether `more` of it is better."""

    name: str
    terms: Callable[[FleetProblem, Built], list[Term]]
    value: Callable[[FleetProblem, FleetSolution], float]
    spends: What | None = None
    more: bool = False

    @property
    def sign(self) -> float:
        """The factor of a value that makes less the better."""
        return -1.0 if self.more else 1.0


@dataclass(frozen=True)
class Survive:
    """When any `nodes` are lost, the rest serves `share` of the rate; `sure`: whichever they are, else in the
    mean over them. `survive.py` has both."""

    nodes: int
    share: float
    sure: bool = False


@dataclass(frozen=True)
class Wait:
    """A limit on what requests of a bucket wait for in the mean; whether the `moves` of pairs count."""

    bucket: str
    seconds: float
    moves: bool = False


@dataclass(frozen=True)
class FleetProblem:
    """Numbers only, keyed by id; units: docstring of `solvers/fleet`. A column that `kinds` does not name
    is a kind by itself."""

    columns: Mapping[str, Column]
    stocks: Mapping[str, Stock]
    share: Mapping[str, float]
    objective: Goal
    demand: float | None = None
    pairs: Mapping[Pair, Transfer] = field(default_factory=dict)
    nic: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)
    budget: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    most_kinds: int | None = None
    survive: Survive | None = None
    feeds: Mapping[str, float] = field(default_factory=dict)  # watts: `feeds.py`
    inside: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)  # by the names that columns have lines for

    def __post_init__(self) -> None:
        """Numbers that would make the answer wrong in silence are mistakes of the caller."""
        if self.demand is None and not self.objective.more:
            raise ValueError(f"objective {self.objective.name} needs a demand")
        if self.counts("usd_per_hour"):
            used = {g for c in self.columns.values() for g, _ in c.stands}
            unpriced = sorted(g for g in used if self.stocks[g].price is None)
            if unpriced:
                raise ValueError(f"no price for {', '.join(unpriced)}")
        for c, column in self.columns.items():
            if any(u < 0 for use in column.use.values() for u in use.values()):
                raise ValueError(f"{c} would be freed by the requests it serves")

    def counts(self, what: What) -> bool:
        """Whether what a fleet spends of it is minimised or limited."""
        return self.objective.spends == what or what in self.budget

    def kind(self, c: str) -> str:
        """The kind of column `c`."""
        return self.kinds.get(c, c)

    def most(self, column: Column) -> int:
        """No more replicas of `column` than this fit on all nodes."""
        return min(self.stocks[g].most(gpus) // times for (g, gpus), times in column.stands.items())

    def standings(self) -> dict[Hashable, list[str]]:
        """Columns of one kind on the same blocks: one design at several loads."""
        alike: dict[Hashable, list[str]] = {}
        for c, column in self.columns.items():
            alike.setdefault((self.kind(c), tuple(sorted(column.stands.items()))), []).append(c)
        return alike

    def groups(self) -> dict[str, list[str]]:
        """Columns of each prefill and decode group."""
        members: dict[str, list[str]] = {}
        for c, column in self.columns.items():
            if column.group is not None:
                members.setdefault(column.group, []).append(c)
        return members


@dataclass(frozen=True)
class FleetSolution:
    """`objective` and `bound` in the problem's sense; counts without zeros; `point` to start another from,
    of the columns `among`, where it is not of all; `least`: the best objective that a fleet with each column
    can have, where that is known; `held`: replicas of a standing on a node of a class, where the program
    looks at nodes by themselves."""

    status: Status
    objective: float | None
    bound: float | None
    solver: str
    replicas: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    flows: Mapping[tuple[str, str], float] = field(default_factory=dict)
    pair_flows: Mapping[Pair, float] = field(default_factory=dict)
    rate: float = 0.0
    point: Floats | None = None
    among: Sequence[str] = ()
    least: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[tuple[str, int, Hashable], int] = field(default_factory=dict)

    @property
    def refuted(self) -> bool:
        """Whether it proves that no fleet serves anything: it says so, or the most there is, is nothing. A
        search that was stopped, or whose fleets do not keep what they promise, does not."""
        nothing = self.status == "optimal" and self.rate <= 0
        return self.objective is None and (self.status == "infeasible" or nothing)

    def unbroken(self) -> FleetSolution:
        """Itself. Raises KeyboardInterrupt where Ctrl-C broke the search off."""
        if self.status == "interrupted":
            raise KeyboardInterrupt
        return self


@dataclass(frozen=True)
class Built:
    """The model; 1 of f[c, w] and of x[P, D, w] is `unit[w]` requests/s, 1 of rate is `reference`, 1 of e[c]
    is `scale[c]`."""

    model: Linear
    n: Mapping[str, Var]
    y: Mapping[str, Var]
    f: Mapping[tuple[str, str], Var]
    x: Mapping[Pair, Var]
    idle: Mapping[str, Var]
    rate: Var
    reference: float
    unit: Mapping[str, float]
    e: Mapping[str, Var] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    u: Mapping[str, Var] = field(default_factory=dict)
    at: Mapping[tuple[str, int, Hashable], Var] = field(default_factory=dict)
    paid: Mapping[str, Var] = field(default_factory=dict)
    z: Mapping[tuple[str, str], Var] = field(default_factory=dict)
