"""Kernels of a layer, counted: each kind of mixer and FFN, and a model's layers in those of a dense one."""

import pytest

from model_zoo.schema import DenseFfn, Layer, Mamba2, MoeFfn
from planner.cost.launches import DENSE, INDEXER, LATENT, RECURRENT, ROUTED, SOFTMAX, dense_layers, launches
from tests.cost.samples import GQA, KINDS, LINEAR, MLA, MOE, SPARSE, WINDOW, card

FFN = DenseFfn(inner=64)
SHARED = MoeFfn(experts=8, top_k=2, inner=64, shared_inner=64)
MAMBA = Mamba2(heads=4, head_dim=64, groups=1, state=16)


@pytest.mark.parametrize(
    ("mixer", "ffn", "kernels"),
    [
        (GQA, FFN, SOFTMAX + DENSE),
        (WINDOW, FFN, SOFTMAX + DENSE),  # a window is another mask, not another kernel
        (MLA, FFN, LATENT + DENSE),
        (SPARSE, FFN, LATENT + INDEXER + DENSE),
        (LINEAR, FFN, RECURRENT + DENSE),
        (MAMBA, None, RECURRENT),
        (GQA, None, SOFTMAX),
        (None, FFN, DENSE),
        (None, MOE, ROUTED),
        (GQA, MOE, SOFTMAX + ROUTED),
        (MLA, SHARED, LATENT + ROUTED + DENSE),  # shared experts are a dense FFN beside the routed ones
        (None, None, 0),
    ],
)
def test_kernels_of_a_layer(mixer, ffn, kernels):
    assert launches(Layer(mixer, ffn)) == kernels


@pytest.mark.parametrize("kind", KINDS)
def test_a_models_layers_count_by_their_kernels(kind):
    of = KINDS[kind]

    assert dense_layers(of) == pytest.approx(len(of.stack) * launches(of.stack[0]) / (SOFTMAX + DENSE))


def test_a_dense_model_has_just_its_layers():
    assert dense_layers(card(GQA, FFN, layers=17)) == 17
