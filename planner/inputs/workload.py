"""What must be served: request buckets, rate, latency promise. Field names and meanings: the Workload YAML contract."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bucket(Strict):
    """Requests alike: `isl` prompt tokens in, `osl` tokens out, `share` of all requests."""

    isl: Annotated[int, Field(ge=1)]
    osl: Annotated[int, Field(ge=1)]
    share: Positive = 1.0


class Slo(Strict):
    """Latency promise at `percentile`; None = no promise."""

    ttft_ms: Positive | None = 2000.0
    tpot_ms: Positive | None = 50.0
    percentile: Percentile = "mean"


class Workload(Strict):
    """Either `buckets`, or `isl`/`osl` for one bucket. No `rate_rps`: as much as possible, closed loop."""

    name: str = "custom"
    buckets: Annotated[list[Bucket], Field(min_length=1)]
    rate_rps: Positive | None = None
    slo: Slo = Slo()
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] = 0.0
    max_osl: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_bucket(cls, data: object) -> object:
        """`isl:`/`osl:` at the top stand for one bucket; a missing one is the chat preset's."""
        if isinstance(data, dict) and "buckets" not in data:
            data = dict(data)
            data["buckets"] = [{"isl": data.pop("isl", 1024), "osl": data.pop("osl", 256)}]
        return data

    @property
    def shares(self) -> list[float]:
        """Shares of the buckets, adding up to one."""
        total = sum(b.share for b in self.buckets)
        return [b.share / total for b in self.buckets]
