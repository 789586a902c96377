"""A card in a few words, and as the short YAML that people read: defaults left out, one layer kind a line.

`python -m model_zoo.writing config.json > my-model.yaml` makes a card to edit, from any Hugging Face config.
"""

from __future__ import annotations

import io
import sys
import textwrap
from typing import Any

from .schema import Attention, LinearAttention, Mamba2, Mla, ModelCard

WIDTH = 110


def as_document(card: ModelCard) -> dict[str, Any]:
    """The card as plain data without what is default, in the order of the schema."""
    document = card.model_dump(mode="json", exclude_defaults=True)
    for section, parts in (("mixers", card.mixers), ("ffns", card.ffns)):
        document[section] = {
            name: {"kind": part.kind, **part.model_dump(mode="json", exclude_defaults=True)}
            for name, part in parts.items()
        }
    return document


def to_yaml(card: ModelCard) -> str:
    """The card's YAML text: a line for each layer kind and run. Reading it back gives an equal card."""
    lines: list[str] = []  # long ones are folded: a flow collection may go on in the next line, indented
    for key, value in as_document(card).items():
        if isinstance(value, list):
            lines += [f"{key}:", *(f"  - {_flow(entry)}" for entry in value)]
        elif key in ("mixers", "ffns"):
            lines += [f"{key}:", *(f"  {name}: {_flow(part)}" for name, part in value.items())]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(_folded(line) for line in lines) + "\n"


def _folded(line: str) -> str:
    if "{" not in line:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return "\n".join(
        textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def _flow(value: Any) -> str:
    """`value` as YAML on one line."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 10_000
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue().removesuffix("...\n").strip()


def attention_kinds(card: ModelCard) -> str:
    """The kinds of mixer in order of appearance, as "GQA + window 128" or "GDN + GQA"."""
    kinds = [_kind(layer.mixer) for layer in card.stack if layer.mixer is not None]
    return " + ".join(dict.fromkeys(kinds))


def _kind(mixer: Attention | Mla | LinearAttention | Mamba2) -> str:
    if isinstance(mixer, LinearAttention):
        return "GDN" if mixer.decay_rank is None else "KDA"
    if isinstance(mixer, Mamba2):
        return "Mamba-2"
    sparse = "sparse " if mixer.indexer is not None else ""
    if isinstance(mixer, Mla):
        return f"{sparse}MLA"
    if mixer.compress is not None:
        return f"{sparse}1-in-{mixer.compress}"
    if mixer.window is not None:
        return f"window {mixer.window}"
    names = {mixer.heads: "MHA", 1: "MQA"}
    return sparse + names.get(mixer.kv_heads, "GQA")


def weights_precision(card: ModelCard) -> str:
    """Precision of most weights: of the experts where there are any, with that of attention where it
    differs."""
    kinds = [card.weights.experts if card.moe else card.weights.dense]
    if card.mixers and card.weights.attention not in kinds:
        kinds.append(card.weights.attention)
    return " + ".join(kinds)


if __name__ == "__main__":
    from .huggingface import from_config

    sys.stdout.write(to_yaml(from_config(sys.argv[1])))
