"""The device catalog: one YAML a device in `devices/`; only the file asked for is parsed.

Spelling: case, `-`, `_`, blanks and `/` don't matter, nor do vendor words, SXM generations and memory kinds:
"NVIDIA A100-SXM4-40GB", as drivers print it, is understood. A memory suffix must match. A bare family means
its SXM form, and where that comes with several memories the smallest one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from cluster_configs.price_list import usual_price
from cluster_configs.schema import Device
from planner.errors import InputError, nearest
from planner.reading.documents import read
from planner.reading.validation import validate

FOLDER = Path(__file__).parent / "devices"

_NOISE = {
    "nvidia", "geforce", "tesla", "quadro", "amd", "instinct", "intel", "habana", "google", "cloud", "apple",
    "generation", "blackwell", "edition", "oam", "accelerator",
    "graphics", "gpu", "radeon", "r", "tm", "mega",
}  # fmt: skip
_MEMORY = re.compile(r"(\d{1,4})gi?b?")
_MEMORY_KIND = re.compile(r"hbm\d?e?|gddr\dx?")
_FAMILY_FORMS = ("{}", "{}sxm", "rtx{}", "gtx{}", "rx{}", "arc{}", "tpu{}", "{}server")
"""How the spelling asked for may stand in the catalog: h100 → h100-sxm, 4090 → rtx-4090, v5e → tpu-v5e."""


@cache
def names() -> tuple[str, ...]:
    """All devices of the catalog, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def load(name: str) -> Device:
    """The device of exactly this catalog name, with its price by the list that is shipped."""
    device, price = validate(read(FOLDER / f"{name}.yaml"), Device), usual_price(name)
    if price is None:
        return device
    sources = device.sources | {"price": price.source or "the shipped list of prices"}
    each = price.price_usd_per_gpu_hour
    return device.model_copy(update={"price_usd_per_gpu_hour": each, "sources": sources})


def find(name: str, where: str | None = None) -> Device:
    """The device that `name` means. Raises InputError at `where` with the three nearest names.

    >>> [find(name).name for name in ("H100", "a100 sxm 80GB", "NVIDIA A100-SXM4-40GB", "rtx4090-24gb")]
    ['h100-sxm', 'a100-sxm', 'a100-sxm-40gb', 'rtx-4090']
    """
    core, memory = _split(name)
    forms = _forms(core)
    if not forms and memory is None:
        core, memory = _split_glued(core)
        forms = _forms(core)
    fitting = (form for form in forms if memory is None or _has_memory(load(form), memory))
    found = next(fitting, None) or _also().get(_plain(name))
    if found is not None:
        return load(found)
    if memory is None or not forms:
        near = nearest(name[:60], names())
        meant = _forms(_split(re.sub(r"(?<=\d)[oO]|[oO](?=\d)", "0", name[:60]))[0])[:1]
        listed = " or ".join(f"`{n}`" for n in list(dict.fromkeys([*meant, *near]))[: len(near)])
        raise InputError(
            f"unknown GPU `{name[:60]}`", where, f"did you mean {listed}? see `meshwright devices`"
        )
    raise _wrong_memory(name, memory, core, where)


def alike(name: str) -> list[str]:
    """All devices that a spelling may mean: forms of one family, and memories where it names none.

    >>> alike("H100"), alike("A100 80GB")
    (['h100-nvl', 'h100-pcie', 'h100-sxm'], ['a100-pcie', 'a100-sxm'])
    """
    core, memory = _split(name)
    if not _forms(core) and memory is None:
        core, memory = _split_glued(core)
    cores = {form.format(core) for form in (*_FAMILY_FORMS, "{}pcie", "{}nvl")} | {
        _split(n)[0] for n in _forms(core)
    }
    found = [n for c in cores for n in _by_core().get(c, [])]
    return sorted(n for n in {*found} if memory is None or _has_memory(load(n), memory))


@cache
def _also() -> dict[str, str]:
    """Catalog names by the other names that their files have: "DGX Spark"; and "GH200 480GB", as drivers
    print it, where 480 GB is the CPU's."""
    return {"gh200480gb": "gh200-96gb"} | {_plain(a): name for name in names() for a in load(name).also}


def _plain(name: str) -> str:
    return "".join(word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _NOISE)


def _wrong_memory(name: str, memory: int, core: str, where: str | None) -> InputError:
    family = sorted({*_forms(core), *(n for n in names() if _split(n)[0].startswith(core))})
    listed = ", ".join(f"`{n}` ({_gib(load(n)):.0f} GB)" for n in family)
    listed = f"there {'is' if len(family) == 1 else 'are'} {listed}"
    hint = f"{listed}; for another size set `memory_gb` in `device_overrides`"
    return InputError(f"`{name[:60]}`: there is no such GPU with {memory} GB", where, hint)


@cache
def _by_core() -> dict[str, list[str]]:
    """Catalog names by their spelling without memory; the plain name first, then smaller memories."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names():
        core, memory = _split(name)
        found.setdefault(core, []).append((memory or 0, name))
    return {core: [name for _, name in sorted(forms)] for core, forms in found.items()}


def _forms(core: str) -> list[str]:
    """Catalog names that a spelling without memory may mean, the default first."""
    spelled = (pattern.format(core) for pattern in _FAMILY_FORMS)
    return next((_by_core()[s] for s in spelled if s in _by_core()), []) if core else []


def _split(name: str) -> tuple[str, int | None]:
    """A name as (squashed spelling without memory and noise, memory in GB or None).

    >>> _split("NVIDIA H100 80GB HBM3"), _split("v100-sxm2-16gb")
    (('h100', 80), ('v100sxm', 16))
    """
    words = re.sub(r"(\d) +(gi?b)\b", r"\1\2", name.lower())
    kept: list[str] = []
    memory = None
    for word in re.findall(r"[a-z0-9]+", words):
        if kept and (match := _MEMORY.fullmatch(word)) and memory is None:
            memory = int(match[1])
        elif word not in _NOISE and not _MEMORY_KIND.fullmatch(word):
            kept.append(re.sub(r"^sxm\d$", "sxm", word))
    return "".join(kept), memory


def _split_glued(core: str) -> tuple[str, int | None]:
    """Memory written without a separator or unit: "rtx409024gb", "a100-sxm-40".

    >>> _split_glued("rtx409024gb"), _split_glued("a100sxm40"), _split_glued("gaudi9")
    (('rtx4090', 24), ('a100sxm', 40), ('gaudi9', None))
    """
    for length in (3, 2):
        cut = re.fullmatch(rf"(.+)([1-9]\d{{{length - 1}}})(?:gi?b?)?", core)
        if cut and _forms(cut[1]):
            return cut[1], int(cut[2])
    return core, None


def _gib(device: Device) -> float:
    return device.memory_gb * 1e9 / 2**30


def _has_memory(device: Device, gigabytes: int) -> bool:
    """Whether a device is sold as having so much: its usable GiB, or up to 8 % more (an L40S shows 45)."""
    return 0.97 <= gigabytes / _gib(device) <= 1.08
