"""Fitted engine parameters, pooled by level, and bands: the shipped file, or a user's own.

Every parameter of `Tuning` is its base times a factor at each level that holds for a server: all, its engine
and era, the model under that engine, its device's generation, GEMM or expert precision, pairs of these, and
in a user's own file the device. What was never seen has no factor of its own and takes what the wider levels
say: partial pooling (Gelman and Hill 2007, ch. 12), fitted by `planner/calibration/fitting.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any

from cluster_configs.schema import Device
from model_zoo.schema import ModelCard, MoeFfn
from planner.cost.efficiency.reading import OLD_ENGINES, load
from planner.cost.eras import ALIKE, FAULTS, HOSTS, engine_of
from planner.cost.popularity import Popularity
from planner.cost.tuning import AS_MEASURED, Tuning
from planner.designs.shape import Precisions
from planner.reading.documents import read_plain

SHIPPED = Path(__file__).parent / "calibration.yaml"

POOLED = ("all", "generation", "gemm", "experts")
"""Levels that speak of many engines at once."""

Factors = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Parameter → level → key → factor."""


@dataclass(frozen=True)
class Traits:
    """What a server is, as far as parameters may depend on it; `experts` "none" for a dense model, `model`
    its shape, `era` the engine with that of its version (eras.py): of 2024 it is an engine of its own."""

    engine: str
    generation: str
    device: str
    gemm: str
    experts: str
    model: str
    era: str = ""

    @classmethod
    def of(cls, card: ModelCard, device: Device, engine: str, used: Precisions) -> Traits:
        """The traits of a model in the precisions `used`, on a device under an engine."""
        return cls(
            engine if engine in old_engines() else engine_of(engine),
            str(device.generation),
            device.name,
            used.gemm,
            used.experts if card.moe else "none",
            shape_of(card),
            ALIKE.get(engine, engine),
        )

    @property
    def ffn(self) -> str:
        """ "dense", or "moe" with experts."""
        return "dense" if self.experts == "none" else "moe"

    @property
    def fault(self) -> str:
        """The era of an engine whose GEMMs with block scales were slower on this generation of GPUs alone,
        blank of others."""
        return self.era if self.era in FAULTS and self.gemm == "fp8_block" else ""

    @property
    def host(self) -> str:
        """The era of what first tokens wait for beside the steps."""
        return HOSTS.get(self.era, self.era)

    def key(self, level: str) -> str:
        """The server's key at a level: its traits named there, joined.

        >>> Traits("vllm", "hopper", "h100-sxm", "fp8", "none", "x").key("engine+generation")
        'vllm hopper'
        """
        return "all" if level == "all" else " ".join(getattr(self, part) for part in level.split("+"))


def shape_of(card: ModelCard) -> str:
    """Layers x width - width of the last FFN, of how many experts: what twins and a checkpoint's other
    precisions share, whatever their names.

    >>> from model_zoo.catalog import find
    >>> shape_of(find("qwen3-32b-fp8")[0]), shape_of(find("deepseek-r1")[0])
    ('64x5120-25600', '61x7168-256x2048')
    """
    ffn = next((layer.ffn for layer in reversed(card.stack) if layer.ffn), None)
    experts = f"{ffn.experts}x" if isinstance(ffn, MoeFfn) else ""
    return f"{len(card.stack)}x{card.hidden}-{experts}{ffn.inner if ffn else 0}"


TRAITS = (
    *(field.name for field in fields(Traits)),
    *(name for name, x in vars(Traits).items() if isinstance(x, property)),
)
"""All that levels may be made of."""


@dataclass(frozen=True)
class Calibration:
    """Base values, factors, and `bands`: standard deviation of log(measured / predicted) by kind ("tpot",
    "ttft"), level and key. `old`: base values of engines of older eras (eras.py), which were fitted alone.
    `about`: where it comes from, as a plan states it. `picked`: how much larger log(predicted / measured) of
    tokens/s is over what a planner picks than over all runs: choosing among predictions flatters.
    `popularity`: of experts, where their loads have been recorded."""

    base: Tuning = field(default_factory=Tuning)
    factors: Factors = field(default_factory=dict)
    bands: Factors = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    old: Mapping[str, Tuning] = field(default_factory=dict)
    picked: float = 0.0
    popularity: Popularity = field(default_factory=Popularity, compare=False)

    def tuning(self, traits: Traits) -> Tuning:
        """The parameters of such a server: base times its factors at every level, but of an engine of an
        older era only those that name it, the device or the model."""
        base, own = self.old.get(traits.engine, self.base), traits.engine in self.old

        def product(levels: Mapping[str, Mapping[str, float]]) -> float:
            told = {level: keys for level, keys in levels.items() if not (own and level in POOLED)}
            return prod(keys.get(traits.key(level), 1.0) for level, keys in told.items())

        return replace(
            base, **{name: getattr(base, name) * product(levels) for name, levels in self.factors.items()}
        )

    def sigma(self, kind: str, traits: Traits) -> float:
        """The band's standard deviation, at the narrowest level that knows such a server."""
        found = 0.0
        for level, keys in self.bands[kind].items():  # from wide to narrow
            found = keys.get(traits.key(level), found)
        return found

    def measured(self, kind: str, traits: Traits) -> bool:
        """Whether the band comes from runs on such a device: then it holds what kernels not measured there
        add."""
        levels = self.bands[kind].items()
        return any(traits.key(level) in keys for level, keys in levels if "device" in level.split("+"))

    def fitted_on(self, traits: Traits) -> bool:
        """Whether runs of today's engines on such a generation of GPUs were among those fitted."""
        return traits.engine not in self.old and traits.generation in self._generations

    @cached_property
    def _generations(self) -> set[str]:
        told = [
            (level.split("+"), keys) for levels in self.factors.values() for level, keys in levels.items()
        ]
        places = [(parts.index("generation"), keys) for parts, keys in told if "generation" in parts]
        return {key.split()[place] for place, keys in places for key in keys}


@cache
def shipped() -> Calibration:
    """The calibration that comes with the package."""
    return of_table(read_plain(SHIPPED))


def of_table(table: Mapping[str, Any]) -> Calibration:
    """A calibration from its plain form (the YAML file's)."""
    base = Tuning(**table.get("base", {}))
    return Calibration(
        base,
        table["factors"],
        table["bands"],
        table.get("about", {}),
        old_engines(),
        table.get("picked", 0.0),
    )


@cache
def old_engines() -> Mapping[str, Tuning]:
    """Kernels as measured, and each engine's own time (microseconds in the file)."""
    return {
        key: replace(AS_MEASURED, **{name.replace("_us", "_s"): 1e-6 * us for name, us in own.items()})
        for key, own in load(OLD_ENGINES)["overheads"].items()
    }
