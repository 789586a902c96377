"""Models and designs that the tests of memory share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from model_zoo.schema import Attention, DenseFfn, LinearAttention, Mla, ModelCard, MoeFfn, Run, Weights
from planner.cost.memory import Memory, fullest_at, room_by_stage
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Precisions

GIB = 2.0**30
ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")


def designs(*shapes: tuple[int, ...]) -> Designs:
    """Designs from (tp, pp, attn_dp, moe_tp, ep); the last three default to 1, tp, 1."""
    full = [(tp, pp, *(rest or (1, tp, 1))) for tp, pp, *rest in shapes]
    return Designs.plain(*np.array(full, dtype=np.int64).T)


def changed(card: ModelCard, update: dict[str, object]) -> ModelCard:
    """The card with some fields replaced; `model_copy` would keep the old layers cached."""
    return ModelCard(**{field: getattr(card, field) for field in ModelCard.model_fields} | update)


def room(
    card: ModelCard, device_memory_bytes: float, d: Designs, used: Precisions, engine: str, *more, **rest
) -> Memory:
    """Memory of the fullest stage; `more`: tokens per step and what else `room_by_stage` takes."""
    by_stage = room_by_stage(card, device_memory_bytes, d, used, engine, *more, **rest)
    return fullest_at(card, d, used, engine, by_stage)


def vllm(card: ModelCard, device_memory_bytes: float, *shapes: tuple[int, ...]) -> Memory:
    return room(card, device_memory_bytes, designs(*shapes), precisions(card), "vllm", 8192)


SMALL = ModelCard(
    name="small",
    source="made up",
    hidden=256,
    vocab=1024,
    max_context=4096,
    mixers={"a": Attention(heads=8, kv_heads=8, head_dim=32)},
    ffns={"f": DenseFfn(inner=512)},
    layers=[Run(times=6, of=["a/f"])],
)
SMALL_LAYER_BYTES = 2 * (4 * 256 * 256 + 3 * 256 * 512)
SMALL_TABLE_BYTES = 2 * 1024 * 256


@st.composite
def cards(draw: st.DrawFn) -> ModelCard:
    """Small models of every kind, dense or MoE, tied or not, with and without MTP and vision."""
    heads = 16
    attention = draw(
        st.sampled_from(
            [
                Attention(heads=heads, kv_heads=16, head_dim=64),
                Attention(heads=heads, kv_heads=4, head_dim=64),
                Attention(heads=heads, kv_heads=2, head_dim=64, window=512),
                Mla(heads=heads, q_lora_rank=128, kv_lora_rank=128, qk_nope=32, qk_rope=16, v_head_dim=32),
            ]
        )
    )
    other = draw(
        st.sampled_from([attention, LinearAttention(key_heads=16, value_heads=16, key_dim=32, value_dim=32)])
    )
    ffn = draw(
        st.sampled_from([DenseFfn(inner=4096), MoeFfn(experts=32, top_k=4, inner=1024, shared_inner=1024)])
    )
    return ModelCard(
        name="any",
        source="drawn",
        hidden=1024,
        vocab=4096,
        tied_embeddings=draw(st.booleans()),
        max_context=10**6,
        mixers={"a": attention, "b": other},
        ffns={"f": ffn},
        layers=[Run(times=draw(st.integers(2, 8)), of=["b/f", "a/f"])],
        weights=draw(
            st.sampled_from([Weights(), Weights(attention="fp8", dense="fp8", experts="nvfp4", kv="fp8")])
        ),
        mtp_layers=draw(st.integers(0, 1)),
        vision_params=draw(st.sampled_from([0, 10**6])),
        extra_params=draw(st.sampled_from([0, 10**5])),
    )


def per_replica(
    card: ModelCard, d: Designs, used: Precisions, engine: str, memory: float
) -> tuple[Memory, np.ndarray]:
    """Memory by stage, and KV bytes of all GPUs of each replica."""
    by_stage = room_by_stage(card, memory, d, used, engine, 4096)
    room_there = np.where(np.isfinite(by_stage.kv_bytes), by_stage.kv_bytes, 0.0)
    return by_stage, room_there.sum(axis=1) * d.tp * d.attn_dp
