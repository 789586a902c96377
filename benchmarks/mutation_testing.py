"""What the tests notice: `python -m benchmarks.mutation_testing [PATH …] [--faults 6] [--seed 0]`.

Every source file of the paths (files or folders; `solvers` if none is named) gets random faults, one at a
time, in a copy of the repository: another operator, comparison or constant, a sign less, arguments swapped, a
statement, a branch or a condition of a comprehension dropped. The tests that import the file run on each
(those that bear its name first, then those beside them that import its package), with its doctests. A fault
that all of them pass survives: a hole in the tests, a line that nothing needs, or a program that is equal.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.house import House, imported
from benchmarks.process import rows

ROOT = Path(__file__).resolve().parents[1]
LEFT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")  # the copy has none of them

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,), ast.Mod: (ast.FloorDiv,),
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
SLACK_S = 10  # CPU seconds beyond three times the sound program's after which a fault is noticed
ENDLESS_S = 3600  # seconds after which it is in any case
WIDTH = 70  # characters of a fault that the table shows


@dataclass(frozen=True)
class Fault:
    """A part of a file, and what stands there instead; `text` is the whole file with it."""

    line: int
    before: str
    after: str
    text: str


def faults(source: str) -> list[Fault]:
    """All faults that a file can have, in the order of its lines."""
    code = source.encode()
    starts = [0, *(at + 1 for at, byte in enumerate(code) if byte == 10)]  # of lines
    found = dict[tuple[int, str], Fault]()
    for node, new in _changes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(new)
        put = after if isinstance(new, ast.stmt) else f"({after})"
        text = (code[:begin] + put.encode() + code[end:]).decode()
        found[begin, text] = Fault(node.lineno, ast.unparse(node), after, text)
    return [found[key] for key in sorted(found)]


def _changes(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """(part, what stands there instead) below a node: types, decorators and f-strings stay as they are."""
    yield from _instead(node)
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from _changes(child)


def _instead(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """The faults of one node."""
    match node:
        case ast.Compare(ops=[op]):
            yield from (
                (node, ast.Compare(node.left, [new()], node.comparators)) for new in OPERATORS[type(op)]
            )
        case ast.BinOp(op=op):
            yield from (
                (node, ast.BinOp(node.left, new(), node.right)) for new in OPERATORS.get(type(op), ())
            )
        case ast.BoolOp(op=op):
            yield node, ast.BoolOp(OPERATORS[type(op)][0](), node.values)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node, node.operand
        case ast.Constant(value=bool()):
            yield node, ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield node, ast.Constant(node.value + 1 if isinstance(node.value, int) else 2 * node.value or 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield node, ast.Call(ast.Name(NAMES[name]), node.args, node.keywords)
        case ast.Call(args=[first, second, *rest]) if ast.dump(first) != ast.dump(second):
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                yield node, ast.Call(node.func, [second, first, *rest], node.keywords)
        case ast.comprehension():
            yield from ((condition, ast.Constant(True)) for condition in node.ifs)
        case ast.If() | ast.IfExp():
            yield node.test, ast.Constant(False)
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Call()):
            yield node, ast.Pass()


def importing(root: Path, path: Path) -> list[str]:
    """Test files that import a source file, those that bear its name first; then those of its top folder's
    tests that import its package."""
    known = House(root).source
    name = next(m for m, at in known.items() if at == root / path)
    package, words = name.rpartition(".")[0], set(name.replace(".", "_").split("_"))
    ranks = dict[str, tuple[int, str]]()
    for test in (root / "tests").rglob("test_*.py"):
        at, names = test.relative_to(root).as_posix(), set(imported(test, known))
        beside = "." in package and package in names and at.startswith(f"tests/{path.parts[0]}/")
        if name in names or beside:
            ranks[at] = (-2 * len(words & set(test.stem.split("_"))) - (name in names), at)
    return sorted(ranks, key=lambda at: ranks[at])


def passes(root: Path, tests: Sequence[str], cpu_s: int = ENDLESS_S) -> bool:
    """Whether all tests there are pass, in the CPU seconds that they have."""
    options = ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--doctest-modules"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (cpu_s, cpu_s))
    with suppress(subprocess.TimeoutExpired), open(os.devnull, "w") as off:
        code = subprocess.call(
            command, cwd=root, env=env, stdout=off, stderr=off, timeout=ENDLESS_S, preexec_fn=limit
        )
        return code in (0, 5)  # 5: no test, so none that fails
    return False


@cache
def sound_s(root: Path, *tests: str) -> int:
    """CPU seconds of tests on the program as it is. Raises RuntimeError where they fail."""
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    if not passes(root, tests):
        raise RuntimeError(f"these fail without a fault: {', '.join(tests)}")
    return round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before)


def survivors(root: Path, path: Path, chosen: Sequence[Fault]) -> Iterator[Fault]:
    """Faults of one file that its tests do not notice."""
    tests, sound = importing(root, path), (root / path).read_text(encoding="utf-8")
    most_s = 3 * sound_s(root, *sorted(tests)) + SLACK_S if tests else SLACK_S
    for fault in chosen:
        (root / path).write_text(fault.text, encoding="utf-8")
        if passes(root, [*tests, str(path)], most_s):
            yield fault
    (root / path).write_text(sound, encoding="utf-8")


def shown(code: str) -> str:
    """Code in a cell of a table."""
    line = " ".join(code.split()).replace("|", "\\|")
    return f"`{line if len(line) <= WIDTH else f'{line[:WIDTH]}…'}`"


def main() -> int:
    """The share that is noticed by file, and what survives."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation_testing")
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "solvers"])
    parser.add_argument("--faults", type=int, default=6, help="of a file")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = (sorted(path.rglob("*.py")) if path.is_dir() else [path] for path in given.paths)
    files = [file.resolve().relative_to(ROOT) for several in found for file in several]
    table, lines = [["file", "faults", "killed"]], [["file", "line", "before", "after"]]
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT)
        for path in files:
            if not (every := faults((copy / path).read_text(encoding="utf-8"))):
                continue
            drawn = random.Random(f"{given.seed} {path}").sample(every, min(given.faults, len(every)))
            passed = survivors(copy, path, drawn)
            left = [[f"`{path}`", str(f.line), shown(f.before), shown(f.after)] for f in passed]
            print(path, len(drawn), *left, sep="\n  ", file=sys.stderr, flush=True)
            table.append([f"`{path}`", str(len(drawn)), str(len(drawn) - len(left))])
            lines += left
    count, killed = (sum(int(row[i]) for row in table[1:]) for i in (1, 2))
    table.append(["all", str(count), f"{killed} ({killed / max(count, 1):.0%})"])
    print(rows(table, True), rows(lines, True), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
