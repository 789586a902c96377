"""Kinds of drafter, the engines that have them, and how many of the drafted tokens are accepted.

A step verifies k drafted tokens beside the next one and keeps those before the first that the model would not
have said: of k tokens that are each accepted with probability p, p + p² + … + p^k on average, and one of the
model's own (Leviathan et al. 2023, arXiv:2211.17192, equation 1: tokens accepted independently).

| kind | drafts by | needs |
|---|---|---|
| mtp | the checkpoint's own multi-token-prediction layer | `mtp_layers` in the card |
| eagle | a head of one layer that was trained for the model (EAGLE-3, arXiv:2503.01840) | its checkpoint |
| ngram | what followed the last tokens earlier in the request | nothing |
| draft | a smaller model with the same tokens, by name | a card |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from model_zoo import catalog
from model_zoo.schema import Attention, DenseFfn, Mla, ModelCard, MoeFfn, Run, Weights
from planner.engines import named
from planner.errors import InputError, nearest

Kind = Literal["mtp", "eagle", "ngram", "draft"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

ACCEPTED: Final[Mapping[Kind, float]] = {"mtp": 0.55, "eagle": 0.49}
"""Probability with which each drafted token is accepted, unless stated.

mtp: what makes predicted TPOT the measured one in public runs of DeepSeek-R1 (InferenceX; fitted on half of
them, benchmarks/speculation.py). eagle: of that so much less that three drafted tokens give 8 % fewer in a
step, as on MT-Bench (model card of AQ-MedAI/Qwen3.5-397B-A17B-eagle3, EAGLE-3 beside the model's own MTP).
n-grams and draft models: by prompts and models anything from nothing to nearly all, so it must be said."""

LENGTHS: Final = (1, 3)
"""Tokens drafted a step that are offered, unless told: as public recipes have them for MTP (InferenceX:
TensorRT-LLM 3, with attention-dp 1; SGLang 2)."""

MOST_TOKENS: Final = 16

EAGLE_VOCAB: Final = 32_000
"""Tokens that EAGLE-3 heads choose from, where the model has more (`draft_vocab_size` of
yuhuili/EAGLE3-LLaMA3.1-Instruct-8B)."""


@dataclass(frozen=True)
class Draft:
    """One way to draft: `tokens` a step, each accepted with probability `acceptance`. `card`: the drafter as
    a model, None of n-grams."""

    kind: Kind
    tokens: int
    acceptance: float
    card: ModelCard | None = None

    @property
    def accepted(self) -> float:
        """Drafted tokens that a step keeps on average.

        >>> round(Draft("ngram", 3, 0.5).accepted, 3)
        0.875
        """
        return sum(self.acceptance**i for i in range(1, self.tokens + 1))

    @property
    def name(self) -> str:
        """In ids of candidates: "mtp 3", "draft llama-3.2-1b 3"."""
        model = f"{self.card.name} " if self.kind == "draft" and self.card else ""
        return f"{self.kind} {model}{self.tokens}"

    def option(self, engine: str) -> str:
        """What tells the engine to draft so."""
        return named(engine).drafts[self.kind].format(k=self.tokens, name=self.card.name if self.card else "")


def acceptance_of(tokens: int, accepted: float) -> float:
    """The probability at which `accepted` of `tokens` drafted ones are accepted on average, by bisection.

    >>> round(acceptance_of(3, 0.875), 6)
    0.5
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if Draft("ngram", tokens, middle).accepted < accepted else (low, middle)
    return (low + high) / 2


def mtp_card(card: ModelCard) -> ModelCard:
    """The checkpoint's own prediction layer as a model of one layer, like the last where the card names none;
    it reads embedding and LM head of the model."""
    last = [name for run in card.layers for name in run.of][-1]
    return _of_one_layer(card, card.mtp_layer or last)


def eagle_card(card: ModelCard) -> ModelCard:
    """An EAGLE-3 head as a model of one dense layer in 16 bits: attention as the model's last, an FFN as wide
    as a token meets there, an LM head of its own over the most frequent tokens."""
    mixer = next(x.mixer for x in reversed(card.stack) if isinstance(x.mixer, Attention | Mla))
    ffn = next(x.ffn for x in reversed(card.stack) if x.ffn is not None)
    inner = ffn.top_k * ffn.inner + ffn.shared_inner if isinstance(ffn, MoeFfn) else ffn.inner
    return _of_one_layer(
        card,
        "attn/dense",
        name=f"{card.name} EAGLE-3 head",
        vocab=min(card.vocab, EAGLE_VOCAB),
        mixers={"attn": mixer.model_copy(update={"precision": {}, "indexer": None})},
        ffns={"dense": DenseFfn(inner=inner)},
        weights=Weights(kv=card.weights.kv),
    )


def _of_one_layer(card: ModelCard, layer: str, **changed: object) -> ModelCard:
    """The card with one layer and nothing beside it; checked anew, as what a card derives it keeps."""
    bare = {"mtp_layers": 0, "mtp_layer": None, "vision_params": 0, "extra_params": 0}
    fields = {name: getattr(card, name) for name in ModelCard.model_fields}
    return ModelCard(**{**fields, **bare, "layers": [Run(times=1, of=[layer])], **changed})


def drafts_of(
    card: ModelCard, speculation: str | None, acceptance: float | None, draft_tokens: int | None
) -> list[Draft]:
    """What `--speculation` asks for, a draft for each number of tokens. Raises InputError."""
    if speculation is None:
        for option, value in (("--acceptance", acceptance), ("--draft-tokens", draft_tokens)):
            if value is not None:
                raise InputError("nothing is drafted without --speculation", option, "--speculation auto")
        return []
    kind, drafter = _drafter(card, speculation)
    share = acceptance if acceptance is not None else ACCEPTED.get(kind)
    if share is None:
        raise InputError(
            f"how many drafted tokens of `{speculation}` are accepted is known to you alone",
            "--acceptance",
            "--acceptance takes a number, or the results of `vllm bench serve` with drafts",
        )
    lengths = (draft_tokens,) if draft_tokens is not None else LENGTHS
    return [Draft(kind, k, share, drafter) for k in lengths]


def _drafter(card: ModelCard, speculation: str) -> tuple[Kind, ModelCard | None]:
    """The kind named, and the drafter as a model. Raises InputError."""
    name, _, model = speculation.partition(":")
    known = ("off", "auto", *KINDS)
    if name not in known or name == "off" or bool(model) != (name == "draft"):
        hint = "draft:MODEL names a smaller model" if name == "draft" else f"one of {', '.join(known)}:MODEL"
        near = nearest(name, known, 1)[0]
        raise InputError(
            f"no way to draft is called `{speculation}`, nearest `{near}`", "--speculation", hint
        )
    if name == "auto":
        name = "mtp" if card.mtp_layers else "eagle"
    if name == "mtp" and not card.mtp_layers:
        raise InputError(
            f"{card.name} has no multi-token-prediction layers",
            "--speculation",
            "eagle, ngram or draft:MODEL",
        )
    if name == "eagle" and not any(isinstance(x.mixer, Attention | Mla) for x in card.stack):
        raise InputError(f"{card.name} has no attention for an EAGLE head", "--speculation", "ngram")
    if name == "draft":
        return "draft", _smaller(card, model)
    return name, {"mtp": mtp_card, "eagle": eagle_card}[name](card) if name != "ngram" else None  # type: ignore[return-value]


def _smaller(card: ModelCard, name: str) -> ModelCard:
    """The draft model. Raises InputError: unknown, of other tokens, or no smaller."""
    from model_zoo.derive import active_params

    found, _ = catalog.find(name)
    if found.vocab != card.vocab:
        counts = f"{found.vocab:,} and {card.vocab:,}"
        raise InputError(f"{found.name} and {card.name} have other tokens: {counts}", "--speculation")
    if active_params(found) >= active_params(card):
        raise InputError(f"{found.name} is no smaller than {card.name}: it cannot draft", "--speculation")
    return found
