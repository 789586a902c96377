"""Plans of models with experts, from recorded loads to the checked map."""

import json
from collections import Counter

import numpy as np
import pytest

from planner import plan
from planner.api import with_loads
from planner.check import check
from planner.errors import InputError
from planner.question.asked import read
from planner.question.posed import pose
from planner.rules import designs as engine_rules

LAYERS, EXPERTS = 58, 256


@pytest.fixture(scope="module")
def recorded():
    """Loads of DeepSeek-V3's experts; in every layer one of them gets a seventh of all tokens."""
    tokens = np.random.default_rng(3).gamma(2.0, 50.0, (LAYERS, EXPERTS))
    at = np.arange(LAYERS)
    tokens[at, at] = tokens.sum(axis=1) / 6
    return tokens


@pytest.fixture(scope="module")
def planned(recorded, tmp_path_factory):
    path = tmp_path_factory.mktemp("loads") / "loads.json"
    path.write_text(json.dumps(recorded.tolist()))
    return plan(None, "deepseek-v3", gpus="8xh200", expert_loads=path, engine="vllm", risk=0.5, explain=False)


def test_a_hot_expert_is_copied_and_the_plan_says_where(planned, recorded):
    r, told = planned.replicas[0], planned.experts
    entry = told.replicas[0]

    assert r.ep > 1
    assert r.redundant_experts > 0
    assert told.loads == "loads.json"
    assert np.allclose(told.tokens, recorded)
    assert entry.placement == "map"
    assert len(entry.map) == LAYERS
    assert all(len(rank) == entry.slots_per_rank for layer in entry.map for rank in layer)
    copies = Counter(expert for rank in entry.map[5] for expert in rank)
    assert copies[5] == max(copies.values()) > 1
    assert sum(copies.values()) == EXPERTS + r.redundant_experts
    assert 1 <= entry.bound <= entry.hottest < 1.01 < entry.in_order
    assert not check(planned)


def test_copies_take_memory_from_the_cache(planned, tmp_path):
    """Each copy in 58 layers is 44 million parameters and their block scales, shared by no one."""
    r = planned.replicas[0]
    even = tmp_path / "even.json"
    even.write_text(json.dumps([[1.0] * EXPERTS] * LAYERS))
    plain = plan(
        None, "deepseek-v3", gpus="8xh200", expert_loads=even, engine=r.engine, risk=0.5, explain=False
    )
    other = plain.replicas[0]
    same = [(x.tp, x.pp, x.attn_dp, x.moe_tp, x.ep) for x in (r, other)]

    assert other.redundant_experts == 0
    assert same[0] == same[1]
    more = r.memory[0].weights_bytes - other.memory[0].weights_bytes
    assert more == pytest.approx(58 * r.redundant_experts / r.ep * 3 * 7168 * 2048, rel=0.05)
    assert r.memory[0].kv_bytes < other.memory[0].kv_bytes


def test_without_a_recording_the_plan_says_so():
    made = plan(None, "deepseek-v3", gpus="8xh200", explain=False)
    entry = made.experts.replicas[0]

    assert made.experts.loads == "assumed"
    assert made.experts.tokens == []
    assert entry.placement in ("in order", "balancer")
    assert entry.map == []


def test_a_dense_model_has_no_experts():
    assert plan(None, "llama-3.1-8b", gpus="1xh100", explain=False).experts is None


def test_loads_of_another_model_are_refused(tmp_path):
    path = tmp_path / "loads.json"
    path.write_text(json.dumps([[1.0] * 128] * 94))

    with pytest.raises(InputError, match=r"94 layers of 128 experts, but deepseek-v3 has 58 of 256"):
        plan(None, "deepseek-v3", gpus="8xh200", expert_loads=path)
    with pytest.raises(InputError, match="divides no experts"):
        plan(None, "deepseek-v3", gpus="8xh200", expert_loads=path, engine="chains")
    with pytest.raises(InputError, match=r"llama-3.1-8b has no experts"):
        plan(None, "llama-3.1-8b", gpus="1xh100", expert_loads=path)


def test_loads_must_be_of_all_layers(tmp_path):
    path = tmp_path / "loads.csv"
    rows = [f"{layer},{expert},1" for layer in range(31) for expert in range(8)]
    path.write_text("\n".join(["layer,expert,tokens", *rows]))

    with pytest.raises(InputError, match="loads of 31 layers, and mixtral-8x7b has 32") as error:
        plan(None, "mixtral-8x7b", gpus="8xh100", expert_loads=path)
    assert "layer 31 is missing" in str(error.value)


def test_designs_without_copies_are_compared_among_themselves(monkeypatch):
    """Those on offer are the same whether there are others with copies or not."""
    asked = read(None, "deepseek-v3", "16xh200", "chat", {}, {}, False)
    both = pose(with_loads(asked, None))[1].candidates
    monkeypatch.setattr(engine_rules, "COPIES_A_RANK", 0)
    plain = pose(with_loads(asked, None))[1].candidates

    assert any(c.design.redundant for c in both)
    assert {c.id for c in both if not c.design.redundant} == {c.id for c in plain}
