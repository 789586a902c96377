"""How much wider bands are for ways to run that nobody measured."""

from dataclasses import replace

import numpy as np
import pytest

from planner.cost import measured
from planner.cost.calibration import Traits, shipped
from planner.cost.measured import unmeasured_format, widening
from planner.designs.shape import Designs
from planner.predict.loads import Group
from planner.predict.predictions import find_model, usual_node
from tests.cost.samples import BF16

KNOWN = {
    "vllm": {
        "devices": {"h100-sxm": {"weights": ["bf16", "fp8"], "experts": ["fp8"]}},
        "expert_parallel": True,
        "attention_dp": False,
    }
}
WIDTHS = {
    "device": (0.3, 0.4),
    "precision": (0.0, 0.1),
    "pipeline": (0.05, 0.3),
    "expert_parallel": (0.2, 0.2),
    "attention_dp": (0.1, 0.2),
}
DENSE = Traits("vllm", "hopper", "h100-sxm", "bf16", "none", "x")
"""Of a server that was measured as it is."""


@pytest.fixture(autouse=True)
def told(monkeypatch):
    monkeypatch.setattr(measured, "table", lambda: KNOWN)
    monkeypatch.setattr(measured, "widths", lambda: WIDTHS)


def shapes(*sizes):
    """tp, pp, attn_dp, moe_tp, ep of each."""
    return Designs.plain(*(np.array(column) for column in zip(*sizes, strict=True)))


def test_what_was_measured_adds_nothing():
    assert (widening(DENSE, shapes((1, 1, 1, 1, 1), (8, 1, 1, 8, 1), (4, 1, 1, 1, 4))) == 0).all()


def test_ways_to_run_add_up_as_independent_errors():
    """By hand: 0.3 for the pipeline, hypot(0.3, 0.2) = 0.361 with attention-dp on top."""
    found = widening(DENSE, shapes((2, 2, 1, 2, 1), (1, 2, 2, 1, 2)))

    assert found[1] == pytest.approx([0.3, np.hypot(0.3, 0.2)])
    assert found[0] == pytest.approx([0.05, np.hypot(0.05, 0.1)])


@pytest.mark.parametrize(
    ("change", "mechanism"),
    [({"device": "l40s"}, "device"), ({"engine": "sglang"}, "device"), ({"gemm": "nvfp4"}, "precision")],
)
def test_a_device_or_format_without_runs_widens_all_designs(change, mechanism):
    found = widening(replace(DENSE, **change), shapes((1, 1, 1, 1, 1), (2, 1, 1, 2, 1)))

    assert found == pytest.approx(np.array([WIDTHS[mechanism]] * 2).T)
    assert (widening(replace(DENSE, **change), shapes((1, 1, 1, 1, 1)), formats=False) == 0).all()


def test_experts_have_formats_of_their_own():
    assert unmeasured_format("vllm", "h100-sxm", "fp8", "fp8") is None
    assert unmeasured_format("vllm", "h100-sxm", "fp8", "bf16") == "precision"
    assert unmeasured_format("vllm", "h100-sxm", "fp8", "none") is None


@pytest.mark.parametrize("mechanism", ["pipeline", "device"])
def test_bands_of_a_server_are_wider_by_it(mechanism, monkeypatch):
    card = find_model("llama-3.1-70b")
    device = {"pipeline": "h100-sxm", "device": "l40s"}[mechanism]
    model = Group(card, usual_node(device), "vllm", "mixed", BF16).cost(shipped())
    alone, piped = shapes((4, 1, 1, 4, 1)), shapes((4, 2, 1, 4, 1))
    wide = model.sigmas(piped if mechanism == "pipeline" else alone)
    monkeypatch.setattr(measured, "widths", dict)
    plain = model.sigmas(alone)

    assert wide[:, 0] == pytest.approx(np.hypot(plain[:, 0], WIDTHS[mechanism]))
