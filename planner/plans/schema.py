"""The Plan: the hub that check, reports, exporters, simulate, explain and diff depend on, and nothing else
of ours.

Names and meanings: the Plan JSON contract. It embeds the problem as used, so that a plan can be checked
alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

Role = Literal["mixed", "prefill", "decode", "attention", "ffn", "chain"]
Status = Literal["optimal", "within_gap", "time_limit", "interrupted"]
NonNegative = Annotated[FiniteFloat, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[FiniteFloat, Field(ge=0, le=1.000001)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Part):
    """All as used, defaults filled in; `defaulted` names what the user did not ask for ("slo.tpot_ms")."""

    cluster: dict[str, Any]  # the Cluster YAML form
    devices: dict[str, dict[str, Any]]  # by device name, overrides applied; the device YAML form
    model: dict[str, Any]  # the model card form
    model_id: str = ""  # under which engines load it: as it was asked for
    workload: dict[str, Any]  # the Workload YAML form
    options: dict[str, Any]
    defaulted: list[str] = []
    calibration: dict[str, Any] = {}

    @model_serializer(mode="wrap")
    def _without_an_id_that_nobody_gave(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if k != "model_id" or v}


class PrecisionUsed(Part):
    weights: str
    experts: str
    kv: str


class Stage(Part):
    """`gpus` of this stage in ONE replica, in all `nodes` together where count is 1; `layers` half-open.

    `node_class`: the class of the nodes; where a plan leaves it out, the name that its first node shares
    with the others of its class ("h" of "h-0").
    """

    device: str
    nodes: list[str]  # nodes that replicas of this kind may use
    node_class: str = Field(default="", validate_default=True)
    gpus: Count
    tp: Count
    layers: tuple[int, int]

    @field_validator("node_class")
    @classmethod
    def _class_of_first_node(cls, name: str, info: ValidationInfo) -> str:
        nodes = info.data.get("nodes")
        return name or (nodes[0].rpartition("-")[0] or nodes[0] if nodes else "")


class Step(Part):
    """At the operating point, from the cost model: one decode step; the prefill of one mean prompt; the
    engine's share. `by`: seconds of the decode step by what they go to, adding up to it: kinds of work
    ("attention"), or of a replica with weights in `Plan.tiers` resources ("host memory bandwidth"); empty
    where the plan does not tell."""

    decode_s: NonNegative
    prefill_s: NonNegative
    engine_s: NonNegative
    by: dict[str, NonNegative] = {}


class StageMemory(Part):
    """Bytes per GPU."""

    stage: int
    weights_bytes: NonNegative
    kv_bytes: NonNegative  # reserved for KV cache
    activation_bytes: NonNegative
    reserve_bytes: NonNegative
    capacity_bytes: NonNegative


class Cache(Part):
    """KV cache of one replica at the plan's load. `delayed`, `preempted`: shares of its requests that wait
    for room and that lose theirs to others, at most `preempted_limit` where the plan had the choice."""

    tokens_per_gpu: NonNegative  # of `kv_tokens`
    used: Share  # of the room, on average
    sequences: NonNegative  # that hold room, on average
    block_tokens: Count
    block_waste: Share  # of what is held: blocks that are not full
    delayed: Share
    preempted: Share
    preempted_limit: Share


class Price(Part):
    """What one more unit of a limit is worth: `worth` by solving again, `marginal` the LP dual (None: not
    solved)."""

    limit: str
    one_more: str
    worth: FiniteFloat
    unit: str
    marginal: FiniteFloat | None = None


class Assumption(Part):
    """What nobody told (`name`, as in `problem.defaulted`), and what the plan's kinds of replica would give
    with `what` in its place: as in `Alternative`; `objective` None: nothing."""

    name: str
    what: str
    objective: FiniteFloat | None
    loss: FiniteFloat | None


class KeptTime(Part):
    """Seconds that idle cache of one kind best stays in each tier, from the fastest on."""

    kind: str
    seconds: dict[str, NonNegative]


class Kept(Part):
    """KV cache that one replica keeps between requests, in `place` (all of it: what GPU memory holds, too, is
    not counted), at the plan's load.

    Every block stays `keep_s` after its last use at least, as the step times count on: then `found_tokens` of
    a prompt of each bucket are found, the share `hit` of all prompt tokens, and `bytes` rest on average.
    `shared_bytes`: beginnings that many requests have, in GPU memory. `lasts_s`: how long blocks stay by the
    room that is left. `best_adds`: what the best times to live by kind would save beyond that, as a share;
    `times` those times, over all tiers that the engine could use; `prices` of one more GB of each.
    """

    place: Literal["hbm", "host", "nvme", "remote"]
    keep_s: NonNegative
    lasts_s: NonNegative
    hit: Share
    found_tokens: list[NonNegative]
    bytes: NonNegative
    shared_bytes: NonNegative
    loads_gb_per_s: NonNegative
    best_adds: NonNegative
    times: list[KeptTime] = []
    prices: list[Price] = []


class Draft(Part):
    """What drafts beside each replica: `tokens` a step, of which `accepted` are kept on average. `model`: the
    card of a draft model. `weights_bytes` on one GPU; of "mtp" the model's own weights hold them. `option`:
    what tells the engine."""

    kind: Literal["mtp", "eagle", "ngram", "draft"]
    model: dict[str, Any] | None = None
    tokens: Count
    accepted: NonNegative
    weights_bytes: NonNegative
    option: str


class Launch(Part):
    """How one replica is started: `argv` under the model id that was asked for, `env` beside it, versions of
    the engine in which every flag was looked up. `ranks`: the commands of further nodes, where a replica
    stands on several. `files`: what the command reads, by name. No `argv` where no engine starts it as it
    comes; `notes` say why, and what else is to be known. Said, not checked."""

    argv: list[str]
    env: dict[str, str] = {}
    engine_versions: str = ""
    notes: list[str] = []
    ranks: list[list[str]] = []
    files: dict[str, str] = {}


class Replica(Part):
    """`count` equal replicas. tp * attn_dp * cp = moe_tp * ep = GPUs of one stage.

    A group of role "chain" has one stage, whose layers are those that each of its nodes holds; `count`: its
    nodes x what one of them holds side by side. Requests pass it as `Plan.chains` says, each holding a place
    of `max_batch` from its first token to its last; of `step`, decode_s [s] is a step of all its layers for
    max_batch sequences, prefill_s [s] the mean prompt through all its layers.

    Where stages differ in tp, `tp` is the widest (warning `uneven_tp`: no stock engine starts it).
    `utilisation` and `watts` may be left out: 0 then means "not stated".
    """

    id: str
    role: Role
    count: Count
    engine: str
    precision: PrecisionUsed
    tp: Count
    pp: Count
    attn_dp: Count
    moe_tp: Count
    ep: Count
    cp: Count = 1
    redundant_experts: Annotated[int, Field(ge=0)] = 0  # copies in each layer, over all ep ranks
    stages: list[Stage]
    max_batched_tokens: Count | None = None  # of a step, where the engine is told; None: its default
    max_batch: Count  # sequences in flight on one replica
    kv_tokens: NonNegative  # cache room of one replica, in tokens at the workload's mean context
    cache: Cache | None = None
    kept: Kept | None = None
    draft: Draft | None = None
    utilisation: NonNegative = 0.0  # busy share of one replica's bottleneck at this plan's load
    step: Step
    memory: list[StageMemory]
    watts: NonNegative = 0.0  # one replica
    launch: Launch | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_kept(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`kept`, `draft` and `launch` are written only where there is something."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if k not in ("kept", "draft", "launch") or v is not None}

    @property
    def emitted(self) -> float:
        """Tokens that a decode step gives each sequence."""
        return 1 + self.draft.accepted if self.draft else 1.0

    @property
    def token_s(self) -> float:
        """Seconds of a token of a sequence in decode steps without prompts."""
        return self.step.decode_s / self.emitted


class Route(Part):
    """Share of a bucket served by a replica group, or by a prefill and a decode group with `kv_gb_per_s`
    between them, or, where `chains` says so, by the plan's chains in their own shares."""

    bucket: int
    share: Share
    replica: str | None = None
    prefill: str | None = None
    decode: str | None = None
    kv_gb_per_s: NonNegative | None = None
    chains: bool = False


