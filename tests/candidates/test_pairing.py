"""Keys of pairs against asking the rules about every two sides."""

from itertools import product

import pytest

from cluster_configs import devices
from model_zoo import catalog
from planner.candidates.pairing import Pairing
from planner.designs.precision import precisions
from planner.rules.pairs import Cached, Side, unpaired

DEVICES = ("h100-sxm", "b200", "a100-80gb-sxm", "gaudi3", "mi300x")
SHAPES = [
    (tp, pp, attn_dp, cp)
    for tp, pp, (attn_dp, cp) in product((1, 2, 3, 8), (1, 2, 4), ((1, 1), (2, 1), (1, 2)))
]


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-120b"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llama.cpp"])
def test_keys_join_what_the_rules_join(name, engine):
    card = catalog.find(name)[0]
    sides = [
        Side.of(engine, devices.find(d), shape, precisions(card)) for d, shape in product(DEVICES, SHAPES)
    ]
    pairing, model = Pairing.of(card, sides), Cached.of(card)
    for p, d in product(sides, sides):
        keys = pairing.keys.get(("prefill", p)), pairing.keys.get(("decode", d))

        assert (keys in pairing.joined) == (unpaired(p, d, model) is None)


def test_engines_are_not_joined():
    card = catalog.find("llama-3.1-8b")[0]
    sides = [Side.of(e, devices.find("h100-sxm"), (1, 1, 1, 1), precisions(card)) for e in ("vllm", "sglang")]
    pairing = Pairing.of(card, sides)

    assert len(pairing.joined) == 2
    assert all(p.split()[0] == d.split()[0] for p, d in pairing.joined)
