"""Faults that tests notice and one that they do not, in a repository of two files."""

from pathlib import Path

import pytest

from benchmarks.mutation_testing import Fault, faults, importing, survivors

SOURCE = '''"""Costs."""


def cost(price: float, count: int) -> float:
    """`count` at a price, no more than 100."""
    if count < 0:
        raise ValueError(f"{count - 1}")
    return min(price * count, 100.0)
'''
TEST = "from solvers.goods.cost import cost\n\n\ndef test_it():\n    assert cost(2.0, 3) == 6.0\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "solvers/goods/cost.py": SOURCE,
        "solvers/goods/other.py": "",
        "tests/solvers/test_goods.py": TEST,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def told(found: list[Fault]) -> list[tuple[int, str, str]]:
    return [(f.line, f.before, f.after) for f in found]


def test_faults_are_of_code_not_of_types_words_or_messages() -> None:
    found = faults(SOURCE)

    assert told(found) == [
        (6, "count < 0", "False"),
        (6, "count < 0", "count <= 0"),
        (6, "count < 0", "count > 0"),
        (6, "0", "1"),
        (8, "min(price * count, 100.0)", "max(price * count, 100.0)"),
        (8, "price * count", "price / count"),
        (8, "100.0", "200.0"),
    ]
    assert found[5].text == SOURCE.replace("price * count,", "(price / count),")


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("x = f(a, b)", ["f(b, a)"]),
        ("x = [i for i in y if i]", ["True"]),
        ("x += y", ["pass"]),
        ("add(row)", ["pass"]),
        ("x = -y", ["y"]),
        ("x = not y", ["y"]),
        ("x = y and True", ["y or True", "False"]),
        ("x = 'a-b', y is None", ["y is not None"]),
    ],
)
def test_what_stands_there_instead(code: str, after: list[str]) -> None:
    assert [f.after for f in faults(code)] == after


def test_tests_are_those_that_import_the_file_then_those_that_import_its_package(root: Path) -> None:
    (root / "tests/solvers/test_all.py").write_text("import solvers.goods\n")
    (root / "solvers/goods/__init__.py").write_text("")

    assert importing(root, Path("solvers/goods/cost.py")) == [
        "tests/solvers/test_goods.py",
        "tests/solvers/test_all.py",
    ]
    assert importing(root, Path("solvers/goods/other.py")) == ["tests/solvers/test_all.py"]


def test_a_fault_that_no_test_sees_survives_and_the_file_is_whole_again(root: Path) -> None:
    path = Path("solvers/goods/cost.py")
    chosen = [f for f in faults(SOURCE) if f.after in ("200.0", "price / count")]

    assert [f.after for f in survivors(root, path, chosen)] == ["200.0"]
    assert (root / path).read_text() == SOURCE
