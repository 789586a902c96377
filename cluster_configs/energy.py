"""What electricity costs in a zone, in dollars and in carbon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from planner.errors import nearest
from planner.reading.documents import Document


class Energy(BaseModel):
    """Of one zone. `overhead`: watts from the grid for each watt of a GPU: hosts, cooling, losses."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd_per_kwh: Annotated[float, Field(ge=0, le=1e6)] | None = None
    gco2_per_kwh: Annotated[float, Field(ge=0, le=1e6)] | None = None
    overhead: Annotated[float, Field(ge=1, le=10)] = 1.0


def check_zones(energy: Mapping[str, Energy] | None, zones: Iterable[str], document: Document) -> None:
    """Refuse zones that no node is in."""
    known = sorted(set(zones))
    for name in energy or ():
        if name not in known:
            near = ", ".join(f"`{zone}`" for zone in nearest(name, known, 3))
            raise document.error(f"no node is in zone `{name}`", ("energy", name), f"zones: {near}")
