"""TensorRT-LLM.

Memory: commands/serve.py (0.9 of what is free after weights and buffers, batch of 2048). Devices and
precisions: "Supported hardware" and "Quantization: hardware support matrix" (1.0 to 1.3: FP8 in blocks on
Hopper and sm100/103 alone, W4A16 until Hopper, FP8 caches from Ampere on, no INT8; issue 5581 for sm120),
where MXFP4 on Hopper is measured though not listed. Windows: unless `max_attention_window` is set, every
layer keeps the whole context (resource_manager.py), by the second cache manager, too, which gpt-oss has since
pull 16942, until pull 18767 of September 2026. Copies of experts, 1.2: examples/wide_ep (GB200 and
GB300 NVL72, H20, RTX 6000D: others of their generations run the same kernels); deployment guide of
DeepSeek-R1, "MoE backend support matrix": FP8 on GB200 without EPLB. Models: docs/source/models/
supported-models.md of September 2026, by the classes of their Hugging Face configs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.designs.shape import Floats
from planner.engines.engine import CONTEXT_BYTES, Engine, Reserving
from planner.engines.generations import BLACKWELL, FROM_ADA, FROM_AMPERE, FROM_HOPPER

FREE_SHARE: Final = 0.9
"""`free_gpu_memory_fraction`: KV cache as a share of what weights and buffers leave."""

LISTED: Final = frozenset(
    {
        "AfmoeForCausalLM",
        "Cohere2ForCausalLM",
        "DeciLMForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV4ForCausalLM",
        "Exaone4ForCausalLM",
        "ExaoneForCausalLM",
        "ExaoneMoEForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Gemma3nForConditionalGeneration",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "GptOssForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "HunYuanDenseForCausalLM",
        "HunYuanMoEForCausalLM",
        "InternLM3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "LagunaForCausalLM",
        "Llama4ForConditionalGeneration",
        "LlamaForCausalLM",
        "LlavaNextForConditionalGeneration",
        "MiniMaxM2ForCausalLM",
        "MiniMaxM3ForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "MllamaForConditionalGeneration",
        "NemotronForCausalLM",
        "NemotronHForCausalLM",
        "NemotronNASForCausalLM",
        "Olmo3ForCausalLM",
        "OpenELMForCausalLM",
        "Phi3ForCausalLM",
        "Phi4MMForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "SeedOssForCausalLM",
        "SkyworkR1V2ForConditionalGeneration",
        "SmolLM3ForCausalLM",
        "Step3p5ForCausalLM",
        "Step3p7FlashForCausalLM",
        "Step3p7ForConditionalGeneration",
    }
)


def _tokens_per_step(gib: float, device: str) -> int:
    """`--max_num_tokens`."""
    return 8192


def _reserve_bytes(m: Reserving) -> Floats:
    left = m.visible - CONTEXT_BYTES - m.buffers - m.graphs - m.used
    return m.device_bytes - m.used - np.minimum(left, (m.share or FREE_SHARE) * left)


TRTLLM: Final = Engine(
    name="trtllm",
    listed=LISTED,
    generations=FROM_AMPERE,
    weights={
        "fp8": FROM_ADA,
        "fp8_block": frozenset({"hopper", "blackwell_dc"}),
        "nvfp4": BLACKWELL,
        "mxfp4": FROM_HOPPER,
        "int4_wo": frozenset({"ampere", "ada", "hopper"}),
    },
    cache={"fp8": FROM_AMPERE, "nvfp4": frozenset({"blackwell_dc"})},
    balanced={
        "bf16": FROM_HOPPER,
        "fp8": FROM_HOPPER,
        "fp8_block": frozenset({"hopper"}),
        "nvfp4": BLACKWELL,
    },
    tokens_per_step=_tokens_per_step,
    reserve_bytes=_reserve_bytes,
    balance_steps=60,
    # as public recipes for DeepSeek-R1 on B200 ask for since 1.2
    expert_kernels={
        ("blackwell_dc", "fp8_block"): ("trtllm", "deepgemm"),
        ("blackwell_dc", "nvfp4"): ("trtllm", "cutlass"),
    },
    block_tokens=32,  # tokens_per_block
    logit_bytes=12.0,  # fp32 logits, probabilities and a copy
    admits_whole=True,
    past_windows=1.0,  # one pool for all layers unless max_attention_window is set
    keeps_idle=frozenset({"Attention", "Mla"}),
    # 1.0 and later, features/speculative-decoding
    drafts={
        "mtp": "speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {k}}}",
        "eagle": "speculative_config: {{decoding_type: Eagle3, max_draft_len: {k}, speculative_model: HEAD}}",
        "ngram": "speculative_config: {{decoding_type: NGram, max_draft_len: {k}}}",
        "draft": "speculative_config: {{decoding_type: DraftTarget, max_draft_len: {k}, "
        "speculative_model: {name}}}",
    },
)
