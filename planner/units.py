"""Words for fields and sizes: the unit each field of the YAML forms takes, told from its name (for who writes
"80GB"), and parallelism."""

from __future__ import annotations

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


def unit_of(field: str) -> str | None:
    """The unit that `field` takes, or None where it counts things or its name doesn't tell.

    >>> unit_of("memory_gb"), unit_of("nic_gb_per_s"), unit_of("count")
    ('GB (1e9 bytes)', 'GB/s (1e9 bytes a second, one direction)', None)
    """
    return next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), None)


def sizes_in_words(**sizes: int) -> str:
    """Parallelism, ones left out.

    >>> sizes_in_words(tp=4, pp=1, dp=8), sizes_in_words(tp=1)
    ('tp4 dp8', '')
    """
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1)