class Hop(Part):
    """A node that a chain passes, and the layers it runs there (half-open): all or a part of those that the
    node holds as one of the group `replica`."""

    node: str
    replica: str
    layers: tuple[int, int]


class Chain(Part):
    """Nodes that `share` of the requests routed to chains pass in order: together they run every layer once.

    `ttft_s` [s] and `tpot_s` [s] are those of its mean request, queueing included: a prompt passes the nodes
    whole, one after the other, and every further token passes all of them once.
    """

    share: Share
    hops: list[Hop]
    ttft_s: NonNegative
    tpot_s: NonNegative


class ExpertMap(Part):
    """Where the experts of one replica group are, on the ep ranks of a stage.

    `redundant`: copies in each layer, over all ranks. `placement`: "in order" of the checkpoint, "balancer":
    by the engine's own while it serves, "map": `map`, experts in the slots of each rank by layer with
    experts. `hottest`: tokens of the fullest rank over the mean rank's, mean over layers (and steps);
    `in_order` the same without any balancing; `bound`: what no placement by the loads' sum is below.
    """

    replica: str
    ep: Count
    redundant: Annotated[int, Field(ge=0)]
    slots_per_rank: Count
    placement: Literal["in order", "balancer", "map"]
    hottest: Annotated[FiniteFloat, Field(ge=1)]
    in_order: Annotated[FiniteFloat, Field(ge=1)]
    bound: Annotated[FiniteFloat, Field(ge=1)] | None = None
    map: list[list[list[int]]] = []


