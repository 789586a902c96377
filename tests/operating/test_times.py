"""What servers are busy for at least, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from model_zoo.catalog import find
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.operating.requests import Requests, Terms
from planner.operating.steps import steps_for
from planner.operating.times import arriving, peak_share
from planner.predict.predictions import usual_node
from tests.operating.test_steps import CARD

H20 = CostModel(CARD, usual_node("h20"), "vllm", precisions(CARD))
ONE = np.ones((1, 1))
ASKED = Requests(256 * ONE, 256 * ONE, 801 * ONE, ONE)
MATRICES = 7.50e9
"""Weights of Llama-3.1-8B in its layers and LM head: 8.03e9, less 0.525e9 of the embedding."""

RATE = np.array([1.0])


@pytest.mark.parametrize(("role", "tokens"), [("mixed", 256 + 800), ("decode", 800), ("prefill", 256)])
def test_arithmetic_at_peak_takes_two_flops_a_weight_and_token_and_those_of_attention(role, tokens):
    """An H20 computes 148 TFLOP/s; a query and a key of 32 heads of 128 take 4 FLOPs an element and layer."""
    pairs = 32 * 32 * 128 * 4 * ((800 * (256 + 400)) * (role != "prefill") + 256 * 128 * (role != "decode"))
    head = 2 * 128256 * 4096 * 256 * (role == "prefill")  # of prompts no token but the last passes it
    share = peak_share(H20, like(1, 1), ASKED, Terms(role, 8192.0, loop="open"), RATE)

    assert share[0] == pytest.approx((2 * MATRICES * tokens - head + pairs / 2) / 148e12, rel=0.05)


def test_a_line_through_a_step_of_few_sequences_leaves_out_arithmetic_that_hides_behind_weights():
    """Qwen3-14B on four H20, 0.2 requests/s: a plan that stated the line's figure failed its check."""
    card = find("qwen3-14b")[0]
    h20 = CostModel(card, usual_node("h20"), "vllm", precisions(card))
    by, designs = Terms("mixed", 8192.0, loop="open"), like(1, 4)
    step = steps_for("mixed", h20, designs, ASKED, RATE, 8192.0)
    line = arriving(h20, step, ASKED, 0.2 * ONE, by).utilisation

    assert line < peak_share(h20, designs, ASKED, by, 0.2 * RATE) < 1.5 * line
