"""Whatever stands in a config, the reader answers with a card or with one clear error."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model_zoo import derive, writing
from model_zoo.huggingface import from_config
from model_zoo.schema import ModelCard
from planner.errors import InputError

from .configs import ALL

SCALARS: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([2**31, 10**30, -(10**30), 0, 1]),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(
        ["full_attention", "linear_attention", "NVFP4", "re:[", "gemma4", "gpt_oss", "llama4", "M*E-"]
    ),
)
VALUES: Any = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
OTHER_KEYS = sorted(
    set().union(*ALL.values())
    | {
        "text_config",
        "vision_config",
        "linear_attn_config",
        "sparse_attention_config",
        "block_configs",
        "quantization_config",
        "mtp_layers_block_type",
        "indexer_types",
        "mlp_layer_types",
        "attn_type_list",
        "hc_mult",
        "no_rope_layers",
        "attention_chunk_size",
        "use_sliding_window",
    }
)
CHANGES = st.dictionaries(st.sampled_from(OTHER_KEYS), VALUES, min_size=1, max_size=3)
QUANT = st.dictionaries(
    st.sampled_from(
        [
            "quant_method",
            "quant_algo",
            "config_groups",
            "quantized_layers",
            "ignore",
            "bits",
            "kv_cache_scheme",
        ]
    ),
    VALUES | st.sampled_from(["fp8", "awq", "modelopt", "FP8", "MIXED_PRECISION"]),
    max_size=4,
)


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from(sorted(ALL)),
    changes=CHANGES,
    dropped=st.sampled_from(["", *OTHER_KEYS]),
    quant=st.none() | QUANT,
)
def test_a_config_gives_a_card_or_an_input_error(tmp_path, base, changes, dropped, quant):
    config = {k: v for k, v in (ALL[base] | changes).items() if k != dropped}
    if quant is not None:
        config["quantization_config"] = quant
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")

    with suppress(InputError):
        card = from_config(file)
        assert_usable(card)


def assert_usable(card: ModelCard) -> None:
    assert derive.total_params(card) > 0
    assert derive.active_params(card) <= derive.total_params(card)
    assert ModelCard.model_validate(writing.as_document(card)) == card


@pytest.mark.parametrize("base", sorted(ALL))
def test_the_configs_that_are_changed_are_valid(tmp_path, base):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(ALL[base]), encoding="utf-8")

    assert derive.total_params(from_config(file)) > 0
