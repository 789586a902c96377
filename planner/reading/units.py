"""Words for fields and sizes: the unit each field of the YAML forms takes, told from its name (for who writes
"80GB"), quantities with a unit, and parallelism."""

from __future__ import annotations

import re
from math import isfinite

_UNITS = {  # longest endings first
    "usd_per_gpu_hour": "US dollars per GPU and hour",
    "usd_per_hour": "US dollars per hour",
    "gb_per_s": "GB/s (1e9 bytes a second, one direction)",
    "bytes_per_s": "bytes a second",
    "_rps": "requests a second",
    "tflops": "TFLOP/s (1e12 a second, dense)",
    "watts": "watts",
    "_bytes": "bytes",
    "_ms": "milliseconds",
    "_s": "seconds",
    "gb": "GB (1e9 bytes)",
    "isl": "tokens",
    "osl": "tokens",
    "share": "a share of all requests",
    "prefix_hit": "a share from 0 to 1",
    "availability": "a share from 0 to 1",
}

_LENGTHS = {"k": 1e3, "K": 1024.0, "M": 2.0**20, "m": 1e6}
"""As vLLM reads them (engine/arg_utils.py): small letters are thousands, capitals powers of two."""

_TIMES = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
_BYTES = {"mb": 1e6, "gb": 1e9, "tb": 1e12, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_RATES = {f"{unit}/s": size for unit, size in _BYTES.items()}
_BITS = {"gbit/s": 1.25e8, "mbit/s": 1.25e5, "tbit/s": 1.25e11, "gbps": 1.25e8, "mbps": 1.25e5}

_AMOUNTS: dict[str, tuple[dict[str, float], float]] = {
    "gb_per_s": ({**_RATES, **_BITS}, 1e9),
    "_rps": ({"/s": 1.0, "rps": 1.0, "req/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}, 1.0),
    "tflops": ({"tflops": 1.0, "tflop/s": 1.0, "pflops": 1e3, "pflop/s": 1e3}, 1.0),
    "watts": ({"w": 1.0, "kw": 1e3, "mw": 1e6, "watts": 1.0}, 1.0),
    "_ms": (_TIMES, 1e-3),
    "_s": (_TIMES, 1.0),
    "gb": (_BYTES, 1e9),
}
"""By the ending of a field's name: units that are read, and the field's own."""

LONGEST = 40
"""Characters of a quantity with its unit."""

_NUMBER = r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
"""A comma parts thousands: in 1,5 it may stand for a point, so that is no number."""

_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([a-zA-Zµ/%$]+)\s*")

_FOREIGN = (
    ("gbit_per_s", "gb_per_s", 0.125), ("mbit_per_s", "gb_per_s", 1.25e-4), ("gbps", "gb_per_s", 0.125),
    ("tb_per_s", "gb_per_s", 1e3), ("mb_per_s", "gb_per_s", 1e-3), ("gib_per_s", "gb_per_s", 2**30 / 1e9),
    ("gib", "gb", 2**30 / 1e9), ("tib", "gb", 2**40 / 1e9), ("tb", "gb", 1e3), ("mb", "gb", 1e-3),
    ("mib", "gb", 2**20 / 1e9), ("kw", "watts", 1e3), ("kilowatts", "watts", 1e3),
    ("us", "ms", 1e-3), ("_s", "_ms", 1e3), ("_ms", "_s", 1e-3), ("_rpm", "_rps", 1 / 60),
)  # fmt: skip
"""Endings of fields that there are not, of those that there are, and how many of these one is."""


def unit_of(field: str) -> str | None:
    """The unit that `field` takes, or None where it counts things or its name doesn't tell.

    >>> unit_of("memory_gb"), unit_of("nic_gb_per_s"), unit_of("count")
    ('GB (1e9 bytes)', 'GB/s (1e9 bytes a second, one direction)', None)
    """
    return next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), None)


def plain(text: str) -> float | None:
    """A number written with separators of thousands; None where it is none, or not finite.

    >>> plain("1,250.5"), plain("1_000"), plain("1,5"), plain("1e999")
    (1250.5, 1000.0, None, None)
    """
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    value = float(text.replace(",", "").replace("_", ""))
    return value if isfinite(value) else None


def amount(text: str, field: str) -> float | None:
    """A quantity with its unit in the unit of `field`; None where it is none, or of another kind.

    >>> amount("10Gbit/s", "gb_per_s"), amount("10GBps", "gb_per_s"), amount("2s", "ttft_ms")
    (1.25, 10.0, 2000.0)
    >>> amount("80GiB", "memory_gb"), amount("4k", "isl")
    (85.89934592, 4000.0)
    >>> amount("2s", "memory_gb"), amount("80", "memory_gb"), amount("1,5GB", "memory_gb")
    (None, None, None)
    """
    found = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    value = plain(found[1]) if found else None
    if found is None or value is None:
        return None
    unit = found[2]
    if field in ("isl", "osl", "max_osl"):
        return value * _LENGTHS[unit] if unit in _LENGTHS else None
    own = next((known for ending, known in _AMOUNTS.items() if field.endswith(ending)), None)
    if own is None:
        return None
    units, size = own
    said = unit.lower()
    if field.endswith("gb_per_s") and "B" not in unit and unit[:1].isupper() and "bit" not in said:
        said = said.replace("b", "bit", 1).replace("bitps", "bit/s")  # Gb/s and Gbps: a small b is a bit
    elif "B" in unit and said.endswith("ps"):
        said = f"{said[:-2]}/s"
    return round(value * units[said] / size, 12) if said in units else None


def converted(field: str, value: object, known: list[str]) -> str | None:
    """The line to write for a field of another unit: `gbit_per_s: 10` is `gb_per_s: 1.25`; None where no
    field of `known` is meant.

    >>> converted("gbit_per_s", 10, ["gb_per_s"]), converted("memory_gib", 80, ["memory_gb"])
    ('gb_per_s: 1.25', 'memory_gb: 85.8993')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for ending, own, factor in _FOREIGN:
        if field.endswith(ending) and (name := field.removesuffix(ending) + own) in known:
            return f"{name}: {value * factor:.6g}"
    return None


def sizes_in_words(**sizes: int) -> str:
    """Parallelism, ones left out.

    >>> sizes_in_words(tp=4, pp=1, dp=8), sizes_in_words(tp=1)
    ('tp4 dp8', '')
    """
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1)


def counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "GPU"), counted(2000, "GPU")
    ('1 GPU', '2,000 GPUs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
