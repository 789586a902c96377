"""What must be served: request buckets, rate, latency promise. Names: the Workload YAML contract."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from planner.errors import Misplaced
from planner.inputs.reuse import Idle, Reuse, Strict
from planner.inputs.traffic import Traffic

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]
Loop = Literal["open", "closed"]
LIMITS: Final = ("ttft_ms", "tpot_ms")
"""Fields of an SLO that are limits."""
Positive = Annotated[float, Field(ge=1e-12, le=1e12)]
Tokens = Annotated[int, Field(ge=1, le=100_000_000)]


class Bucket(Strict):
    """Requests alike: `isl` prompt tokens in, `osl` tokens out, `share` of all requests."""

    isl: Tokens
    osl: Tokens
    share: Annotated[float, Field(ge=1e-12, le=1e9)] = 1.0


class Slo(Strict):
    """Latency promise at `percentile`; None (in YAML also `none`) = no promise. `e2e_ms`: of a whole request,
    arrival to last token, which only a replay can tell."""

    ttft_ms: Positive | None = 2000.0
    tpot_ms: Positive | None = 50.0
    e2e_ms: Positive | None = None
    percentile: Percentile = "mean"

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are promised, of LIMITS, in milliseconds.

        >>> Slo(ttft_ms=None, tpot_ms=30).limits
        {'tpot_ms': 30.0}
        """
        return {name: limit for name in LIMITS if (limit := getattr(self, name)) is not None}

    @model_serializer(mode="wrap")
    def _without_what_is_seldom_promised(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`e2e_ms` is written only where it is promised."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v is not None or k != "e2e_ms"}

    @model_validator(mode="before")
    @classmethod
    def _none_is_no_promise(cls, data: Any) -> Any:
        return {k: None if v == "none" else v for k, v in data.items()} if isinstance(data, dict) else data


class Workload(Strict):
    """Either `buckets`, or `isl`/`osl` for one bucket. No `rate_rps`: as much as possible, `arrivals` open
    (at random) or closed (always as many in flight). None: a plan that is made takes random arrivals; in a
    plan that was made, a closed loop."""

    name: str = "custom"
    buckets: Annotated[list[Bucket], Field(min_length=1)]
    rate_rps: Annotated[float, Field(ge=1e-12, le=1e9)] | None = None
    arrivals: Loop | None = None
    slo: Slo = Slo()
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] = 0.0
    max_osl: Tokens | None = None
    reuse: list[Reuse] = []
    idle: Idle | None = None
    traffic: Traffic | None = None

    @property
    def loop(self) -> Loop:
        """How load arrives: open, at random, of a rate always; closed, as much as is served.

        >>> w = {"buckets": [{"isl": 8, "osl": 2}]}
        >>> [Workload(**w, **more).loop for more in ({}, {"rate_rps": 1}, {"arrivals": "open"})]
        ['closed', 'open', 'open']
        """
        return "open" if self.rate_rps is not None or self.arrivals == "open" else "closed"

    @property
    def decodes(self) -> bool:
        """Whether any answer has more than one token."""
        return any(b.osl > 1 for b in self.buckets)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompts."""
        return max(b.isl for b in self.buckets)

    @model_validator(mode="before")
    @classmethod
    def _one_bucket(cls, data: Any) -> Any:
        """`isl:`/`osl:` at the top stand for one bucket; a missing one is the chat preset's."""
        if not isinstance(data, dict):
            return data
        given = {"isl", "osl"} & set(data)
        if "buckets" in data and given:
            raise ValueError(f"give either `buckets` or `{min(given)}`, not both")
        if "buckets" in data:
            return data
        rest = {k: v for k, v in data.items() if k not in given}
        return rest | {"buckets": [{"isl": data.get("isl", 1024), "osl": data.get("osl", 256)}]}

    @model_validator(mode="after")
    def _a_rate_is_open(self) -> Workload:
        if self.rate_rps is not None and self.arrivals == "closed":
            raise ValueError("a closed loop has no rate: leave out `rate_rps`, or `arrivals`")
        return self

    @model_validator(mode="after")
    def _room_for_answers(self) -> Workload:
        longest = max(b.osl for b in self.buckets)
        if self.max_osl is not None and self.max_osl < longest:
            raise ValueError(f"`max_osl` ({self.max_osl}) is below the `osl` of a bucket ({longest})")
        return self

    @model_validator(mode="after")
    def _reuse_is_stated_once(self) -> Workload:
        given = [
            n for n, v in (("prefix_hit", self.prefix_hit), ("reuse", self.reuse), ("idle", self.idle)) if v
        ]
        if len(given) > 1:
            text = f"give either `{given[0]}` or `{given[1]}`, not both: each says what is found again"
            raise Misplaced(text, given[1])
        shortest = min(b.isl for b in self.buckets)
        for i, r in enumerate(self.reuse):
            if r.tokens is not None and r.tokens > shortest:
                text = f"`{r.name}` has {r.tokens:,} tokens, a prompt only {shortest:,}"
                raise Misplaced(text, "reuse", i, "tokens")
        whole = sum(r.share for r in self.reuse if r.gap_s is not None)
        if whole > 1 + 1e-9:
            text = f"the shares of contexts that return add up to {whole:g}, more than all requests"
            raise Misplaced(text, "reuse")
        begun = sum(r.share for r in self.reuse if r.tokens is not None)
        if begun > 1 + 1e-9:
            text = f"the shares of beginnings add up to {begun:g}, more than all requests"
            raise Misplaced(text, "reuse")
        if self.idle is not None:
            if len(self.idle.hits) != len(self.buckets):
                text = f"`idle.hits` is of {len(self.idle.hits)} buckets, there are {len(self.buckets)}"
                raise Misplaced(text, "idle", "hits")
            if any(k.bucket >= len(self.buckets) for k in self.idle.kinds):
                raise Misplaced("a kind of `idle` names a bucket that is not there", "idle", "kinds")
        return self

    @model_validator(mode="after")
    def _a_share_a_bucket(self) -> Workload:
        given = self.traffic.shares if self.traffic else []
        if given and len(given[0]) != len(self.buckets):
            text = f"a slot has {len(given[0])} shares, there are {len(self.buckets)} buckets"
            raise Misplaced(text, "traffic", "shares")
        return self

    @property
    def merged(self) -> Workload:
        """The same requests with each length told once. What `idle` says goes by bucket: then as it is."""
        shares = dict[tuple[int, int], float]()
        for b in self.buckets:
            shares[b.isl, b.osl] = shares.get((b.isl, b.osl), 0.0) + b.share
        if self.idle is not None or len(shares) == len(self.buckets):
            return self
        one = len(shares) == 1
        buckets = [Bucket(isl=i, osl=o, share=1.0 if one else share) for (i, o), share in shares.items()]
        return self.model_copy(update={"buckets": buckets})

    @property
    def shares(self) -> list[float]:
        """Shares of the buckets, adding up to one."""
        total = sum(b.share for b in self.buckets)
        return [b.share / total for b in self.buckets]
