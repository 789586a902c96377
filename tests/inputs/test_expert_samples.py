"""Sampled tokens and transitions, from arrays and from SGLang's recorder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs.expert_loads import ExpertLoads
from planner.inputs.expert_samples import read_tokens, read_transitions
from tests.inputs.test_expert_loads import Tensor, saved

LOADS = ExpertLoads(np.ones((1, 2, 3)), (1, 2))


def test_transitions_are_counted_where_tokens_are_given(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps([[[0, 1], [0, 2]], [[2, 1], [2, 0]]]))
    found = read_transitions(tmp_path / "t.json", LOADS)

    assert found.tolist() == [[[1, 1, 2], [0, 1, 1], [1, 0, 1]]]


def test_sglangs_tokens_are_of_logical_experts_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layer 0 is dense; the second token has no expert in layer 2; a third column is never used."""
    ids = np.full((3, 3, 3), -1)
    ids[1, :, :2] = [[0, 3], [1, 2], [3, 1]]
    ids[2, 0, :2], ids[2, 2, :2] = [2, 1], [0, 3]
    which = np.array([[0, 1, 2, 0]] * 3)
    data = {
        "records": [{"topk_ids_of_layer": Tensor(ids, "i4")}],
        "last_physical_to_logical_map": Tensor(which, "i8"),
    }
    tokens = read_tokens(saved(tmp_path / "dump.pt", data, monkeypatch), LOADS)

    assert [t.tolist() for t in tokens] == [[[0, 0], [0, 1]], [[2, 1], [0, 0]]]


def test_a_dump_without_tokens_says_how_to_record_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"records": [{}], "last_physical_to_logical_map": Tensor([[0]], "i8")}

    with pytest.raises(InputError, match="per_token"):
        read_tokens(saved(tmp_path / "dump.pt", data, monkeypatch), LOADS)