class Experts(Part):
    """`loads`: where they come from ("assumed": by a law); `tokens` by layer and expert, where recorded."""

    loads: str
    tokens: list[list[NonNegative]] = []
    replicas: list[ExpertMap]


class Tiered(Part):
    """Weights of each replica of a group that lie beside its GPUs: of `layers` (half-open ranges) the routed
    experts, a `share` of them, or all else with its KV cache ("layers": then they come before the first
    stage), or all weights with the cache on the GPUs ("weights": copied in every step); or KV cache that
    rests between requests ("cache", `Replica.kept`; its `layers` are empty). `bytes` of one replica; `way`:
    computed on the CPU in a decode step, or copied to a GPU for it. `stage`: of a replica over several nodes,
    the stage whose node has it, right behind the stage's own layers; without it the last stage's node, which
    is the server, or the only one.
    """

    replica: str
    tier: Literal["host", "cxl", "nvme", "remote"]
    what: Literal["experts", "layers", "weights", "cache"]
    layers: list[tuple[int, int]]
    share: Share = 1.0
    bytes: NonNegative
    way: Literal["cpu", "pcie"] = "cpu"
    stage: int | None = None


class Band(Part):
    """A prediction with its 80 % band."""

    value: NonNegative
    low: NonNegative
    high: NonNegative


