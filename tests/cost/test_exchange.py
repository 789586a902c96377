"""Tokens to experts beyond a scale-up domain: by hand, from DeepEP's and SGLang's published figures."""

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo.catalog import find
from model_zoo.schema import MoeFfn
from planner.cost.attention import Load
from planner.cost.exchange import SMS, Exchange, taking_turns
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs

CARD = find("deepseek-v3")[0]
FFN = next(layer.ffn for layer in CARD.stack if isinstance(layer.ffn, MoeFfn))
HIDDEN = 7168


def model(engine="sglang", gpus="32xh100") -> CostModel:
    node = from_gpus(gpus).classes[0]
    return CostModel(CARD, node, engine, precisions(CARD, None, None))


def ranks(*sizes: int, moe_tp: int = 1) -> Designs:
    """Designs of so many attention-dp ranks."""
    n = np.array(sizes, dtype=np.int64)
    return Designs.plain(n // n, n // n, n, moe_tp * (n // n), n // moe_tp)


def sent_s(exchange: Exchange, n: int, rows: float, prompts: bool) -> float:
    found = exchange.seconds(FFN, HIDDEN, np.array([rows]), ranks(n), np.array([prompts]))
    return float(found[0])


def test_normal_kernels_pass_a_copy_a_node_and_hand_it_on_meanwhile():
    """By hand, 4,096 tokens to 4 nodes: 3 (1 - (3/4)^8) = 2.7 copies of 7,168 bytes there and of twice that
    back at 40 GB/s: 5.94 ms, and 80 us of waits; inside a node it takes less and does not count."""
    copies = 3 * (1 - (3 / 4) ** 8)
    by_hand = 3 * copies * 4096 * HIDDEN / 40e9

    assert sent_s(model().layers.exchange, 32, 4096, True) == pytest.approx(by_hand, rel=0.03)


def test_low_latency_kernels_send_every_expert_its_copy():
    """DeepEP's own figures, 128 tokens on 64 ranks: 173 us there and 314 us back."""
    seconds = sent_s(model(gpus="64xh100").layers.exchange, 64, 128, False)

    assert seconds == pytest.approx(487e-6, rel=0.3)
    assert seconds > sent_s(model(gpus="64xh100").layers.exchange, 64, 128, True)


@pytest.mark.parametrize(
    ("engine", "gpus", "n", "moe_tp", "apart"),
    [
        ("sglang", "32xh100", 32, 1, True),
        ("vllm", "32xh100", 32, 1, True),
        ("trtllm", "32xh100", 32, 1, False),  # sends by kernels of its own
        ("sglang", "32xh100", 8, 1, False),  # in one node
        ("sglang", "32xh100", 32, 2, False),  # halves of experts
        ("sglang", "32xa100", 32, 1, False),  # DeepEP is for Hopper and Blackwell
        ("sglang", "64xgb200", 64, 1, False),  # in one rack
    ],
)
def test_which_designs_send_by_it(engine, gpus, n, moe_tp, apart):
    assert model(engine, gpus).layers.exchange.apart(ranks(n, moe_tp=moe_tp)).tolist() == [apart]


def test_a_layer_takes_twice_the_longer_of_half_a_batchs_parts():
    one = np.array([1.0])
    prompts, none = np.array([True]), np.array([False])

    assert taking_turns(5 * one, 1.2 * one, one, none)[0] == pytest.approx(2.4)
    assert taking_turns(5 * one, one, 1.5 * one, none)[0] == pytest.approx(3.0)
    assert taking_turns(5 * one, one, 0 * one, prompts)[0] == pytest.approx(2 / (1 - SMS))
    assert taking_turns(2 * one, one, 1.5 * one, prompts)[0] == 2.0  # kept whole


def test_two_batches_bring_a_third_more_prompt_tokens():
    """SGLang's own figure for 4 nodes: 27 to 35 % more."""
    some, designs = model().layers, ranks(32)
    layer = next(layer for layer in CARD.stack if isinstance(layer.ffn, MoeFfn))
    load = Load(*(np.array([x]) for x in (0.0, 0.0, 8192.0, 1024.0)))
    whole = some.mixer_s(layer, load, designs) + some.ffn_s(layer, load, designs)

    assert 1.2 < float((whole / some.layer_s(layer, load, designs))[0]) < 1.6


def test_designs_beside_each_other_do_not_change_each_other():
    some = model()
    both = ranks(8, 32)
    load = Load(*(np.full(2, x) for x in (64.0, 2000.0, 512.0, 1000.0)))
    alone = [some.step_s(both.take(np.array([i])), load.take(np.array([i])))[0] for i in range(2)]

    assert some.step_s(both, load) == pytest.approx(alone)
