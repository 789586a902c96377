"""Nodes for replicas of any size: as few as any packing needs, nobody on more GPUs than a node has."""

from collections import Counter
from functools import cache
from types import SimpleNamespace as Some
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.measured.parts import fewest, place
from planner.plans.placement import Placed

ROOM = 8
NODE: Any = Some(id="g", gpus_per_node=ROOM, domain_nodes=1, node_count=99)
OTHER: Any = Some(id="h", gpus_per_node=4, domain_nodes=1, node_count=99)


def candidate(gpus: int, pp: int = 1, home: str = "g") -> Any:
    design = Some(pp=pp, stages=(), on_nodes=(), offloads=False)
    return Some(
        id=f"{home}{gpus}", node_class=home, gpus=gpus, joined=False, design=design, blocks=((home, gpus),)
    )


def placed(counts: dict[int, int], pp: int = 1) -> Placed:
    own = {f"g{gpus}": candidate(gpus, pp) for gpus in counts}
    return place([NODE], {f"g{gpus}": n for gpus, n in counts.items()}, own)


@cache
def bins(sizes: tuple[int, ...], open_: tuple[int, ...] = ()) -> int:
    """The fewest bins of ROOM that hold items of these sizes, by trying every bin for each."""
    if not sizes:
        return len(open_)
    first, rest = sizes[0], sizes[1:]
    ways = [
        tuple(sorted((*open_[:i], b - first, *open_[i + 1 :]))) for i, b in enumerate(open_) if b >= first
    ]
    ways.append(tuple(sorted((*open_, ROOM - first))))
    return min(bins(rest, way) for way in set(ways))


ITEMS = st.dictionaries(st.integers(1, ROOM), st.integers(1, 3), min_size=1, max_size=3)


@settings(max_examples=60)
@given(ITEMS)
@example({4: 1, 3: 2, 2: 3})  # the largest first into the first hole takes three
def test_no_packing_takes_fewer_nodes(items):
    sizes = tuple(sorted((s for s, n in items.items() for _ in range(n)), reverse=True))
    fillings = fewest(items, ROOM)
    held = Counter()
    for filling in fillings:
        assert sum(size * many for size, many in filling) <= ROOM
        held.update(dict(filling))

    assert len(fillings) == bins(sizes)
    assert all(held[size] >= n for size, n in items.items())


@settings(max_examples=40)
@given(ITEMS)
@example({4: 1, 3: 2, 2: 3})
def test_replicas_stand_on_as_many_nodes_as_are_counted(items):
    on = placed(items)
    sizes = tuple(sorted((s for s, n in items.items() for _ in range(n)), reverse=True))

    assert on.used == {"g": bins(sizes)}
    nodes = {node for stages in on.stages.values() for stage in stages for node in stage}
    assert nodes == set(range(on.used["g"]))  # none left out in between, all in use
    for gpus, n in items.items():
        assert 1 <= len(on.stages[f"g{gpus}"][0]) <= n


def test_replicas_larger_than_a_node_come_first_and_take_whole_nodes():
    """Two of 12 take two nodes each, though a half of the second is left; 5 and 3 share the fifth."""
    on = placed({12: 2, 5: 1, 3: 1})

    assert on.used == {"g": 5}
    assert on.stages == {"g12": [[0, 1, 2, 3]], "g5": [[4]], "g3": [[4]]}


def test_stages_fill_the_nodes_of_their_replica_in_order():
    """24 GPUs in two stages of 12: the first on nodes 0 and 1, the second on 1 and 2; 3 and 5 beside."""
    own = {"g24": candidate(24, 2), "g5": candidate(5), "g3": candidate(3)}
    on = place([NODE], {"g24": 1, "g5": 1, "g3": 1}, own)

    assert on.stages["g24"] == [[0, 1], [1, 2]]
    assert on.stages["g5"] == on.stages["g3"] == [[3]]
    whole = {"g16": candidate(16, 2), **own}
    assert place([NODE], {"g16": 1, "g5": 1, "g3": 1}, whole).stages["g16"] == [[0], [1]]


def test_sizes_that_divide_one_another_are_placed_as_any_plan():
    on = placed({4: 2, 2: 4})

    assert on.used == {"g": 2}
    assert on.stages["g4"] == [[0]]


def test_every_class_has_its_own_nodes():
    own = {"g3": candidate(3), "g2": candidate(2), "h3": candidate(3, home="h"), "h2": candidate(2, home="h")}
    on = place([NODE, OTHER], {"g3": 2, "g2": 1, "h3": 1, "h2": 1}, own)

    assert on.used == {"g": 1, "h": 2}  # 3 + 3 + 2 fill one of eight; 3 and 2 are too much for four
    assert place([NODE, OTHER], {"g3": 1, "g2": 1}, own).used == {"g": 1, "h": 0}


@pytest.mark.parametrize("count", [1, 50])
def test_many_alike_take_as_many_nodes_as_each_holds_of_them(count):
    """Of 3 GPUs two fit into eight, beside one of two."""
    assert placed({3: 2 * count, 2: count}).used == {"g": count}
