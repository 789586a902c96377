"""How the code is built: `python -m benchmarks.house [--markdown] [--where] [--before REVISION]`.

Lines, modules beyond 300 lines, knots (modules that import each other, lazily too), modules that a request
rate and a TPOT limit pass under their names, lines of modules that no test imports, tests by source, repeated
passages of six lines and more; of this checkout, and of a revision before it. `--where` names long modules,
modules without a test and repeated passages.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.process import rows

SOURCE = ("planner", "solvers", "model_zoo", "cluster_configs")
LONG = 300
PASSAGE = 6
"""Lines of a repeated passage at least."""

ROOMS = ("rate_rps", "tpot_ms")
WAY = (
    *("cli.plan", "api", "question", "asked", "posed", "inputs.workload", "inputs.reading", "inputs.presets"),
    *("candidates", "replicas", "variants", "problems", "search", "simple", "fleet", "plans", "why"),
)
"""Modules and folders that a plan's figures pass on their way from the option to the program and back."""


@dataclass(frozen=True)
class House:
    """A checkout's modules by dotted name."""

    root: Path

    def modules(self, *tops: str) -> dict[str, Path]:
        """Those under some folders."""
        paths = [path for top in tops for path in sorted((self.root / top).rglob("*.py"))]
        named = {".".join(path.relative_to(self.root).with_suffix("").parts): path for path in paths}
        return {name.removesuffix(".__init__"): path for name, path in named.items()}

    @cached_property
    def source(self) -> dict[str, Path]:
        return self.modules(*SOURCE)

    @property
    def way(self) -> dict[str, Path]:
        """Modules that a plan's figures pass."""
        ends = tuple(f"planner.{part}" for part in WAY)
        return {
            m: path for m, path in self.source.items() if f"{m}.".startswith(tuple(f"{e}." for e in ends))
        }

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """What each module of the source imports of it."""
        return {name: set(imported(path, self.source)) - {name} for name, path in self.source.items()}

    @cached_property
    def bare(self) -> dict[str, int]:
        """Modules that no test imports, with their lines, the longest first."""
        known = {m for path in self.modules("tests").values() for m in imported(path, self.source)}
        left = {m: n for m, n in lengths(self.source).items() if m not in known and n}
        return dict(sorted(left.items(), key=lambda item: -item[1]))

    def figures(self) -> dict[str, str]:
        """All that is told of it, by what it is called."""
        sizes, tests = lengths(self.source), self.modules("tests")
        bare = sum(self.bare.values())
        total, checked = sum(sizes.values()), sum(lengths(tests).values())
        knots = tangled(self.imports)
        return {
            "lines of source": f"{total:,}",
            "modules": f"{len(sizes):,}",
            f"modules of more than {LONG} lines": f"{sum(n > LONG for n in sizes.values())}",
            "files at planner's root": str(len(list((self.root / "planner").glob("*.py")))),
            "knots, and their modules": " + ".join(str(len(knot)) for knot in knots) or "none",
            **{f"modules that name {room}": f"{len(named_in(self.source, room))}" for room in ROOMS},
            **{f"of these on a plan's way, {room}": f"{len(named_in(self.way, room))}" for room in ROOMS},
            "lines that no test imports": f"{bare / total:.1%}",
            "lines of tests a line of source": f"{checked / total:.2f}",
            f"repeated passages of {PASSAGE} lines": f"{len(repeated(self.source))}",
        }

    def where(self) -> Iterator[str]:
        """What the figures count, by name."""
        sizes = lengths(self.source)
        yield from (f"{n} lines: {m}" for m, n in sizes.items() if n > LONG)
        yield from (f"no test imports {m}, {n} lines" for m, n in self.bare.items())
        yield from (f"the same in {' and '.join(places)}" for places in repeated(self.source))


def lengths(modules: Mapping[str, Path]) -> dict[str, int]:
    return {name: len(path.read_text().splitlines()) for name, path in modules.items()}


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Modules of `known` that a file imports, at its top or inside a function."""
    for node in _walked(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in below]
        yield from (name for name in names if name in known)


def _walked(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _walked(node)


def tangled(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach each other (Tarjan, SIAM Journal on Computing 1, 1972)."""
    index, low, stack, knots = dict[str, int](), dict[str, int](), list[str](), list[set[str]]()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                knots.append(set(stack[at:]))
            del stack[at:]

    for name in imports:
        if name not in index:
            visit(name)
    return knots


def named_in(modules: Mapping[str, Path], word: str) -> list[str]:
    """Modules in whose code a name, an attribute, a parameter or a keyword is called so."""

    def called(node: ast.AST) -> str | None:
        for field in ("id", "attr", "arg"):
            if isinstance(value := getattr(node, field, None), str):
                return value
        return None

    return [
        m
        for m, path in modules.items()
        if any(called(n) == word for n in ast.walk(ast.parse(path.read_text())))
    ]


def repeated(modules: Mapping[str, Path]) -> list[list[str]]:
    """Where passages stand that stand in more than one place ("module:line"), imports and blank lines left
    out; overlapping ones once."""
    seen = defaultdict[tuple[str, ...], list[str]](list)
    for name, path in modules.items():
        numbered = [(i, line.strip()) for i, line in enumerate(path.read_text().splitlines(), 1)]
        lines = [(i, x) for i, x in numbered if x and not x.startswith(("from ", "import ", "#", '"'))]
        for at in range(len(lines) - PASSAGE + 1):
            part = lines[at : at + PASSAGE]
            seen[tuple(text for _, text in part)].append(f"{name}:{part[0][0]}")
    twice = {passage: places for passage, places in seen.items() if len(places) > 1}
    goes_on = {passage[1:] for passage in twice}
    return [places for passage, places in twice.items() if passage[:-1] not in goes_on]


def earlier(where: str) -> dict[str, str]:
    """The figures of another checkout, or of a revision of this one."""
    if Path(where).is_dir():
        return House(Path(where)).figures()
    root = Path(__file__).resolve().parents[1]
    packed = subprocess.run(["git", "archive", where], cwd=root, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
        return House(Path(folder)).figures()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--before", help="a revision to compare with, or the folder of another checkout")
    parser.add_argument("--where", action="store_true", help="what is counted, by name")
    options = parser.parse_args(argv)
    here = House(Path(__file__).resolve().parents[1])
    if options.where:
        print("\n".join(here.where()))
        return 0
    now = here.figures()
    before = earlier(options.before) if options.before else {}
    heads = ("", "before", "now") if before else ("", "now")
    lines = [(name, before[name], told) if before else (name, told) for name, told in now.items()]
    print(rows([heads, *lines], options.markdown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
