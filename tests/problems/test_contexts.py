"""Unlike shares of a prompt as the cost model's numbers."""

import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.problems.contexts import Divided, passed_bytes, state
from solvers import contexts


def divided(gpus: str, tp: dict[str, int], model="llama-3.1-8b", tokens=128_000, chunk=32_768):
    cluster, card = from_gpus(gpus), catalog.find(model)[0]
    models = {c.id: CostModel(card, c, "vllm", precisions(card)) for c in cluster.classes}
    return cluster, Divided(models, tp, tokens, chunk)


def test_chunks_make_all_tokens_so_far_pass():
    """By hand: 4 chunks of 1,000 tokens: 1,000 + 2,000 + 3,000 + 4,000 tokens of 131,072 bytes on 4 ranks."""
    _, d = divided("4xh100", {"h100-sxm": 4}, tokens=4000, chunk=1000)

    assert passed_bytes(d.models["h100-sxm"], 4, d) == pytest.approx(10_000 * 131_072 / 4)


def test_windows_pass_no_more_than_they_hold():
    """gpt-oss-120b: 18 layers see all, 18 see 128 tokens; 2,048 bytes a token and layer."""
    _, d = divided("8xh100", {"h100-sxm": 8}, "gpt-oss-120b", tokens=4000, chunk=1000)

    assert passed_bytes(d.models["h100-sxm"], 1, d) == pytest.approx(2048 * 18 * (10_000 + 4 * 128))


def test_the_faster_class_takes_more_and_all_finish_together():
    cluster, d = divided("2xh100,2xl40s", {"h100-sxm": 2, "l40s": 2})
    p = state(cluster, d)
    s = contexts.solve(p)
    work = {g.name: g.fixed_s + g.each_s * s.tokens[g.name] for g in p.groups}

    assert s.tokens["h100-sxm-0"] > 1.5 * s.tokens["l40s-0"]
    assert sum(s.tokens.values()) == pytest.approx(128_000)
    assert work["h100-sxm-0"] == pytest.approx(work["l40s-0"], rel=0.2)


def test_no_room_for_weights_or_too_many_groups_have_no_shares():
    big, small = divided("2xh100,2xl40s", {"h100-sxm": 1, "l40s": 1}, "llama-3.1-70b")
    assert state(big, small) is None
    many, each = divided("16xh100,8xl40s", {"h100-sxm": 1, "l40s": 1})
    assert state(many, each) is None
