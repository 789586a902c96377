"""Bytes of activations alive at once on one GPU of each stage, at the engine's largest step.

At the widest layer of the stage: the residual stream, its norm, and all inputs and outputs of the layer's
attention or FFN kernels at once. On the last stage sampling may take more; the two are not alive together.
Measured: vLLM keeps 1.26 GiB for Llama-3-8B at 8192 tokens and 256 sequences, at tp 1 and at tp 2 (pull
10511); here 1.25 and 1.25.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms
from model_zoo.schema import Gemm, Layer, ModelCard, MoeFfn
from planner.cost.reserve import Sequences
from planner.designs.shape import Designs, Floats, Ints
from planner.designs.stages import Stages
from planner.engines import named

ACTIVATION_BYTES = 2.0
"""Bytes of an activation: 16 bit between kernels, whatever the weights are."""

FUSED_MOE_TOKENS = 32768
"""Tokens that fused expert kernels take at once; more are chunked (vLLM's VLLM_FUSED_MOE_CHUNK_SIZE)."""


def activation_bytes(
    card: ModelCard, designs: Designs, stages: Stages, tokens: int, sampling_bytes: Floats
) -> Floats:
    """Bytes per GPU of a step of `tokens` on one server, shape (n, stages); `sampling_bytes`: on the last
    stage, shape (1,) or (n,)."""
    widths = [_layer_width(layer, card.hidden, designs, tokens) for layer in stages.kinds]
    width = stages.exists * 2 * card.hidden + stages.widest(np.stack(widths, axis=1))
    own = ACTIVATION_BYTES * tokens / designs.cp[:, None]
    return np.asarray(np.maximum(own * width, stages.last * sampling_bytes[:, None]))


def sampling_bytes(card: ModelCard, engine: str, sequences: Sequences) -> Floats:
    """Bytes of turning hidden states of `sequences` into tokens, on every GPU of the last stage, shape (1,)
    or (n,)."""
    each = card.vocab * named(engine).logit_bytes
    return np.atleast_1d(np.asarray(sequences, dtype=np.float64)) * each


def _layer_width(layer: Layer, hidden: int, designs: Designs, tokens: int) -> Floats:
    """Activations a token at the wider of mixer and FFN, shape (n,)."""
    attention = _width(mixer_gemms(layer.mixer, hidden), designs.tp)
    ffn = _width(ffn_gemms(layer.ffn, hidden), designs.tp)
    if isinstance(layer.ffn, MoeFfn):
        into = layer.ffn.latent or hidden
        routed = into + _width(expert_gemms(layer.ffn, hidden), designs.moe_tp)
        ffn = ffn + layer.ffn.top_k * routed * _routed_tokens(designs, tokens) / tokens
    return np.maximum(attention, ffn)


def _width(gemms: Sequence[Gemm], shards: Ints) -> Floats:
    """Outputs of all `gemms` on one rank, and inputs of those whose input is divided, shape (n,)."""
    width = np.zeros(len(shards))
    for gemm in gemms:
        if gemm.split == "out":
            width = width + gemm.n / shards
        else:
            width = width + gemm.n + (gemm.k / shards if gemm.split == "in" else 0)
    return width


def _routed_tokens(designs: Designs, tokens: int) -> Floats:
    """Tokens that one rank's experts see in a step when they come from all attention-dp ranks evenly, shape
    (n,)."""
    gathered = tokens * np.maximum(1.0, designs.groups / designs.ep)
    return np.asarray(np.minimum(gathered, max(tokens, FUSED_MOE_TOKENS)))
