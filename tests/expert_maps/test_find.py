"""Expert maps from loads: what comes out is feasible, and as good as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import Infeasible, InputError
from planner.expert_maps.find import expert_map
from planner.expert_maps.formats import written
from planner.expert_maps.moving import windows
from planner.expert_maps.schema import Found
from planner.problems.experts import expert_bytes
from tests.expert_maps.loads import EXPERTS, LAYERS, drawn, saved


def heat(found: Found, loads: np.ndarray) -> np.ndarray:
    """Hottest over mean (layers,) from the map and the loads alone, GPUs alike."""
    out = []
    for place, w in zip(found.map.place, loads, strict=True):
        flat = [e for gpu in place for e in gpu]
        out.append(max(sum(w[e] / flat.count(e) for e in gpu) for gpu in place) / w.sum() * len(place))
    return np.array(out)


def feasible(found: Found) -> bool:
    everything = set(range(found.map.experts))
    return all({e for gpu in place for e in gpu} == everything for place in found.map.place)


def test_the_map_has_the_balance_that_it_says(tmp_path: Path) -> None:
    loads = drawn()
    found = expert_map(saved(tmp_path / "loads.npz", loads), gpus="4", slots="5")

    assert feasible(found)
    assert found.map.layers == (3, 4, 5)
    assert found.map.slots == (5, 5, 5, 5)
    assert found.map.balance == pytest.approx(heat(found, loads[0]))
    assert found.objective == pytest.approx(np.mean(found.map.balance))
    assert all(b <= v for b, v in zip(found.map.bound, found.map.balance, strict=True))
    assert found.before.balance.mean() > found.after.balance.mean()
    assert found.exit_code == 0


def test_before_is_what_engines_start_with(tmp_path: Path) -> None:
    """Eight experts each on two GPUs, by hand."""
    loads = np.arange(16.0).reshape(1, 1, 16)
    found = expert_map(saved(tmp_path / "loads.npz", loads, None), gpus="2")

    assert found.before.heat[0] == pytest.approx([2 * 28 / 120, 2 * 92 / 120])


def test_a_faster_gpu_gets_more_to_do(tmp_path: Path) -> None:
    path = saved(tmp_path / "loads.npz", drawn())
    found = expert_map(path, gpus="2xH100,2xA100", slots="6,4")

    assert found.map.slots == (6, 6, 4, 4)
    assert found.map.nodes == (2, 2)
    assert any("memory bandwidth" in line for line in found.warnings)
    tokens = np.array([[sum(1 for _ in gpu) for gpu in place] for place in found.map.place])
    assert (tokens == [6, 6, 4, 4]).all()
    assert found.after.balance.mean() < 1.05


def test_groups_stay_whole_on_nodes(tmp_path: Path) -> None:
    path = saved(tmp_path / "loads.npz", drawn())
    whole = expert_map(path, gpus="4", gpus_per_node=2, slots="5", groups=4)
    free = expert_map(path, gpus="4", gpus_per_node=2, slots="5")

    assert free.objective <= whole.objective + 1e-9
    for place in whole.map.place:
        nodes = [set(place[0] + place[1]), set(place[2] + place[3])]
        for group in range(4):
            assert sum(bool(node & set(range(4 * group, 4 * group + 4))) for node in nodes) == 1


def test_groups_that_do_not_fit_whole_are_infeasible(tmp_path: Path) -> None:
    """Three nodes of seven slots hold one group of four each, and there are four."""
    path = saved(tmp_path / "loads.npz", drawn())

    with pytest.raises(Infeasible, match="4 groups of 4 experts do not fit whole on 3 nodes of 7 slots"):
        expert_map(path, gpus="3", gpus_per_node=1, slots="7", groups=4)


def test_traffic_is_counted_on_the_sample_and_lowered(tmp_path: Path) -> None:
    """Tokens use neighbours: 0 with 2, 1 with 3 and so on, never on one GPU in order."""
    loads = np.full((1, 1, 8), 100.0)
    tokens = np.array([[[e, e + 2] for e in (0, 1, 4, 5)] * 5])
    with (tmp_path / "tokens.npy").open("wb") as file:
        np.save(file, tokens)
    path, sample = saved(tmp_path / "loads.npz", loads, None), tmp_path / "tokens.npy"
    options: dict[str, Any] = {"gpus": "4", "gpus_per_node": 1, "tokens": sample}
    found = expert_map(path, objective="combined", **options)

    assert found.before.nodes_per_token == pytest.approx(2.0)
    assert found.after.nodes_per_token == pytest.approx(1.0)
    assert found.objective == pytest.approx(1.1)
    assert expert_map(path, objective="traffic", **options).objective == pytest.approx(1.0)


def test_a_balance_that_cannot_be_kept_is_infeasible(tmp_path: Path) -> None:
    loads = np.array([[[100.0, 1.0], [50.0, 50.0]]])
    tokens = [[[0, 1]], [[0, 1]]]
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))

    with pytest.raises(Infeasible, match="layer 3: no placement is below"):
        expert_map(
            saved(tmp_path / "loads.npz", loads, range(3, 5)),
            gpus="2",
            gpus_per_node=1,
            objective="traffic",
            tokens=tmp_path / "tokens.json",
        )


def test_a_previous_map_keeps_its_weights_where_it_can(tmp_path: Path) -> None:
    steps = drawn(1, steps=2, drift=0.15)
    old, new = (saved(tmp_path / f"{i}.npz", steps[i : i + 1], range(9, 12)) for i in (0, 1))
    options: dict[str, Any] = {"gpus": "4xH100", "slots": "5"}
    (tmp_path / "map.json").write_text(written(expert_map(old, **options).map, "meshwright"))
    found = expert_map(new, previous=tmp_path / "map.json", keep_within=0.02, **options)
    best = expert_map(new, **options)

    assert found.moves is not None
    assert found.before.what == "the previous map"
    assert (found.after.balance <= best.after.balance * 1.02 * (1 + 1e-6)).all()
    assert found.moves.bound <= found.moves.copies <= found.moves.fresh
    assert found.moves.bytes is None
    same = expert_map(old, previous=tmp_path / "map.json", **options)
    assert same.moves is not None
    assert same.moves.copies == 0


def test_bytes_and_pause_come_from_the_model_and_the_links(tmp_path: Path) -> None:
    """Mixtral: one expert of each layer has doubled; all copies are inside the node."""
    from model_zoo.catalog import load

    card = load("mixtral-8x7b")
    layers = range(32)
    even = np.full((1, 32, 8), 100.0)
    hot = even + np.array([100.0] + [0.0] * 7)
    options: dict[str, Any] = {"gpus": "2xH100", "slots": "5", "model": "mixtral-8x7b"}
    old, new = saved(tmp_path / "0.npz", even, layers), saved(tmp_path / "1.npz", hot, layers)
    (tmp_path / "map.json").write_text(written(expert_map(old, **options).map, "sglang"))
    found = expert_map(new, previous=tmp_path / "map.json", **options)
    slow = expert_map(new, previous=tmp_path / "map.json", gb_per_s=1.0, **options)
    moves, each = found.moves, expert_bytes(card, 0)

    assert moves is not None
    assert slow.moves is not None
    assert each == 3 * 4096 * 14336 * 2
    assert moves.bytes == pytest.approx(moves.copies * each)
    assert moves.worst_gpu_bytes == pytest.approx(moves.worst_gpu * each)
    assert moves.pause_s == pytest.approx(moves.worst_gpu * each / 450e9)
    assert slow.moves.pause_s == pytest.approx(slow.moves.worst_gpu * each / 1e9)


def test_affinity_puts_successors_on_one_gpu(tmp_path: Path) -> None:
    """Expert e of a layer is followed by 3 - e: a mirror, so no token has to move."""
    mirror = 10.0 * np.eye(4)[::-1]
    (tmp_path / "t.json").write_text(json.dumps([mirror.tolist()] * 2))
    path = saved(tmp_path / "loads.npz", np.full((1, 3, 4), 10.0), None)
    found = expert_map(path, gpus="2", affinity=tmp_path / "t.json")

    assert found.hops is not None
    assert (found.hops.after, found.hops.bound) == (0.0, 0.0)
    assert found.hops.before == pytest.approx(80.0)
    assert found.hops.same_gpu == pytest.approx((0.0, 1.0))


def test_drift_is_what_the_first_halfs_map_loses(tmp_path: Path) -> None:
    tokens = drawn(2, steps=4, drift=0.3)
    found = expert_map(saved(tmp_path / "loads.npz", tokens), gpus="4", slots="5", robust="worst")
    first = expert_map(saved(tmp_path / "first.npz", tokens[:2]), gpus="4", slots="5")

    assert found.drift is not None
    rows = {what: (a, b) for what, a, b in found.drift.rows}
    made, own = rows["made on the first half"], rows["made on the second half"]
    assert made == pytest.approx((first.objective, heat(first, tokens[2:].sum(0)).mean()), rel=1e-6)
    assert found.drift.loss == pytest.approx(made[1] / own[1] - 1)
    assert "made on its steps, worst" in rows


def test_a_robust_map_is_judged_by_its_steps(tmp_path: Path) -> None:
    tokens = drawn(3, steps=3, drift=0.3)
    path = saved(tmp_path / "loads.npz", tokens)
    plain = expert_map(path, gpus="4", slots="5")
    robust = expert_map(path, gpus="4", slots="5", robust="worst")
    worst = [
        max(heat(found, step)[layer] for step in tokens) for found in (plain, robust) for layer in range(3)
    ]

    assert robust.objective == pytest.approx(np.mean(worst[LAYERS:]))
    assert robust.objective <= np.mean(worst[:LAYERS]) * (1 + 1e-4)
    assert robust.bound <= robust.objective


def test_windows_are_sums_of_equal_runs_of_steps() -> None:
    tokens = np.arange(10.0).reshape(10, 1, 1)

    assert windows(tokens, 3).ravel().tolist() == [6.0, 15.0, 24.0]
    assert windows(tokens[:2]).shape == (2, 1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": "3"}, "16 experts want 16 slots, and 4 GPUs have 12"),
        ({"gpus": "12"}, "12 GPUs do not divide into nodes of 8"),
        ({"gpus_per_node": 3}, "4 GPUs do not divide into nodes of 3"),
        ({"gpus": "four"}, "unknown GPU"),
        ({"gpus": "4,4xH100"}, "without a GPU's name"),
        ({"slots": "5,5"}, "--slots has 2 numbers, and --gpus 1 parts"),
        ({"slots": "99"}, "--slots must be from 1 to 16"),
        ({"groups": 3}, "do not divide into 3 groups"),
        ({"groups": 2, "gpus_per_node": 1}, "2 groups cannot be kept whole on 4 nodes"),
        ({"objective": "traffic"}, "wants --tokens"),
        ({"robust": "mean"}, "wants loads of several steps"),
        ({"robust": "mean", "previous": "x"}, "cannot be combined"),
        ({"affinity": "x", "groups": 2}, "cannot be combined"),
        ({"affinity": "x", "slots": "5"}, "replicas cannot be combined"),
        ({"gap": float("nan")}, "`--gap` must be a finite number"),
        ({"time_limit_s": 0}, "`--time-limit` must be greater than 0"),
        ({"max_balance": 0.9}, "`--max-balance` must be at least 1"),
        ({"model": "llama-3.1-8b"}, "llama-3.1-8b has no experts"),
        ({"model": "deepseek-v3"}, "layer 3: deepseek-v3 has 256 experts, and the loads 16"),
        ({"model": "mixtral-8x7b"}, "layer 3: mixtral-8x7b has 8 experts, and the loads 16"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = saved(tmp_path / "loads.npz", drawn())

    with pytest.raises(InputError, match=message):
        expert_map(path, **{"gpus": "4", **options})


def test_a_model_numbers_layers_and_refuses_other_counts(tmp_path: Path) -> None:
    loads = np.ones((1, 58, 256))
    found = expert_map(saved(tmp_path / "loads.npz", loads, None), gpus="8", model="deepseek-v3")

    assert found.map.layers == tuple(range(3, 61))
    with pytest.raises(InputError, match="loads of 57 layers of 256 experts, but deepseek-v3 has 58"):
        expert_map(saved(tmp_path / "less.npz", loads[:, 1:], None), gpus="8", model="deepseek-v3")
    with pytest.raises(InputError, match="layer 2 of deepseek-v3 has no experts"):
        expert_map(saved(tmp_path / "off.npz", loads, range(2, 60)), gpus="8", model="deepseek-v3")


def test_samples_must_be_of_the_loads(tmp_path: Path) -> None:
    path = saved(tmp_path / "loads.npz", drawn())
    for tokens, message in (
        ([[[0, 1]]], "sampled tokens of 1 layers, and loads of 3"),
        ([[[0, 1]], [[0, EXPERTS]], [[0, 1]]], "layer 4, token 0: 16 is no expert"),
        ([[0, 1]], r"want an array \[layers, tokens, choices\]"),
    ):
        (tmp_path / "tokens.json").write_text(json.dumps(tokens))
        with pytest.raises(InputError, match=message):
            expert_map(path, gpus="4", tokens=tmp_path / "tokens.json")
    negative = np.ones((LAYERS - 1, EXPERTS, EXPERTS))
    negative[1, 2, 3] = -1
    for moves, message in (
        (np.ones((LAYERS - 2, EXPERTS, EXPERTS)), "3 layers of 16 experts want 2 x 16 x 16"),
        (negative, "layer 4, expert 2 to 3: a count is negative"),
    ):
        (tmp_path / "t.json").write_text(json.dumps(moves.tolist()))
        with pytest.raises(InputError, match=message):
            expert_map(path, gpus="4", affinity=tmp_path / "t.json")
