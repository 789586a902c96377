"""Bytes of weights on one GPU of each pipeline stage, exact up to padding: what is divided, what is repeated.

    attention                   / tp; K and V by the KV heads at most (beyond, heads are repeated);
                                what makes a latent (`a` halves of MLA and DeepSeek-V4, indexers) whole
    dense FFN, shared experts   / tp, repeated on every attention-dp rank
    router, latent projections  whole on every rank
    routed experts              ceil(experts / ep) of them, each / moe_tp
    embedding, LM head          / tp, on the first and last stage; tied: on both where they differ
    MTP layers                  on the last stage, with a copy of the embedding where that is another stage;
                                counted although engines load them only to speculate: a plan leaves that open
    vision tower                whole on every GPU of the first stage, 16 bit
    norms, biases, convolutions whole, 16 bit, spread evenly over the layers

Sources: vLLM 0.33 (config/model.py, layers/linear.py, layers/vocab_parallel_embedding.py, layers/fused_moe).
"""

from __future__ import annotations

import numpy as np

from model_zoo.derive import embedding_params, lm_head_params, mtp_layer
from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms, v_dim
from model_zoo.schema import Attention, Gemm, Layer, Mamba2, ModelCard, MoeFfn
from planner.designs.precision import MatrixPrecision
from planner.designs.shape import Designs, Floats, Precisions
from planner.designs.stages import Stages

BF16_BYTES = 2.0


def weights_bytes(card: ModelCard, designs: Designs, used: Precisions, stages: Stages) -> Floats:
    """Bytes of weights per GPU of each stage, shape (n, stages)."""
    matrix = MatrixPrecision(card, used)
    by_kind = [layer_bytes(layer, card.hidden, designs, matrix) for layer in stages.kinds]
    share = stages.counts.sum(axis=2) / len(card.stack)
    held = stages.total(np.stack(by_kind, axis=1)) + share * card.extra_params * BF16_BYTES
    held = held + stages.first * card.vision_params * BF16_BYTES
    return np.asarray(held + _ends_bytes(card, designs, matrix, stages))


def layer_bytes(layer: Layer, hidden: int, designs: Designs, matrix: MatrixPrecision) -> Floats:
    """Bytes of one layer on one GPU, shape (n,)."""
    total = np.zeros(len(designs))
    for gemm in mixer_gemms(layer.mixer, hidden):
        total = total + _held_params(gemm, designs, layer) * matrix.bytes(matrix.attention(layer, gemm))
    for gemm in ffn_gemms(layer.ffn, hidden):
        total = total + _held_params(gemm, designs) * matrix.bytes(matrix.dense(layer, gemm))
    if isinstance(layer.ffn, MoeFfn):
        here = np.ceil((layer.ffn.experts + designs.redundant) / designs.ep) / designs.moe_tp
        gemms = expert_gemms(layer.ffn, hidden)
        total = total + here * sum(g.params * matrix.bytes(matrix.expert(layer, g)) for g in gemms)
    return total


def _held_params(gemm: Gemm, designs: Designs, layer: Layer | None = None) -> Floats:
    """Parameters of `gemm` on one rank, shape (n,)."""
    if gemm.split == "none":
        return np.full(len(designs), float(gemm.params))
    held = gemm.params / designs.tp
    repeated, shards = repeated_outputs(gemm, layer)
    return held + repeated * gemm.k * (1 / np.minimum(designs.tp, shards) - 1 / designs.tp)


def repeated_outputs(gemm: Gemm, layer: Layer | None) -> tuple[int, int]:
    """Outputs of `gemm` that only so many ranks can divide (K and V by KV heads, B and C by groups), and how
    many."""
    mixer = layer.mixer if layer else None
    if isinstance(mixer, Attention) and gemm.name == "qkv":
        one_projection = mixer.k_is_v or mixer.shared_kv
        width = mixer.head_dim + (0 if one_projection else v_dim(mixer))
        return mixer.kv_heads * width, mixer.kv_heads
    if isinstance(mixer, Mamba2) and gemm.name == "in":
        return 2 * mixer.groups * mixer.state, mixer.groups
    return 0, 1


def _ends_bytes(card: ModelCard, designs: Designs, matrix: MatrixPrecision, stages: Stages) -> Floats:
    """Bytes of embedding, LM head and MTP layers, shape (n, stages)."""
    tp = designs.tp[:, None]
    embedding = embedding_params(card) * matrix.bytes(matrix.used.embedding) / tp
    apart = stages.last & ~stages.first
    head = lm_head_params(card) * matrix.bytes(matrix.lm_head) / tp
    held = stages.first * embedding + stages.last * head
    if card.tied_embeddings or card.mtp_layers:
        held = held + apart * embedding
    if card.mtp_layers:
        one = layer_bytes(mtp_layer(card), card.hidden, designs, matrix) + BF16_BYTES * 2 * card.hidden**2
        held = held + stages.last * card.mtp_layers * one[:, None]
    return held
