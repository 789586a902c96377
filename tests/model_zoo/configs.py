"""Small but real configs, one for each way of attending, and how tests read them."""

import json
from pathlib import Path
from typing import Any

from model_zoo.huggingface import from_config
from model_zoo.schema import ModelCard

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "topk_method": "noaux_tc",
    "num_nextn_predict_layers": 1,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
SLIDING: dict[str, Any] = LLAMA_8B | {
    "model_type": "gemma3_text",
    "head_dim": 128,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
}
HYBRID: dict[str, Any] = LLAMA_8B | {
    "model_type": "qwen3_next",
    "head_dim": 256,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
NEMOTRON: dict[str, Any] = LLAMA_8B | {
    "model_type": "nemotron_h",
    "head_dim": 128,
    "hybrid_override_pattern": "ME*-",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "n_routed_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "moe_latent_size": 1024,
    "n_shared_experts": 1,
    "mtp_hybrid_override_pattern": "*E",
    "num_nextn_predict_layers": 1,
}
COMPRESSED: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 3,
    "compress_ratios": [0, 4, 128, 0],
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "sliding_window": 128,
    "q_lora_rank": 1024,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_nextn_predict_layers": 1,
    "vocab_size": 129280,
    "max_position_embeddings": 1048576,
    "expert_dtype": "fp4",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
ALL = {
    "llama": LLAMA_8B,
    "deepseek": DEEPSEEK_V3,
    "sliding": SLIDING,
    "hybrid": HYBRID,
    "nemotron": NEMOTRON,
    "compressed": COMPRESSED,
}


def write(folder: Path, config: object, name: str = "config.json") -> Path:
    """`config` as a JSON file in `folder`."""
    file = folder / name
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


def read(folder: Path, config: dict[str, Any], **changes: Any) -> ModelCard:
    """The card of `config` with `changes`."""
    return from_config(write(folder, config | changes))