class Predicted(Part):
    """usd_per_mtok: per million *output* tokens. None where it cannot be known (no price, no rate).

    `watts`: of all GPUs of the cluster, those in no replica at rest. `chance_ttft`, `chance_tpot`: odds that
    what is measured keeps the limit, by the prediction's error, on the way through the fleet that keeps it
    worst; None without a limit, or where no prediction made the figure.
    """

    out_tok_per_s: Band
    total_tok_per_s: Band
    rps: Band
    ttft_ms: Band
    tpot_ms: Band
    utilisation: Band
    usd_per_hour: Band | None
    usd_per_mtok: Band | None
    watts: Band
    joules_per_tok: Band
    chance_ttft: Share | None = None
    chance_tpot: Share | None = None

    @model_serializer(mode="wrap")
    def _without_chances_of_no_limit(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Chances are written only where there are any."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v is not None or not k.startswith("chance_")}


class Cap(Part):
    """A limit that the space of designs was given: "utilisation" at 0.98. `binds`: a looser one may change
    the answer. `considered`, `left_out`: designs or columns that it was asked of, and those it kept out."""

    what: str
    value: FiniteFloat
    binds: bool
    considered: Annotated[int, Field(ge=0)] | None = None
    left_out: Annotated[int, Field(ge=0)] | None = None


class Space(Part):
    """What the bound speaks of; `caps`: every limit in force that is not an engine's or the model's own."""

    considered: int
    kept: int
    complete: bool
    what: str
    caps: list[Cap] = []


class KindCount(Part):
    """The best fleet found with at most so many kinds of replica (design x class x engine x role)."""

    kinds: Count
    objective: FiniteFloat


class Proof(Part):
    """gap = |bound - objective| / |objective|, all three of the best fleet found. `sense` and `unit` follow
    from the goal where they are left out.

    `chosen`: this plan's own objective, None where it is the best; `given_up` = |objective - chosen| /
    |objective|; `kinds`: objectives by kinds of replica, fewest first, the best fleet found last.
    """

    objective: FiniteFloat
    bound: FiniteFloat
    gap: NonNegative
    status: Status
    seconds: NonNegative
    solver: str
    seed: int
    space: Space
    sense: Literal["max", "min"] = "max"
    unit: str = ""
    chosen: FiniteFloat | None = None
    given_up: NonNegative = 0.0
    kinds: list[KindCount] = []

    @property
    def own(self) -> float:
        """The objective of this plan, which may be simpler than the best."""
        return self.objective if self.chosen is None else self.chosen

    @property
    def exit_code(self) -> int:
        """What a command that found this plan exits with."""
        return {"optimal": 0, "within_gap": 0, "time_limit": 4, "interrupted": 130}[self.status]


class PlanWarning(Part):
    model_config = ConfigDict(extra="allow", frozen=True)

    code: str
    message: str
    node_class: str | None = Field(default=None, alias="class")
    count: int | None = None
    reason: str | None = None


Ended = Literal["proven", "within_gap", "stopped", "none_found", "infeasible", "estimate"]
"""How the search for an alternative ended: at its `bound`, within the gap asked for, or out of time with a
fleet; out of time `seconds` long without one; with a proof that there is none. "estimate": formulas."""


class Alternative(Part):
    """Another way and what it loses against the plan's own objective, (plan - its objective) / plan, >= 0; of
    one that was stopped what its bound proves it to lose at least. `objective` None: there is none to show,
    and `status` says why (None in plans of before, which do not tell)."""

    what: str
    objective: FiniteFloat | None
    loss: FiniteFloat | None
    why: str
    status: Ended | None = None
    bound: FiniteFloat | None = None
    seconds: NonNegative | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_stated(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Status, bound and seconds are written only where there are any."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v is not None or k in ("objective", "loss")}


class LongPrompt(Part):
    """A way to compute the longest prompt by itself: when its first token is out, and the tokens of cache
    that one replica holds. `started_by`: the engine, or None where none starts it as it comes."""

    what: str
    ttft_ms: NonNegative
    kv_tokens: NonNegative
    started_by: str | None
    why: str = ""


class Standing(Part):
    """Nodes that have as many replicas of each group: `replicas`, on each of them at least a part of each."""

    nodes: list[str]
    replicas: dict[str, Count]


class Loss(Part):
    """A loss of nodes, `classes` of them by class (empty: it stands for several that are no worse), and of
    `lost` replicas by group with them. The others serve `rps` at most within the limits; `routing`: how they
    serve the share of the rate that is promised."""

    classes: dict[str, int]
    lost: dict[str, Count]
    rps: NonNegative
    routing: list[Route]


class Survives(Part):
    """When any `nodes` are lost, the rest serves `share` of the rate. `standing`: all nodes in use; `losses`:
    those that no other contains. `without`, `bound`: objective of the best fleet found that need not survive,
    and its bound; None: not solved. `price`: what this plan gives up for surviving, |own - without| /
    |without|."""

    nodes: Count
    share: Share
    standing: list[Standing]
    losses: list[Loss]
    without: FiniteFloat | None = None
    bound: FiniteFloat | None = None
    price: NonNegative | None = None


class Achieved(Part):
    """A limit of the promise in the worst of the replays: what was achieved at its percentile, and the share
    of requests within it."""

    limit_ms: NonNegative
    achieved_ms: NonNegative
    attained: Share


class Replayed(Part):
    """Arrivals that the plan was sized for, one request after the other, not by a formula: those of `trace`
    (None: drawn as bursty as the workload says) at `rate_rps`, `requests` of them, and `resamples` like them.

    The fleet is planned for `sized_rps` at random times within `ttft_ms` and `tpot_ms` (which a limit on
    whole requests may bring), and so keeps the limits of the workload at its percentile in every replay.
    `busy`: requests in the busy period that needs most, from and to these seconds of the trace, which alone
    would need `needed_rps`. `broke`: objective of the next plan below that was tried, which breaks the
    promise; None: none was.
    """

    trace: str | None
    requests: Count
    rate_rps: NonNegative
    resamples: Annotated[int, Field(ge=0)]
    sized_rps: NonNegative
    ttft_ms: NonNegative | None = None
    tpot_ms: NonNegative | None = None
    needed_rps: NonNegative
    busy: Annotated[int, Field(ge=0)]
    busy_from_s: NonNegative
    busy_to_s: NonNegative
    achieved: dict[Literal["ttft_ms", "tpot_ms", "e2e_ms"], Achieved]
    broke: FiniteFloat | None = None
    tried: Count


class Plan(Part):
    meshwright_version: str
    schema_version: Literal[1] = 1
    problem: Problem
    replicas: list[Replica]
    routing: list[Route]
    chains: list[Chain] = []
    experts: Experts | None = None
    tiers: list[Tiered] = []
    predicted: Predicted
    proof: Proof
    prices: list[Price] = []
    warnings: list[PlanWarning] = []
    alternatives: list[Alternative] = []
    assumptions: list[Assumption] = []
    long_prompts: list[LongPrompt] = []
    survives: Survives | None = None
    replayed: Replayed | None = None

    @model_serializer(mode="wrap")
    def _without_what_was_not_asked(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`survives` is written only where nodes may be lost, `replayed` where arrivals are known,
        `assumptions` where any is decisive."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v or k not in ("survives", "assumptions", "replayed")}
