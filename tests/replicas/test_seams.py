"""A kind of replica and a variant are each a function and a line; each optional kind goes with its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from planner import plan
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Key
from planner.candidates.setup import Made
from planner.check import check
from planner.replicas import KINDS, alike, generate
from planner.replicas.kind import Kind, Space
from tests.candidates.samples import ask

CLUSTER = from_gpus("2xrtx-3090,1xrtx-4090")


def lone(kind: str, space: Space) -> Iterator[Made]:
    """A toy kind: replicas of one GPU."""
    for node in space.classes:
        s = alike.setup(node, "vllm", space.ask, one_more=False)
        one = s.only(np.flatnonzero(s.designs.gpus == 1)) if s else None
        if one:
            yield Made.of(Key(node.id, "vllm", kind), one, node, ("mixed",))


def half_steps(made: Made, asked) -> Iterator[Made]:
    """A toy variant: every setup also with steps of half the tokens."""
    yield made
    half = replace(made.setup, token_budget=made.setup.token_budget // 2)
    yield replace(Made.of(replace(made.key, chunk=half.token_budget), half, made.node, made.roles))


def pool(**freedom):
    a = ask() if not freedom else ask(freedom=Freedom(**freedom))
    return generate.generate(CLUSTER.classes, a, links=CLUSTER.links)


def test_a_toy_kind_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "KINDS", (Kind("lone", lone),))
    found = pool()

    assert {c.key.kind for c in found.candidates} == {"lone"}
    assert {c.gpus for c in found.candidates} == {1}
    assert all(found.setup(c).designs.gpus.max() == 1 for c in found.candidates)


def test_a_toy_variant_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {key for key in pool().made if key.kind == "alike"}
    monkeypatch.setattr(generate, "VARIANTS", (half_steps,))
    made = {key: m for key, m in pool().made.items() if key.kind == "alike"}

    assert {replace(key, chunk=0) for key in made} == plain
    assert len(made) == 2 * len(plain)
    halved = [m.setup.token_budget for key, m in made.items() if key.chunk]
    assert halved == [m.setup.token_budget // 2 for key, m in made.items() if not key.chunk]


@pytest.mark.parametrize("kind", [k.name for k in KINDS if k.name != "alike"])
def test_each_optional_kind_can_be_taken_out_and_the_rest_still_plans(kind, monkeypatch) -> None:
    monkeypatch.setattr(generate, "KINDS", tuple(k for k in KINDS if k.name != kind))
    made = plan(None, "qwen3-14b", gpus="2xrtx-3090,1xrtx-4090", engine="vllm", work_limit=100, explain=False)

    assert made.replicas
    assert check(made) == []


@pytest.mark.parametrize(
    ("kind", "freedom"),
    [
        ("unlike stages", {}),
        ("uneven heads", {"shares": True}),
        ("attention apart", {"apart": True}),
    ],
)
def test_kinds_over_several_classes_come_from_their_entry_alone(kind, freedom, monkeypatch) -> None:
    assert any(key.kind == kind for key in pool(**freedom).made)

    monkeypatch.setattr(generate, "KINDS", tuple(k for k in KINDS if k.name != kind))

    assert not any(key.kind == kind for key in pool(**freedom).made)


def test_a_pool_with_less_freedom_keeps_its_candidates_on_one_class() -> None:
    given = pool()
    a = ask(freedom=Freedom(shares=True))
    more = generate.generate(CLUSTER.classes, a, links=CLUSTER.links, given=given)

    def alone(found):
        return {c.id for c in found.candidates if c.key.kind == "alike"}

    assert alone(more) == alone(given)
    assert any(key.kind == "uneven heads" for key in more.made)
