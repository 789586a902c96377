"""Designs and candidates in words, and on which GPUs of which classes their parts stand."""

from dataclasses import replace

import pytest

from planner.candidates.candidate import Candidate, Design, Key, stages_in_words
from planner.cost.afd_layout import Block, Layout
from planner.cost.host import HostStage
from planner.designs.shape import Stage

UNLIKE = (Stage("h100", 2, (0, 40)), Stage("h100", 2, (40, 80)), Stage("l40s", 4, (80, 96)))
APART = Layout("h20", "h100", 2, 4, 1, 8)
BLOCKS = (*4 * (Block("h20", 2, (0, 60), APART),), Block("h100", 8, (0, 60), APART))


def candidate(design: Design, **given: object) -> Candidate:
    known = {"id": "c", "role": "mixed", "node_class": "h100", "engine": "vllm", "gpus": design.gpus}
    return Candidate(**{**known, "design": design, "use": {}, "watts": 0.0, **given})


@pytest.mark.parametrize(
    ("design", "words", "gpus"),
    [
        (Design(), "tp1", 1),
        (Design(tp=4, moe_tp=4), "tp4", 4),  # moe_tp is tp's where there is no ep
        (Design(tp=4, pp=2), "tp4 pp2", 8),
        (Design(attn_dp=8, ep=8), "dp8 ep8", 8),
        (Design(tp=2, attn_dp=4, moe_tp=2, ep=4), "tp2 dp4 moe_tp2 ep4", 8),
        (Design(tp=8, cp=2, pp=2), "tp8 pp2 cp2", 32),
        (Design(attn_dp=8, ep=8, redundant=16), "dp8 ep8 +16 experts", 8),
        (Design(tp=2, stages=UNLIKE), "h100 tp2 40+40 -> l40s tp4 16", 8),
        (Design(tp=2, stages=UNLIKE[:1]), "h100 tp2 40", 2),
        (Design(tp=2, stages=UNLIKE[1:] + UNLIKE[:1]), "h100 tp2 40 -> l40s tp4 16 -> h100 tp2 40", 8),
        (Design(stages=BLOCKS), "attention h20 tp2 dp4, FFN h100 ep8", 16),
    ],
)
def test_a_design_in_words_says_what_is_not_one(design, words, gpus):
    assert str(design) == words
    assert design.gpus == gpus


def test_stages_alike_are_one_word_only_next_to_each_other():
    one = Stage("a", 1, (0, 3))

    assert stages_in_words((one, replace(one, layers=(3, 5)), replace(one, tp=2))) == "a 3+2 -> a tp2 3"


@pytest.mark.parametrize(
    ("design", "blocks", "home"),
    [
        (Design(tp=4), (("h100", 4),), ("h100", 4)),
        (Design(tp=4, pp=2), (("h100", 8),), ("h100", 8)),
        (Design(tp=2, stages=UNLIKE), (("h100", 2), ("h100", 2), ("l40s", 4)), ("h100", 8)),
        (Design(stages=BLOCKS), (*4 * (("h20", 2),), ("h100", 8)), ("h20", 8)),  # attention has the cache
    ],
)
def test_parts_that_stand_by_themselves(design, blocks, home):
    found = candidate(design)

    assert (found.blocks, found.home) == (blocks, home)
    assert {g: found.gpus_on(g) for g, _ in blocks} == {
        g: sum(k for other, k in blocks if other == g) for g, _ in blocks
    }
    assert found.gpus_on("elsewhere") == 0


def on_hosts(*nodes: int) -> Design:
    """A stage of two GPUs of each of these nodes, some of whose weights lie in host memory."""
    return Design(tp=2, stages=tuple(HostStage("gh", 2, (i, i + 1), node=n) for i, n in enumerate(nodes)))


@pytest.mark.parametrize(
    ("nodes", "blocks"),
    [
        ((0,), (("h100", 2),)),  # beside the memory of one node: a replica like any other, where it stands
        ((0, 0), (("h100", 4),)),
        ((1, 0), (("gh", 2), ("gh", 2))),
        ((1, 1, 2, 0), (("gh", 4), ("gh", 2), ("gh", 2))),  # a block a node, in the order of layers
    ],
)
def test_weights_in_the_memory_of_several_nodes_take_a_block_of_each(nodes, blocks):
    design = on_hosts(*nodes)

    assert design.offloads
    assert candidate(design).blocks == blocks
    assert [i for own in design.on_nodes for i in own] == (list(range(len(nodes))) if len(blocks) > 1 else [])
    assert not Design(stages=UNLIKE).offloads


def test_only_attention_apart_has_a_layout():
    assert Design(stages=BLOCKS).layout is APART
    assert Design(stages=UNLIKE).layout is None
    assert Design(tp=4).layout is None


@pytest.mark.parametrize("draft", ["", "mtp 3"])
def test_a_kind_is_what_people_have_to_run(draft):
    found = candidate(Design(tp=4), key=Key("h100", "vllm", chunk=8192, level=2, draft=draft))
    runs = "tp4 with mtp 3" if draft else "tp4"

    assert found.runs == runs
    assert found.kind == f"mixed {runs} on h100 with vllm"
    assert (found.chunk, found.level, found.draft) == (8192, 2, draft)


def test_the_bound_takes_what_is_least_where_it_is_known():
    use, least = {"busy": {"0": 2.0}}, {"busy": {"0": 1.0}}

    assert candidate(Design(), use=use).bounds is use
    assert candidate(Design(), use=use, least=least).bounds is least
