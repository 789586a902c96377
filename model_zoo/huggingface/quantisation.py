"""In which precision a checkpoint stores each matrix, from `quantization_config` or ModelOpt's side file.

A scheme is a base precision, modules left in 16 bits, and modules named with a precision of their own.
Module names are compared from `layers.` on, as wrappers put different prefixes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from planner.errors import InputError, nearest

from ..schema import Precision
from .keys import Keys

ALGORITHMS: dict[str, Precision] = {  # ModelOpt `quant_algo`
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8_block",
    "FP8_BLOCK_SCALES": "fp8_block",
    "MXFP8": "fp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "NVFP4_FP8_MHA": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "INT4_AWQ": "int4_wo",
    "W4A16_AWQ": "int4_wo",
    "W4A16_GPTQ": "int4_wo",
    "W4A8_AWQ": "int4_wo",
    "W4A16": "int4_wo",
    "W8A16": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "INT8_SQ": "int8",
}
BY_BITS = ("awq", "gptq", "auto-round", "hqq", "auto_awq", "intel/auto-round")
KV_BITS = {8: "fp8", 4: "nvfp4"}


@dataclass
class Scheme:
    """`base` for all linear layers but `excluded`; `named` and `rules` come first. `kv`: of the cache."""

    base: Precision = "bf16"
    named: dict[str, Precision] = field(default_factory=dict)
    rules: list[tuple[re.Pattern[str], Precision]] = field(default_factory=list)
    excluded: list[re.Pattern[str]] = field(default_factory=list)
    excluded_in_layer: dict[int, list[re.Pattern[str]]] = field(default_factory=dict)
    kv: str = "bf16"
    int4_group: int = 128

    def of(self, modules: Iterable[str]) -> Precision:
        """Precision of a matrix that may be called any of `modules` ("layers.3.self_attn.q_proj")."""
        names = list(modules)
        for name in names:
            if name in self.named:
                return self.named[name]
        for rule, precision in self.rules:
            if any(rule.search(name) for name in names):
                return precision
        if self.base == "bf16":
            return "bf16"
        at = re.match(r"layers\.(\d+)\.", names[0]) if names else None
        patterns = self.excluded + (self.excluded_in_layer.get(int(at[1]), []) if at else [])
        return "bf16" if any(p.search(name) for p in patterns for name in names) else self.base

    def exclude(self, names: Iterable[str]) -> None:
        """Leave modules in 16 bits; those of one layer are kept apart, as there may be many hundreds."""
        for name in names:
            at = re.match(r"layers\.(\d+)\.", _from_layers(name))
            into = self.excluded_in_layer.setdefault(int(at[1]), []) if at else self.excluded
            into.append(pattern(name))


def pattern(name: str) -> re.Pattern[str]:
    """How a name in an ignore list matches modules: `re:` expression, glob, or whole dotted parts.

    >>> [bool(pattern("gate").search(f"layers.0.mlp.{name}")) for name in ("gate", "gate_proj")]
    [True, False]
    """
    if name.startswith("re:"):
        try:
            return re.compile(_from_layers(name[3:]))
        except re.error as error:
            raise InputError(f"`{name}` is not a regular expression: {error}") from None
    short = _from_layers(name)
    if not re.search(r"[*?]", short):
        return re.compile(rf"(^|\.){re.escape(short)}(\.|$)")
    glob = re.escape(short).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(rf"^{glob}(\..*)?$")


def _from_layers(name: str) -> str:
    """`name` without what wrappers put before `layers`; an expression keeps a prefix that opens a group."""
    at = name.find("layers")
    return name[at:] if at >= 0 and name.count("(", 0, at) == name.count(")", 0, at) else name


def scheme(keys: Keys, side: Keys | None = None) -> Scheme:
    """The scheme of a config: its side file's where there is one, else `quantization_config`'s."""
    inside = keys.section("quantization_config")
    result = Scheme()
    if inside is not None:
        _read(inside, result)
    if side is not None and side.data.keys() - {"producer"}:
        _read(side, result)
    if keys.text("expert_dtype") == "fp4":  # DeepSeek-V4
        result.rules.append((re.compile(r"\.experts(\.|$)"), "mxfp4"))
    return result


def _read(section: Keys, into: Scheme) -> None:
    """Add what one section says. In a mixed ModelOpt scheme only the named modules are quantised."""
    method = section.text("quant_method").lower()
    algorithm = section.text("quant_algo").upper()
    if section.has("quantized_layers") or algorithm == "MIXED_PRECISION":
        _read_named(section, into)
        if method == "fp8":
            into.base = "fp8_block" if section.has("weight_block_size") else "fp8"
    elif algorithm:
        into.base = _algorithm(section, algorithm)
        into.exclude(_ignored(section))
    elif section.has("config_groups"):
        _read_groups(section, into)
        into.exclude(_ignored(section))
    elif method:
        into.base = _method(section, method, into)
        into.exclude(_ignored(section))
    into.kv = _kv(section) or into.kv


def _read_named(section: Keys, into: Scheme) -> None:
    layers = section.section("quantized_layers")
    if layers is None:
        raise InputError(
            "mixed precision without `quantized_layers`: which layers are quantised?",
            section.where(section.path),
        )
    for name, entry in layers.data.items():
        if not isinstance(entry, dict):
            raise layers.error(f"{layers.path}.{name}", "an object", entry)
        found = str(entry.get("quant_algo", "")).upper()
        into.named[_from_layers(name)] = _algorithm(layers, found)


def _read_groups(section: Keys, into: Scheme) -> None:
    """compressed-tensors: one precision a group of targets; "Linear" or no target means all linear layers."""
    groups = section.section("config_groups")
    assert groups is not None
    for name in groups.data:
        group = groups.section(name)
        weights = group.section("weights") if group is not None else None
        if group is None or weights is None:
            continue
        precision = _from_bits(weights, into)
        targets = group.items("targets", str) or ["Linear"]
        if "Linear" in targets:
            into.base = precision
        into.rules += [(pattern(target), precision) for target in targets if target != "Linear"]


def _from_bits(weights: Keys, into: Scheme) -> Precision:
    bits, kind = weights.integer("num_bits"), weights.text("type", default="int")
    group = weights.integer("group_size", default=None, low=-1)
    if (bits, kind) == (4, "int"):
        into.int4_group = group if group and group > 0 else 128
        return "int4_wo"
    if (bits, kind) == (4, "float"):
        return "mxfp4" if group == 32 else "nvfp4"
    if bits == 8:
        blocks = weights.text("strategy") == "block"
        return "int8" if kind == "int" else ("fp8_block" if blocks else "fp8")
    raise weights.error(f"{weights.path}.num_bits", "4 or 8 bits", bits)


def _method(section: Keys, method: str, into: Scheme) -> Precision:
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block" if section.has("weight_block_size") else "fp8"
    if method == "mxfp4":
        return "mxfp4"
    if method == "bitsandbytes":
        return "int8" if section.flag("load_in_8bit", "_load_in_8bit") else "int4_wo"
    if method in BY_BITS:
        bits = section.integer("bits", "w_bit", "nbits", default=4)
        if bits not in (4, 8):
            raise section.error(f"{section.path}.bits", "4 or 8 bits", bits)
        group = section.integer("group_size", "q_group_size", default=128, low=-1)
        into.int4_group = group if group > 0 else 128
        return "int4_wo" if bits == 4 else "int8"
    known = ["fp8", "fbgemm_fp8", "mxfp4", "bitsandbytes", *BY_BITS, "compressed-tensors", "modelopt"]
    hint = f"did you mean {', '.join(nearest(method, known))}?"
    raise InputError(
        f"unknown quantisation method `{method}`", section.where(f"{section.path}.quant_method"), hint
    )


def _algorithm(section: Keys, name: str) -> Precision:
    if name not in ALGORITHMS:
        raise section.error(f"{section.path}.quant_algo", f"one of {', '.join(ALGORITHMS)}", name)
    return ALGORITHMS[name]


def _ignored(section: Keys) -> list[str]:
    names = ("exclude_modules", "ignore", "modules_to_not_convert", "ignored_layers")
    return [name for key in names for name in section.items(key, str)]


def _kv(section: Keys) -> str | None:
    """Precision of the KV cache, where the section says one."""
    found = section.find("kv_cache_quant_algo", "kv_cache_scheme")
    if found is None:
        return None
    path, value = found
    if isinstance(value, dict):
        bits: Any = value.get("num_bits")
        if bits not in KV_BITS:
            raise section.error(f"{path}.num_bits", "4 or 8 bits", bits)
        return KV_BITS[bits]
    if str(value).upper() not in ("FP8", "NVFP4", "INT8"):
        raise section.error(path, "FP8 or NVFP4", value)
    return "nvfp4" if str(value).upper() == "NVFP4" else "fp8"
