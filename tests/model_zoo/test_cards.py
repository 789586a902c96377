"""The shipped cards: valid, readable, and written as the writer writes."""

import pytest

from model_zoo import catalog, derive, writing
from model_zoo.schema import ModelCard
from planner.errors import squash

FAMILIES = {
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "deepseek-v3",
    "deepseek-r1",
    "deepseek-v3.2",
    "deepseek-v4-pro",
    "kimi-k2",
    "kimi-k2.5",
    "kimi-k3",
    "qwen3-32b",
    "qwen3-vl-8b",
    "qwen3.5-27b",
    "qwen3.6-27b-nvfp4",
    "glm-5",
    "glm-5.2",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "minimax-m2.5",
    "minimax-m3",
    "mixtral-8x7b",
    "llama-4-scout",
    "nemotron-3-nano-30b-a3b",
    "gemma-4-26b-a4b",
    "mimo-7b",
    "step-3.7-flash",
    "qwen2.5-72b",
    "mistral-7b",
    "gemma-3-27b",
    "phi-4",
}

PUBLISHED_BILLIONS = {  # from the models' own pages; not in the table of configs
    "llama-2-70b": 68.98,
    "llama-3.2-1b": 1.24,
    "qwen2.5-7b": 7.62,
    "qwen2.5-72b": 72.7,
    "qwen3-14b": 14.8,
    "qwen3-next-80b-a3b": 79.7,
    "mistral-7b": 7.25,
    "mistral-large-123b": 123,
    "gemma-2-27b": 27.2,
    "phi-4": 14.7,
    "deepseek-v2": 236,
    "deepseek-v2-lite": 15.7,
    "glm-4.5-air": 107,
    "command-r-plus": 104,
    "yi-34b": 34.4,
    "opt-30b": 30,
    "bloom-176b": 176.2,
}


@pytest.fixture(scope="module")
def cards() -> dict[str, ModelCard]:
    return {name: catalog.load(name) for name in catalog.names()}


def test_there_are_cards_of_all_families(cards):
    assert len(cards) >= 40
    assert cards.keys() >= FAMILIES


def test_a_card_is_named_as_its_file_and_says_where_it_comes_from(cards):
    assert [name for name, card in cards.items() if card.name != name or not card.source] == []


def test_a_card_survives_being_written_and_read(cards, tmp_path):
    file = tmp_path / "card.yaml"
    for card in list(cards.values())[::5]:
        file.write_text(writing.to_yaml(card), encoding="utf-8")

        assert catalog.read_card(file) == card


def test_cards_are_short_and_written_as_the_writer_writes_them(cards):
    for name, card in list(cards.items())[::10]:
        text = (catalog.CARDS / f"{name}.yaml").read_text(encoding="utf-8")

        assert text == writing.to_yaml(card)
    assert max(len((catalog.CARDS / f"{n}.yaml").read_text().splitlines()) for n in cards) <= 60


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_BILLIONS.items())
def test_totals_are_those_published(name, billions):
    assert derive.total_params(catalog.load(name)) / 1e9 == pytest.approx(billions, rel=0.005)


def test_every_part_of_a_card_is_used(cards):
    for card in cards.values():
        used = {part for run in card.layers for name in run.of for part in name.split("/")}
        used |= set((card.mtp_layer or "").split("/"))

        assert {*card.mixers, *card.ffns} <= used, card.name


def test_no_name_or_id_means_two_cards(cards):
    owners: dict[str, set[str]] = {}
    for name, card in cards.items():
        for known in (name, *filter(None, [card.hf_id]), *card.also):
            owners.setdefault(squash(known.rpartition("/")[2]), set()).add(name)

    assert {known: names for known, names in owners.items() if len(names) > 1} == {}
