"""One group of replicas: its design, its memory and cache, what drafts beside it, how it is started."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from planner.plans.schema.parts import Count, NonNegative, Part, Price, Role, Share
from planner.reading.names import NodeName

GROUP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # safe in a shell, as a file's name and in YAML


ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
"""Names of engines as those who make them write them, where they are not ours."""


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
    nodes: list[NodeName]  # nodes that replicas of this kind may use
    node_class: str = Field(default="", validate_default=True)
    gpus: Count
    tp: Count
    layers: tuple[int, int]

    @field_validator("node_class")
    @classmethod
    def _class_of_first_node(cls, name: str, info: ValidationInfo) -> str:
        nodes = info.data.get("nodes")
        return name or (nodes[0].rpartition("-")[0] or nodes[0] if nodes else "")


class Seat(Part):
    """One server of a plan that shares nodes with others: the GPUs it has on each node, first the one that
    answers, and its port."""

    replica: str
    number: Annotated[int, Field(ge=0)]
    gpus: dict[NodeName, list[Annotated[int, Field(ge=0)]]]
    port: Annotated[int, Field(ge=1, le=65535)]


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
    comes; `notes` say why, and what else is to be known. Of it which engine starts is checked alone."""

    argv: list[str]
    env: dict[str, str] = {}
    engine_versions: str = ""
    notes: list[str] = []
    ranks: list[list[str]] = []
    files: dict[str, str] = {}


OPTIONAL = ("kept", "draft", "power_limit_watts", "launch")


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
    power_limit_watts: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = (
        None  # that each of its GPUs is told to draw at most
    )
    launch: Launch | None = None

    @property
    def engine_name(self) -> str:
        """The engine as those who make it write it."""
        return ENGINES.get(self.engine, self.engine)

    @field_validator("id")
    @classmethod
    def _is_a_plain_name(cls, name: str) -> str:
        """Exported scripts run what a plan says: an id is never more than a word."""
        if not GROUP_ID.fullmatch(name):
            raise ValueError("an id is 1 to 63 letters, digits, `.`, `_` or `-`, the first a letter or digit")
        return name

    @model_serializer(mode="wrap")
    def _without_what_is_not_kept(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`OPTIONAL` fields are written only where there is something."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if k not in OPTIONAL or v is not None}

    @property
    def emitted(self) -> float:
        """Tokens that a decode step gives each sequence."""
        return 1 + self.draft.accepted if self.draft else 1.0

    @property
    def token_s(self) -> float:
        """Seconds of a token of a sequence in decode steps without prompts."""
        return self.step.decode_s / self.emitted
