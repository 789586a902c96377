"""A plan opened up: its embedded problem parsed, its groups by name, and the load that its routing puts on
each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ClusterLink, Device, NodeClass, ResolvedCluster
from model_zoo.schema import ModelCard
from planner.check.violation import Violation
from planner.check.weights import Away
from planner.errors import InputError
from planner.inputs.options import Options
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Bucket, Workload
from planner.plans.schema import Hop, Loss, Plan, Replica, Route

MOST_LAYERS = 10_000
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Load:
    """Requests/s of each bucket that one group of equal replicas serves (or prefills, or decodes)."""

    buckets: tuple[tuple[Bucket, float], ...]

    @property
    def rps(self) -> float:
        """All requests of the group together, 1/s."""
        return sum(rate for _, rate in self.buckets)

    @property
    def decode_tok_per_s(self) -> float:
        """Tokens made by decode steps: all but the first of each request."""
        return sum(rate * (bucket.osl - 1) for bucket, rate in self.buckets)

    @property
    def decode_rps(self) -> float:
        """Requests that have a token to decode after their first, 1/s."""
        return sum(rate for bucket, rate in self.buckets if bucket.osl > 1)

    @property
    def prompt(self) -> float:
        """Tokens of the mean prompt."""
        return sum(rate * bucket.isl for bucket, rate in self.buckets) / self.rps if self.rps else 0.0


class Measured(BaseModel):
    """What `problem.calibration` says of the user's own table: its rows, and the design of each group."""

    profile: tuple[ProfileRow, ...] = ()
    designs: dict[str, str] = {}


@dataclass(frozen=True)
class Case:
    """What all rules are checked on. `card` is None where the plan rests on measurements and embeds no
    model."""

    plan: Plan
    cluster: ResolvedCluster
    card: ModelCard | None
    workload: Workload
    options: Options
    table: Measured

    @property
    def goal(self) -> str:
        """The objective asked for; unasked, the contract's default."""
        if self.options.objective:
            return self.options.objective
        if self.workload.loop == "closed":
            return "throughput"
        return "cost" if all(n.price_usd_per_hour is not None for n in self.cluster.classes) else "gpus"

    @cached_property
    def classes(self) -> dict[str, NodeClass]:
        """Node classes by id."""
        return {node.id: node for node in self.cluster.classes}

    @cached_property
    def groups(self) -> dict[str, Replica]:
        """Replica groups by id; the first where an id is used twice."""
        return {replica.id: replica for replica in reversed(self.plan.replicas)}

    def mean(self, figure: Callable[[Bucket], float]) -> float:
        """Mean of a bucket's figure over all requests."""
        buckets = zip(self.workload.buckets, self.workload.shares, strict=True)
        return sum(share * figure(bucket) for bucket, share in buckets)

    @cached_property
    def rps(self) -> float:
        """Requests/s the plan promises."""
        return self.plan.predicted.rps.value

    def route_rps(self, route: Route) -> float:
        """Requests/s of one route; 0 for a bucket that does not exist."""
        if not 0 <= route.bucket < len(self.workload.buckets):
            return 0.0
        return self.rps * self.workload.shares[route.bucket] * route.share

    @cached_property
    def loads(self) -> dict[str, Load]:
        """Load by group id; of a chain group all visits to its nodes, however few layers they use."""
        found: dict[str, list[tuple[Bucket, float]]] = {name: [] for name in self.groups}
        for route in self.plan.routing:
            for name in {route.replica, route.prefill, route.decode} & found.keys():
                if rate := self.route_rps(route):
                    found[str(name)].append((self.workload.buckets[route.bucket], rate))
        visits: dict[str, float] = defaultdict(float)
        for chain in self.plan.chains:
            for hop in chain.hops:
                visits[hop.replica] += chain.share
        for name in visits.keys() & found.keys():
            found[name] += [(bucket, visits[name] * rate) for bucket, rate in self.chain_load.buckets]
        return {name: Load(tuple(buckets)) for name, buckets in found.items()}

    @cached_property
    def chain_load(self) -> Load:
        """All requests that take chains."""
        rates = [(route.bucket, self.route_rps(route)) for route in self.plan.routing if route.chains]
        return Load(tuple((self.workload.buckets[bucket], rate) for bucket, rate in rates if rate))

    def away(self, replica: Replica) -> Away:
        """What of the replica lies beside its GPUs."""
        mine = [part for part in self.plan.tiers if part.replica == replica.id]
        experts: dict[int, float] = defaultdict(float)
        for part in mine:
            for first, end in part.layers if part.what == "experts" else []:
                for layer in range(max(first, 0), min(end, MOST_LAYERS)):
                    experts[layer] += part.share
        whole = [part for part in mine if part.what == "layers"]
        ends = [end for part in whole if part.stage is None for _, end in part.layers]
        after: dict[int, int] = {}
        for part in whole:
            if part.stage is not None and 0 <= part.stage < len(replica.stages):
                last = max((end for _, end in part.layers), default=0)
                after[part.stage] = max(last - replica.stages[part.stage].layers[1], 0)
        weights = (run for part in mine if part.what == "weights" for run in part.layers)
        streamed = (i for first, end in weights for i in range(max(first, 0), min(end, MOST_LAYERS)))
        return Away(max(ends, default=0), experts, frozenset(streamed), after)

    def new_tokens(self, replica: Replica, bucket: Bucket) -> float:
        """Prompt tokens of a bucket that the group computes: those that are not found in its cache."""
        if replica.kept is None:
            return max(bucket.isl * (1 - self.workload.prefix_hit), 1.0)
        found = zip(self.workload.buckets, replica.kept.found_tokens, strict=False)
        most = max((tokens for own, tokens in found if own == bucket), default=0.0)
        return max(bucket.isl - most, 1.0)

    def new_prompt(self, replica: Replica, load: Load) -> float:
        """Tokens of the mean prompt that the group computes at a load."""
        new = sum(rate * self.new_tokens(replica, b) for b, rate in load.buckets)
        return new / load.rps if load.rps else 1.0

    def class_of(self, hop: Hop) -> NodeClass:
        """The class of a hop's node."""
        return self.classes[self.groups[hop.replica].stages[0].node_class]

    def link(self, a: NodeClass, b: NodeClass) -> ClusterLink | None:
        """The declared link between two classes, by zone or by name."""
        return next((link for link in self.cluster.links if link.joins(a, b)), None)

    def measured(self, replica: Replica) -> bool:
        """Whether the group rests on the user's table, says so, and states no step times of its own."""
        step = replica.step
        timed = step.decode_s or step.prefill_s or step.engine_s
        return replica.engine == "measured" and not timed and self.has_warning("measured_profile")

    def has_warning(self, code: str) -> bool:
        """Whether the plan says so itself."""
        return any(warning.code == code for warning in self.plan.warnings)


