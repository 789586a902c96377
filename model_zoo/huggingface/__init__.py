"""Reads any Hugging Face `config.json` into a model card, one concern a file."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from planner.errors import InputError
from planner.reading.validation import explain

from ..schema import Layer, Mixer, ModelCard, Run
from . import attention, layers, modules, quantisation, vectors
from .keys import Keys, load

CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "n_ctx")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
UNPUBLISHED_MTP = ("minimax_m2",)
"""Families whose configs name MTP layers that none of their checkpoints has (MiniMax-AI: issues 47 of
MiniMax-M2, 8 of MiniMax-M2.5, 16 of MiniMax-M2.7)."""

TIED_BY_DEFAULT = ("gemma", "gpt2", "bloom", "opt", "falcon")
ESTIMATED = ("minimax_m3", "kimi_k3", "kimi_linear", "step3p5", "step3p7")
"""Families whose matrices are not all published in the config: counts are estimates."""


def from_config(path: str | Path) -> ModelCard:
    """The card of the model whose config is `path`: the JSON file, or a directory with a `config.json`.

    ModelOpt's side file is used where it lies beside it. Raises `InputError` for anything unusable.
    """
    file = _file(Path(path))
    side = _side_file(file)
    keys = Keys(load(file))
    side_keys = Keys(load(side), nested=False).section("quantization") if side else None
    try:
        return card(keys, side_keys, identity(file))
    except ValidationError as error:  # sizes that are no model's
        raise explain(keys.document, ModelCard, error) from None


def card(keys: Keys, side: Keys | None, hf_id: str) -> ModelCard:
    """The card that `keys` describe."""
    if keys.flag("is_encoder_decoder"):
        raise InputError(
            "an encoder-decoder model: only decoders are planned", keys.where("is_encoder_decoder")
        )
    hidden = keys.integer(*HIDDEN)
    vocab = keys.integer("vocab_size")
    plain = layers.stack(keys, hidden)
    family = keys.text("model_type")
    scheme = quantisation.scheme(keys, side)
    found = modules.stored(scheme, plain, hidden, beside=family.startswith("gemma"))
    weights = modules.weights(scheme, plain, found, hidden)
    stack = [modules.own_precisions(layer, one, weights) for layer, one in zip(plain, found, strict=True)]
    mtp = 0 if family in UNPUBLISHED_MTP else keys.integer(*MTP, default=0, low=0)
    mtp_layer = _mtp_layer(keys, stack) if mtp else None
    named = _Named(stack + ([mtp_layer] if mtp_layer else []))
    return ModelCard(
        name=hf_id.rpartition("/")[2],
        hf_id=hf_id if "/" in hf_id else None,
        architecture=next(iter(Keys(keys.document, nested=False).items("architectures", str)), None),
        source=f"Hugging Face config of {hf_id}",
        hidden=hidden,
        vocab=vocab,
        tied_embeddings=keys.flag("tie_word_embeddings", default=family.startswith(TIED_BY_DEFAULT)),
        max_context=keys.integer(*CONTEXT),
        mixers=named.mixers,
        ffns=named.ffns,
        layers=named.runs(stack),
        weights=weights,
        mtp_layers=mtp,
        mtp_layer=named.name(mtp_layer) if mtp_layer else None,
        vision_params=vectors.vision_params(keys, hidden),
        extra_params=vectors.extra_params(keys, stack, hidden),
        estimate=family in ESTIMATED,
    )


class _Named:
    """Names for the different mixers and FFNs of a stack; equal parts share one."""

    def __init__(self, stack: list[Layer]) -> None:
        mixers = {m.model_dump_json(): m for m, _ in stack if m is not None}
        ffns = {f.model_dump_json(): f for _, f in stack if f is not None}
        self._mixer_names = layers.named(list(mixers), {k: layers.mixer_name(m) for k, m in mixers.items()})
        self._ffn_names = layers.named(list(ffns), {k: layers.ffn_name(f) for k, f in ffns.items()})
        self.mixers: dict[str, Mixer] = {self._mixer_names[k]: m for k, m in mixers.items()}
        self.ffns = {self._ffn_names[k]: f for k, f in ffns.items()}

    def name(self, layer: Layer) -> str:
        mixer = "-" if layer.mixer is None else self._mixer_names[layer.mixer.model_dump_json()]
        return f"{mixer}/{'-' if layer.ffn is None else self._ffn_names[layer.ffn.model_dump_json()]}"

    def runs(self, stack: list[Layer]) -> list[Run]:
        return layers.run_lengths([self.name(layer) for layer in stack])


def _mtp_layer(keys: Keys, stack: list[Layer]) -> Layer | None:
    """The shape of an MTP layer where it is not that of the last layer."""
    words = layers.single_parts(keys, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    if words:  # Nemotron-H: an attention and a MoE part, as the main model has them
        parts = [layers.single_part(keys, word, 0) for word in words]
        mixers, ffns = [m for m, _ in parts if m is not None], [f for _, f in parts if f is not None]
        return Layer(
            next((m for m, _ in stack if mixers and m is not None and m.kind == mixers[0].kind), None),
            next((f for _, f in stack if ffns and f is not None and f.kind == ffns[0].kind), None),
        )
    if keys.has("compress_ratios"):
        ratios = keys.items("compress_ratios", int)
        if len(ratios) > len(stack):
            return Layer(attention.compressed(keys, ratios[len(stack)]), stack[-1].ffn)
    return None


def identity(file: Path) -> str:
    """ORG/NAME as far as the path tells: `org--name.json`, the hub's cache folders, the folder's name."""
    for part in reversed(file.parts[:-1]):
        if cached := re.fullmatch(r"models--(.+?)--(.+)", part):
            return f"{cached[1]}/{cached[2]}"
    stem = file.stem if file.stem != "config" else file.resolve().parent.name
    org, dashes, name = stem.partition("--")
    return f"{org}/{name}" if dashes and org and name else stem or "model"


def _file(path: Path) -> Path:
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        hint = "give a Hugging Face config.json, or the folder that holds it"
        raise InputError("no such model config", str(file), hint)
    return file


def _side_file(file: Path) -> Path | None:
    """ModelOpt's file beside a config: X.hf_quant.json, or hf_quant_config.json in a model's folder."""
    candidates = [file.with_name(f"{file.stem}.hf_quant.json")]
    if file.name == "config.json":
        candidates.append(file.with_name("hf_quant_config.json"))
    return next((c for c in candidates if c.is_file()), None)
