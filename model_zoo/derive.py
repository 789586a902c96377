"""All that follows from a model card, in one place: matrices, parameters, cache, bytes of weights.

Sizes are whole-model, before tp and ep. Each name is documented where it is defined.
"""

from .cache import (
    growing_elements_per_token,
    index_bytes_per_token,
    index_elements_per_token,
    kv_bytes_per_seq,
    kv_bytes_per_token_full,
    kv_bytes_per_token_window,
    kv_elements_per_token,
    kv_shards,
    state_bytes,
    state_bytes_per_seq,
    window,
    windowed_elements_per_token,
)
from .matrices import (
    expert_gemms,
    expert_params,
    ffn_gemms,
    mixer_gemms,
)
from .parameters import (
    active_params,
    embedding_params,
    experts,
    layer_active_params,
    layer_params,
    lm_head_params,
    mtp_layer,
    mtp_params,
    params_by_part,
    total_params,
    vision_params,
)
from .storage import (
    layer_precisions,
    mtp_weight_bytes,
    params_by_precision,
    precision_bytes,
    weight_bytes,
)

__all__ = [
    "active_params",
    "embedding_params",
    "expert_gemms",
    "expert_params",
    "experts",
    "ffn_gemms",
    "growing_elements_per_token",
    "index_bytes_per_token",
    "index_elements_per_token",
    "kv_bytes_per_seq",
    "kv_bytes_per_token_full",
    "kv_bytes_per_token_window",
    "kv_elements_per_token",
    "kv_shards",
    "layer_active_params",
    "layer_params",
    "layer_precisions",
    "lm_head_params",
    "mixer_gemms",
    "mtp_layer",
    "mtp_params",
    "mtp_weight_bytes",
    "params_by_part",
    "params_by_precision",
    "precision_bytes",
    "state_bytes",
    "state_bytes_per_seq",
    "total_params",
    "vision_params",
    "weight_bytes",
    "window",
    "windowed_elements_per_token",
]
