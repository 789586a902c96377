import re

import pytest

from model_zoo import catalog
from planner.errors import InputError

from .configs import LLAMA_8B, write


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-3.1-70b", "llama-3.1-70b"),
        ("LLaMA 3.1_70B", "llama-3.1-70b"),
        ("llama3.3-70b", "llama-3.1-70b"),
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek-v3"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b-fp8"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"),
    ],
)
def test_spelling_does_not_matter_and_known_ids_raise_no_warning(name, expected):
    card, warnings = catalog.find(name)

    assert card.name == expected
    assert warnings == []


def test_an_organisation_that_turns_the_line_around_is_shown_harmlessly():
    """U+202E, right-to-left override (fuzz, seed 3401)."""
    _, warnings = catalog.find("\u202eabc/Llama-3.1-70B-Instruct")
    assert "`?abc`" in warnings[0]


def test_another_organisation_resolves_with_a_warning():
    card, warnings = catalog.find("unsloth/Llama-3.1-8B-Instruct")

    assert card.name == "llama-3.1-8b"
    assert len(warnings) == 1
    assert "unsloth" in warnings[0]


def test_every_card_is_found_by_its_name_and_its_id():
    for name in catalog.names():
        card = catalog.load(name)

        assert catalog.find(name)[0] is card
        assert catalog.find(card.hf_id or name) == (card, [])


def test_an_unknown_model_names_the_three_nearest():
    with pytest.raises(InputError) as error:
        catalog.find("llama-3.1-71b")

    assert "`llama-3.1-71b`" in error.value.message
    assert "llama-3.1-70b, llama-3-70b, llama-3.1-8b" in (error.value.hint or "")


@pytest.mark.parametrize("name", ["", " ", "-", "/", "org/"])
def test_no_name_is_no_model(name):
    with pytest.raises(InputError):
        catalog.find(name)


def test_a_config_is_found_by_file_and_by_folder(tmp_path):
    file = write(tmp_path, LLAMA_8B)

    assert catalog.find(str(file))[0] == catalog.find(str(tmp_path))[0]


def test_a_card_of_ones_own_is_read_by_path(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        (catalog.CARDS / "llama-3.1-8b.yaml").read_text().replace("name: llama", "name: my-llama")
    )

    assert catalog.find(str(file))[0].name == "my-llama-3.1-8b"


@pytest.mark.parametrize("text", ["", "[1, 2]", "name: x\nhidden: many", "a: [", "name: \x00"])
def test_a_bad_card_is_bad_input(tmp_path, text):
    file = tmp_path / "bad.yaml"
    file.write_text(text)

    with pytest.raises(InputError) as error:
        catalog.find(str(file))

    assert str(file) in str(error.value)


def test_a_card_found_by_name_is_the_only_one_parsed():
    catalog.load.cache_clear()

    catalog.find("meta-llama/Llama-3.3-70B-Instruct")

    assert catalog.load.cache_info().currsize == 1


def test_weights_beside_a_config_file_are_where_it_lies(monkeypatch, tmp_path):
    """A server may be started elsewhere, where `.` is another folder."""
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    card = catalog.find("llama-3.1-8b")[0]

    assert catalog.asked_id("config.json", card) == str(tmp_path.resolve())
    assert catalog.asked_id("weights/config.json", card) == "weights"


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ("times: 32", "times: 1000000000", "layers", "a model has 1 to 1,000 layers"),
        ("{times: 32, of: [attn/dense]}", "", "layers", "`layers[0]` must be named fields"),
        ("kv_heads: 8", "kv_heads: 7", "mixers.attn.kv_heads", "do not divide into 7 KV heads"),
        (
            "kv_heads: 8",
            "kv_heads: 8, v_head_dim: -4",
            "mixers.attn.v_head_dim",
            "at least 1, got -4",
        ),
        ("hidden: 4096", "hidden: 1000000000000", "hidden", "must be at most"),
        (
            "kind: dense",
            "kind: moe, experts: 4, top_k: 5",
            "ffns.dense.top_k",
            "takes 5 of 4 experts",
        ),
    ],
)
def test_a_card_whose_sizes_are_no_models_is_refused_with_the_line(tmp_path, old, new, at, says):
    text = (catalog.CARDS / "llama-3.1-8b.yaml").read_text()
    file = tmp_path / "card.yaml"
    file.write_text(text.replace(old, new))

    with pytest.raises(InputError) as caught:
        catalog.find(str(file))
    assert says in caught.value.message
    assert re.search(rf"card\.yaml:\d+:\d+, {re.escape(at)}", caught.value.where)
