"""Size of a vision tower, estimated from `vision_config`: plain ViT, its tables, its projector."""

from __future__ import annotations

from .keys import Keys

GATED = ("qwen2_5_vl", "pixtral", "glm4v")
CHANNELS = 3


def vision_params(keys: Keys, hidden: int) -> int:
    """Parameters of tower and projector into a text model of width `hidden`; 0 without a `vision_config`.

    Exact for Qwen3-VL but for norms and biases; other projectors differ by some per cent of the tower.
    """
    tower = keys.section("vision_config")
    if tower is None:
        return 0
    width = tower.integer("hidden_size", "vt_hidden_size", "embed_dim", "width", default=None)
    depth = tower.integer("depth", "vt_num_hidden_layers", "num_hidden_layers", "layers", default=None)
    if width is None or depth is None:
        return 0
    inner = tower.integer("intermediate_size", "vt_intermediate_size", default=4 * width)
    attention = 4 * width * tower.integer("qkv_hidden_size", default=width)
    matrices = 3 if tower.text("model_type") in GATED else 2
    block = attention + matrices * width * inner
    return int(depth * block + _tables(tower, width) + _projectors(tower, width, hidden))


def _tables(tower: Keys, width: int) -> int:
    """Patch embedding and learned positions."""
    pixels = tower.integer("patch_size", default=14) ** 2 * tower.integer("temporal_patch_size", default=1)
    positions = tower.integer("num_position_embeddings", "position_embedding_size", default=0, low=0)
    positions = positions or _positions_of_grid(tower)
    return int(CHANNELS * pixels * width + positions * width)


def _positions_of_grid(tower: Keys) -> int:
    return int(
        tower.integer("init_pos_emb_height", default=0, low=0)
        * tower.integer("init_pos_emb_width", default=0, low=0)
    )


def _projectors(tower: Keys, width: int, hidden: int) -> int:
    """Two layers on merged patches; deepstack adds one such projector a tapped layer."""
    merge = tower.integer("spatial_merge_size", default=2)
    merged = merge * merge * width
    out = tower.integer("out_hidden_size", "text_hidden_size", "projection_dim", default=hidden)
    count = 1 + len(tower.items("deepstack_visual_indexes", int))
    if tower.text("model_type").startswith("gemma"):  # one matrix, after pooling
        return int(width * hidden)
    return int(count * (merged * merged + merged * out))
