"""Figures of how the code is built, on a small house."""

from pathlib import Path

import pytest

from benchmarks.house import House, lengths, named_in, repeated

PASSAGE = "".join(f"    step_{i}()\n" for i in range(7))


@pytest.fixture
def house(tmp_path: Path) -> House:
    files = {
        "planner/__init__.py": "",
        "planner/a.py": "def one(rate_rps):\n" + PASSAGE,
        "planner/b.py": "def two():\n    from planner import a\n    return a.rate_rps\n",
        "solvers/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import planner.b\n"
        + PASSAGE,
        "tests/test_a.py": "from planner.a import one\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return House(tmp_path)


def test_imports_inside_functions_count_and_those_for_type_checkers_do_not(house: House) -> None:
    assert house.imports["planner.b"] == {"planner.a"}
    assert house.imports["solvers.c"] == set()


def test_a_passage_in_two_places_is_told_once(house: House) -> None:
    assert repeated(house.source) == [["planner.a:2", "solvers.c:4"]]


def test_rooms_are_modules_that_name_a_figure_in_code(house: House) -> None:
    assert named_in(house.source, "rate_rps") == ["planner.a", "planner.b"]


def test_lines_that_no_test_imports_are_a_share(house: House) -> None:
    bare = sum(lengths({m: p for m, p in house.source.items() if m != "planner.a"}).values())

    assert (
        house.figures()["lines that no test imports"] == f"{bare / sum(lengths(house.source).values()):.1%}"
    )


def test_what_is_counted_is_named(house: House) -> None:
    (house.root / "planner" / "long.py").write_text("x = 1\n" * 301)
    told = list(House(house.root).where())

    assert told[0] == "301 lines: planner.long"
    assert told[1] == "no test imports planner.long, 301 lines"
    assert "no test imports planner.b, 3 lines" in told
    assert not any("planner.a," in line for line in told)
    assert told[-1] == "the same in planner.a:2 and solvers.c:4"
