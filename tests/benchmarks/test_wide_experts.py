"""What a placement of experts is worth: fuller ranks are slower, copies take room."""

import pytest

from benchmarks import wide_experts


def test_fuller_ranks_are_slower_and_copies_take_room(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = [("in order", 0, 2.0), ("ideal", 0, 1.0), ("ideal", 32, 1.0)]
    monkeypatch.setattr(wide_experts, "LAWS", {"law": 1.0})
    monkeypatch.setattr(wide_experts, "placements", lambda tokens: ways)
    heads, *rows = wide_experts.decoding()
    room = [float(row[heads.index("KV GB a GPU")]) for row in rows]
    tpot = [float(row[-1].split()[0]) for row in rows]

    assert [row[1:3] for row in rows] == [["in order", "0"], ["ideal", "0"], ["ideal", "32"]]
    assert tpot[0] > 1.1 * tpot[1]
    assert room[0] == room[1] > room[2] + 1
