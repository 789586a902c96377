"""A workload file with `models:`, each with its own traffic, limits, engine and weight; or several names.

```yaml
name: chat and code
models:
  - {model: llama-3.1-8b, workload: chat, rate_rps: 20}
  - {model: qwen3-32b, isl: 4096, osl: 512, rate_rps: 2, slo: {ttft_ms: 4000}, engine: vllm}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from planner.errors import InputError, Misplaced
from planner.inputs.options import EngineName
from planner.inputs.reading import Given, read_workload
from planner.inputs.reuse import Strict
from planner.inputs.workload import Bucket, Percentile, Workload
from planner.reading.documents import Document, read
from planner.reading.validation import validate

OWN = ("isl", "osl", "buckets", "prefix_hit", "max_osl")
"""Fields of a workload that an entry may state itself."""


class Limits(Strict):
    """What an entry promises beside, or in place of, its workload."""

    ttft_ms: float | str | None = None
    tpot_ms: float | str | None = None
    percentile: Percentile | None = None


class Entry(Strict):
    """One model: `workload` by preset or file, or lengths of its own; its rate, or its weight among models
    without one."""

    model: str
    workload: str | None = None
    isl: Annotated[int, Field(ge=1)] | None = None
    osl: Annotated[int, Field(ge=1)] | None = None
    buckets: Annotated[list[Bucket], Field(min_length=1)] | None = None
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] | None = None
    max_osl: Annotated[int, Field(ge=1)] | None = None
    rate_rps: Annotated[float, Field(ge=1e-12, le=1e9)] | None = None
    slo: Limits = Limits()
    engine: EngineName | None = None
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None

    @model_validator(mode="after")
    def _stated_once(self) -> Entry:
        if self.workload is not None and (self.buckets or self.prefix_hit or self.max_osl):
            raise Misplaced("give either `workload`, or the traffic itself", "workload")
        if self.buckets and (self.isl or self.osl):
            raise Misplaced("give either `buckets`, or `isl` and `osl`", "buckets")
        if self.rate_rps is not None and self.weight is not None:
            text = "a weight is for models without a rate: rates say by themselves how much each is asked"
            raise Misplaced(text, "weight")
        return self


class Listed(Strict):
    """The file."""

    name: str = "custom"
    models: Annotated[list[Entry], Field(min_length=1)]


@dataclass(frozen=True)
class Wanted:
    """One of several models as it is asked for: by name, with its workload, what of it nobody asked for, its
    engine, weight, and where that is said."""

    model: str
    workload: Workload
    defaulted: Sequence[str] = ()
    engine: str | None = None
    weight: float = 1.0
    where: str = "models"


def lists_models(workload: str | Path | Workload) -> bool:
    """Whether a workload is a file that lists models."""
    path = Path(workload) if isinstance(workload, str | Path) else None
    if path is None or not path.suffix or not path.is_file():
        return False
    data = read(path).data
    return isinstance(data, dict) and "models" in data


def read_models(path: str | Path) -> list[Wanted]:
    """The models of a file. Raises InputError."""
    document = read(path)
    listed = validate(document, Listed)
    return [_wanted(document, i, entry) for i, entry in enumerate(listed.models)]


def _wanted(document: Document, i: int, entry: Entry) -> Wanted:
    at = ("models", i)
    given: Given = {
        "isl": entry.isl,
        "osl": entry.osl,
        "rate": entry.rate_rps,
        "ttft_ms": entry.slo.ttft_ms,
        "tpot_ms": entry.slo.tpot_ms,
        "percentile": entry.slo.percentile,
    }
    try:
        if entry.workload is not None:
            load, defaulted = read_workload(_beside(document, entry.workload), **given)
        else:
            load, defaulted = _own(entry, given)
    except InputError as error:
        raise document.error(error.message, at, error.hint) from None
    return Wanted(entry.model, load, defaulted, entry.engine, entry.weight or 1.0, document.where(at))


def _own(entry: Entry, given: Given) -> tuple[Workload, list[str]]:
    """A workload of the entry's own lengths, what it leaves out as the chat preset has it."""
    base, defaulted = read_workload("chat", **given)
    update: dict[str, Any] = {"name": entry.model.rpartition("/")[2]}
    if entry.buckets:
        update["buckets"] = entry.buckets
        defaulted = [name for name in defaulted if name not in ("isl", "osl")]
    for name in ("prefix_hit", "max_osl"):
        if (value := getattr(entry, name)) is not None:
            update[name] = value
    return Workload.model_validate({**base.model_dump(), **update}), defaulted


def _beside(document: Document, workload: str) -> str:
    """A workload file is looked for beside the file that names it."""
    path = Path(workload)
    if not path.suffix or path.is_absolute():
        return workload
    return str(Path(document.path).parent / path)
