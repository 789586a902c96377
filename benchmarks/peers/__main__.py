"""`python -m benchmarks.peers CASE.json... [--json | --markdown] [--objective O] [--time-limit 30]`

Prints one line a case: a table beside what is known of it, or with `--json` an object of the objective, its
bound, the status they prove, the seconds from the case to the answer (`solve_seconds`: of these, in the
solver), and the solution. Exit 0 all answered, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.answer import Answer, Case, Clock, adapter, stated
from benchmarks.peers.table import Line, table
from planner.errors import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Answer all cases; returns the exit code."""
    options = _options(argv)
    lines: list[Line] = []
    try:
        cases = [(path, _read(path)) for path in options.cases]
        chosen = [_objective(case, options.objective, path) for path, case in cases]
        _load_solver()
        for (path, case), objective in zip(cases, chosen, strict=True):
            lines.append(_answered(path.stem, case, objective, options.time_limit))
            if options.json:
                print(_as_json(lines[-1]), flush=True)
            if lines[-1].answer.status == "interrupted":
                break
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if not options.json:
        print(table(lines, options.markdown))
    return 130 if lines and lines[-1].answer.status == "interrupted" else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.split("\n")[2])
    parser.add_argument("cases", nargs="+", type=Path, metavar="CASE.json")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one object a line")
    form.add_argument("--markdown", action="store_true", help="a markdown table")
    parser.add_argument("--objective", help="where the peer has several")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds a case (30)")
    return parser.parse_args(argv)


def _read(path: Path) -> Case:
    try:
        case = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the case: {error}", str(path)) from None
    case = stated(case) if isinstance(case, dict) else case
    if not isinstance(case, dict) or not isinstance(case.get("problem"), dict):
        raise InputError("not a case: no `problem` in it", str(path))
    return case


def _objective(case: Case, asked: str | None, path: Path) -> str:
    """The objective to solve for; also finds out early that a peer has no adapter."""
    known = adapter(case.get("peer")).OBJECTIVES
    if asked is not None and asked not in known:
        raise InputError(
            f"{case['peer']} has no objective `{asked}`", str(path), f"one of {', '.join(known)}"
        )
    return asked or known[0]


def _load_solver() -> None:
    """Import the solver's library: the peers' seconds are without their imports too."""
    import highspy  # noqa: F401


def _answered(name: str, case: Case, objective: str, time_limit_s: float) -> Line:
    clock = Clock()
    try:
        with clock.running():
            answer = adapter(case["peer"]).solve(case, objective, time_limit_s)
    except KeyboardInterrupt:
        answer = Answer(None, None, "interrupted", None, 0.0)
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(f"case `{name}` lacks what {case['peer']} needs: {error!r}") from error
    return Line(name, case, objective, answer, clock.seconds)


def _as_json(line: Line) -> str:
    a = line.answer
    return json.dumps(
        {
            "case": line.name,
            "objective": a.objective,
            "bound": a.bound,
            "status": a.status,
            "seconds": round(line.seconds, 6),
            "solve_seconds": round(a.solve_seconds, 6),
            "solution": a.solution,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
