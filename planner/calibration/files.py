"""Calibration files: shipped factors and a user's own in one, so that a file goes on meaning the same.

The form is that of planner/cost/calibration.yaml. They are written as JSON, the part of YAML that is read a
hundred times faster; by hand they may be either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from planner.cost.calibration import TRAITS, Calibration, Factors, of_table
from planner.cost.tuning import Tuning
from planner.errors import nearest
from planner.reading import documents, validation
from planner.version import __version__

LARGEST = 1000.0
"""No factor and no base value is larger; no factor is smaller than its inverse."""

WIDEST = 3.0
"""Standard deviation of a time's logarithm: 47 times either way at 80 %."""

NEAR_ONE = 0.005
"""A factor this near to 1 is not written."""

_LEAF = re.compile(r"\{[^{}]*\}")


def _levels(found: dict[str, dict[str, float]], whole: bool) -> dict[str, dict[str, float]]:
    """Raises ValueError: a level that no server has, or `whole` without a value for all servers."""
    for level in found:
        wrong = [part for part in level.split("+") if part not in TRAITS and level != "all"]
        if wrong:
            near = nearest(wrong[0], TRAITS, 1)[0]
            raise ValueError(f"unknown level `{level}`: `{wrong[0]}` is no trait of a server; `{near}` is")
    if whole and "all" not in found.get("all", {}):
        raise ValueError("a band for all servers is missing: `all: {all: …}`")
    return found


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Value = Annotated[float, Field(ge=0, le=LARGEST)]
Factor = Annotated[float, Field(ge=1 / LARGEST, le=LARGEST)]
Sigma = Annotated[float, Field(gt=0, le=WIDEST)]
FactorLevels = Annotated[dict[str, dict[str, Factor]], AfterValidator(partial(_levels, whole=False))]
SigmaLevels = Annotated[dict[str, dict[str, Sigma]], AfterValidator(partial(_levels, whole=True))]

_VALUES: dict[str, Any] = {f.name: (Value, f.default) for f in fields(Tuning)}
_FACTORS: dict[str, Any] = {f.name: (FactorLevels, {}) for f in fields(Tuning)}
Base = create_model("Base", __base__=Part, **_VALUES)
Factored = create_model("Factored", __base__=Part, **_FACTORS)


class Bands(Part):
    """Standard deviations by level and key."""

    ttft: SigmaLevels
    tpot: SigmaLevels


class CalibrationFile(Part):
    """The file as it is written; what its parts mean: planner/cost/calibration.py."""

    about: dict[str, Any] = {}
    base: Base = Base()  # type: ignore[valid-type]
    picked: Annotated[float, Field(ge=-1, le=1)] = 0.0
    factors: Factored  # type: ignore[valid-type]
    bands: Bands


def read(path: str | Path) -> Calibration:
    """The calibration of a file; `about` has its name, too. Raises InputError: not one, or nonsense in it."""
    document = documents.read(path)
    validation.validate(document, CalibrationFile)
    found = of_table(document.data)
    return replace(found, about={"name": Path(path).name, **found.about})


def outdated(calibration: Calibration) -> str | None:
    """What to know of a calibration around another version's cost model.

    >>> outdated(Calibration(about={"name": "my.calib.yaml", "meshwright_version": "0.0.1"})) is None
    False
    """
    version = calibration.about.get("meshwright_version", __version__)
    if version == __version__:
        return None
    made = f"{calibration.about.get('name', 'the calibration')} was made with meshwright {version}"
    return f"{made}, this is {__version__}: calibrate again"


def written(calibration: Calibration) -> str:
    """The text of a file: figures to four digits, a line for what is short enough."""
    table = {
        "about": dict(calibration.about),
        "base": asdict(calibration.base),
        "picked": calibration.picked,
        "factors": _told(calibration.factors),
        "bands": calibration.bands,
    }
    text = json.dumps(_rounded(table), indent=1, ensure_ascii=False)
    return _LEAF.sub(_on_one_line, text) + "\n"


def _told(factors: Factors) -> Factors:
    """Without factors near 1, and what is empty then."""
    kept = {
        name: {
            level: {key: value for key, value in keys.items() if abs(value - 1) > NEAR_ONE}
            for level, keys in levels.items()
        }
        for name, levels in factors.items()
    }
    full = {name: {level: keys for level, keys in of.items() if keys} for name, of in kept.items()}
    return {name: levels for name, levels in full.items() if levels}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _on_one_line(match: re.Match[str]) -> str:
    short = " ".join(match[0].split())
    return short if len(short) <= 90 else match[0]
