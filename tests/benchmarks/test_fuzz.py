"""Some hundred broken files of `benchmarks/fuzz`, odd problems of `benchmarks/odd.py`, changes of a plan
of `benchmarks/mutations.py`; and that each of them sees a fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks import mutations, odd
from benchmarks.fuzz import judging
from benchmarks.fuzz.__main__ import case, smallest
from benchmarks.fuzz.breaking import broken
from benchmarks.fuzz.judging import Answer, answered, wrong
from benchmarks.fuzz.kinds import KINDS, Kind
from benchmarks.whole_changes import BELIEVED
from planner.check.said import why

EACH = 3
"""Cases of each kind: one of each shows what breaks where a field is missing, unknown, of a wrong type or
beyond its limit, and where bytes are no text."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_broken_file_breaks_a_command(kind: Kind):
    for number in range(EACH):
        _, data = case(kind, 42, number)

        assert kind.fault(data) is None, f"case {number}: {data[:300]!r}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_case_is_the_same_wherever_it_is_tried(kind: Kind):
    def made(seed: str) -> bytes:
        return broken(kind.good(), kind.file, random.Random(seed))[1]

    assert [made(f"{i}") for i in range(5)] == [made(f"{i}") for i in range(5)]
    assert len({made(f"{i}") for i in range(20)}) > 10


ANSWER = Answer(2, "", "error: wrong\n  at c.yaml:1:1\n", 0.1, (), ())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ANSWER, None),
        (Answer(124, "", "", 20, (), ()), "hang"),
        (
            Answer(1, "", "error: unexpected KeyError: 'x'\nhint: this is a bug; run", 0.1, (), ()),
            "unexpected",
        ),
        (Answer(1, "", "error: no", 0.1, (), ()), "exit code 1"),
        (Answer(0, "", "", 0.1, ("RuntimeWarning: overflow",), ()), "overflow"),
        (Answer(0, "", "", 0.1, (), (".out.part",)), "left behind"),
        (Answer(0, "\x1b[31m", "", 0.1, (), ()), "control characters"),
        (Answer(2, "", "error: wrong\n", 0.1, (), ()), "does not name"),
    ],
)
def test_every_kind_of_fault_is_seen(answer: Answer, said: str | None):
    found = wrong(answer, "c.yaml")

    assert found is None if said is None else found is not None and said in found


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch):
    def fails(kind: Kind, data: bytes) -> str | None:
        return "unexpected" if b"bad" in data else None

    monkeypatch.setattr(Kind, "fault", fails)
    tree = {"a": 1, "b": {"c": "bad", "d": [1, 2, 3]}, "e": [4]}
    kind = Kind("it", "c.json", "", lambda: tree)

    assert smallest(kind, tree, b"bad", "unexpected") == b'{"b": {"c": "bad"}}'
    assert smallest(kind, b"", b"1\n2\nbad\n4\n", "unexpected") == b"bad\n"


@pytest.mark.parametrize("number", [4, 82, 92, 326])
def test_odd_problems_end_well(number: int):
    """Of seed 4: each ended in a plan that failed its own check."""
    assert odd.outcome(4, number).wrong is None


@pytest.mark.parametrize(("of", "number"), [("buy", 8), ("schedule", 4), ("vast", 3)])
def test_odd_problems_of_other_commands_end_well(of: str, number: int, monkeypatch: pytest.MonkeyPatch):
    """Of seed 58, small ones; a machine that others use, too, has more seconds."""
    monkeypatch.setattr(odd, "GRACE_S", 60)

    assert odd.problem(58, number, of) == odd.problem(58, number, of)
    assert odd.outcome(58, number, of).wrong is None


def test_a_plan_that_does_not_hold_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for text, said in (("{", "plan.json"), ('{"a": NaN}', "NaN"), ("{}", "check")):
        Path("plan.json").write_text(text, encoding="utf-8")
        found = odd._wrong(Answer(0, "", "", 1.0, (), ()))
        assert found is not None
        assert said in found
    late = odd._wrong(Answer(3, "", "hint: x", 9.0, (), ()))
    assert late == "9.0 s, of 5"


def test_what_check_does_not_notice_is_named():
    changes = list(mutations.tried("mixed"))[::4]

    assert [name for name, _, noticed in changes if not noticed and why(name) is None] == []
    assert sum(noticed for _, _, noticed in changes) > len(changes) / 2


def test_changes_of_a_whole_kind_are_noticed_or_said_to_be_believed():
    found = dict(mutations.whole("mixed"))

    assert [what for what, how in found.items() if how is None and what not in BELIEVED] == []
    assert found["no caps"] == found["bands of no width"] == "refused"
    assert found["devices ten times as fast"] == "named"


def test_commands_are_run_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    answer = answered("cluster init --gpus 1xL4 -o c.yaml")

    assert (answer.code, answer.warned, answer.left) == (0, (), ())
    assert Path("c.yaml").exists()
    assert answer.seconds < judging.PATIENCE_S
