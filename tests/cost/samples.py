"""Small cards and designs that the cost model's tests share."""

from __future__ import annotations

import numpy as np

from cluster_configs.reading import from_gpus
from model_zoo.schema import (
    Attention,
    DenseFfn,
    Indexer,
    LinearAttention,
    Mla,
    ModelCard,
    MoeFfn,
    Run,
    Weights,
)
from planner.cost.model import CostModel
from planner.cost.told import AS_USUAL
from planner.designs.shape import Designs, Precisions

BF16 = Precisions("bf16", "bf16", "bf16", "bf16")


def card(mixer, ffn, layers=32, hidden=4096, vocab=128256, weights=None):
    """A model of equal layers."""
    return ModelCard(
        name="sample",
        source="made up",
        hidden=hidden,
        vocab=vocab,
        max_context=131072,
        mixers={"m": mixer},
        ffns={"f": ffn},
        layers=[Run(times=layers, of=["m/f"])],
        weights=weights or Weights(),
    )


GQA = Attention(heads=32, kv_heads=8, head_dim=128)
MLA = Mla(heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope=128, qk_rope=64, v_head_dim=128)
SPARSE = MLA.model_copy(update={"indexer": Indexer(heads=64, head_dim=128, top_k=2048)})
WINDOW = GQA.model_copy(update={"window": 128})
LINEAR = LinearAttention(key_heads=16, value_heads=32, key_dim=128, value_dim=128)
MOE = MoeFfn(experts=128, top_k=8, inner=1536)

LLAMA_8B = card(GQA, DenseFfn(inner=14336))
LLAMA_70B = card(Attention(heads=64, kv_heads=8, head_dim=128), DenseFfn(inner=28672), 80, 8192)
SPARSE_MOE = card(GQA, MOE, 48, 4096, 151936)
KINDS = {
    "gqa": LLAMA_8B,
    "window": card(WINDOW, DenseFfn(inner=14336)),
    "mla": card(MLA, MOE, 20, 7168),
    "sparse": card(SPARSE, MOE, 20, 7168),
    "linear": card(LINEAR, DenseFfn(inner=14336)),
    "moe": SPARSE_MOE,
}


def designs(*rows: tuple[int, int, int, int, int]) -> Designs:
    """From (tp, pp, attn_dp, moe_tp, ep) rows."""
    return Designs.plain(*np.array(rows, dtype=np.int64).T)


def tensor_parallel(*degrees: int) -> Designs:
    """tp of each design, all else 1."""
    return designs(*[(tp, 1, 1, tp, 1) for tp in degrees])


def cost(model=LLAMA_8B, device="h100-sxm", engine="vllm", used=BF16, by=None, told=AS_USUAL) -> CostModel:
    """The cost model on a node of eight; `by`: a calibration other than the shipped one,
    `told`: what its launch line says."""
    return CostModel(model, from_gpus(f"8x{device}").classes[0], engine, used, by, told)