def gpus_of(replica: Replica, node_class: str | None = None) -> int:
    """GPUs of one replica: on a class, by its id, or on all."""
    return sum(stage.gpus for stage in replica.stages if node_class in (None, stage.node_class))


def open_case(plan: Plan) -> Case | list[Violation]:
    """The case, or what is wrong with the problem that the plan embeds."""
    problem = plan.problem
    broken: list[Violation] = []

    def parsed(model: type[M], data: object, where: str) -> M | None:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            broken.extend(_complaints(error, f"problem.{where}"))
            return None

    cluster = parsed(Cluster, problem.cluster, "cluster")
    workload = parsed(Workload, problem.workload, "workload")
    options = parsed(Options, problem.options, "options")
    card = parsed(ModelCard, problem.model, "model") if problem.model else None
    table = parsed(Measured, problem.calibration, "calibration")
    devices = {name: parsed(Device, data, f"devices.{name}") for name, data in problem.devices.items()}
    layers = sum(run.times * len(run.of) for run in card.layers) if card else 0
    if layers > MOST_LAYERS:
        text = f"{layers} layers: no model has as many"
        broken.append(Violation("bad_problem", "problem.model.layers", text))
    if broken or cluster is None or workload is None or options is None or table is None:
        return broken
    try:
        resolved = resolve(cluster, devices={name: device for name, device in devices.items() if device})
    except InputError as error:
        return [Violation("bad_problem", "problem.cluster", error.message)]
    return Case(plan, resolved, card, workload, options, table)


def _complaints(error: ValidationError, where: str) -> list[Violation]:
    """Each complaint of the schema as a violation `bad_problem`."""
    return [
        Violation("bad_problem", ".".join([where, *map(str, e["loc"])]), str(e["msg"]))
        for e in error.errors()
    ]


def rests(case: Case) -> Iterator[tuple[Loss, Case]]:
    """Each loss, and the case of the other replicas with the share of the rate that they are to serve."""
    told = case.plan.survives
    for loss in told.losses if told else []:
        left = ((r, r.count - loss.lost.get(r.id, 0)) for r in case.plan.replicas)
        rate = case.plan.predicted.rps.model_copy(update={"value": told.share * case.rps if told else 0.0})
        rest = {
            "replicas": [r.model_copy(update={"count": count}) for r, count in left if count > 0],
            "routing": loss.routing,
            "predicted": case.plan.predicted.model_copy(update={"rps": rate}),
            "survives": None,
        }
        yield loss, replace(case, plan=case.plan.model_copy(update=rest))
