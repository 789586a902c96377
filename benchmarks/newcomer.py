"""What a newcomer asks and gets wrong, and if the answer helps: `python -m benchmarks.newcomer [--only N]`.

`newcomer.yaml` holds the cases: what the person wants, the command that they type, the exit code, and what
must stand in the answer (stdout and stderr; case and line breaks don't matter). Each case runs in a folder of
its own, which has its `files`, `docs/` and `cluster_configs/`, after the commands of `first`. A case that
ends in a traceback, or in an error that we did not foresee, fails whatever it says.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from pydantic import BaseModel, ConfigDict

REPO = Path(__file__).resolve().parents[1]
CASES = Path(__file__).with_suffix(".yaml")
ABSENT = "no file was written: "
NEVER = (ABSENT, "traceback (most recent call last)", "unexpected ")
"""What no answer may say: of files that lack, of errors that nobody foresaw (`planner/cli/failures.py`)."""


class Case(BaseModel):
    """One command and what must come of it; `exit` 2 of a mistake. `stdin` is piped into it; `writes`: files
    that must be there then; `open` says what the answer lacks, where that is known and not mended yet."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ask: str
    command: str
    exit: int = 0
    says: list[str]
    files: dict[str, str] = {}
    first: list[str] = []
    stdin: str = ""
    writes: list[str] = []
    open: str = ""


def read(path: Path = CASES) -> list[Case]:
    """All cases, in the order of the file."""
    from ruamel.yaml import YAML

    return [Case.model_validate(case) for case in YAML(typ="safe").load(path.read_text(encoding="utf-8"))]


def answer(case: Case) -> tuple[int, str]:
    """Exit code of the case's command, and all that it wrote."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder, chdir(folder):
        for name in ("docs", "cluster_configs"):
            Path(name).symlink_to(REPO / name)
        for name, text in case.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        for command in case.first:
            code, said = run(command)
            if code:
                return code, f"`{command}`, which comes first, failed:\n{said}"
        code, said = run(case.command, case.stdin)
        return code, said + "".join(f"\n{ABSENT}{name}" for name in case.writes if not Path(name).exists())


def run(command: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and output of one command line, run in this process."""
    from planner.cli import app

    said, piped = io.StringIO(), io.TextIOWrapper(io.BytesIO(stdin.encode()))
    kept = patch.dict(os.environ, {"XDG_STATE_HOME": str(Path.cwd() / "state")})
    with redirect_stdout(said), redirect_stderr(said), patch.object(sys, "stdin", piped), kept:
        code = app.run(shlex.split(command))
    return code, said.getvalue()


def faults(case: Case) -> Iterator[str]:
    """What is wrong with the answer to `case`: nothing where it helps."""
    code, said = answer(case)
    plain = plainly(said)
    wrong = [f"exit {code}, not {case.exit}"] if code != case.exit else []
    wrong += [f"does not say `{words}`" for words in case.says if plainly(words) not in plain]
    wrong += [f"says `{words.strip()}`" for words in NEVER if words in plain]
    if wrong:
        yield f"{case.ask}\n  $ meshwright {case.command}\n  {'; '.join(wrong)}"
        yield "\n".join(f"  | {line}" for line in said.strip().splitlines()[:15])


def plainly(text: str) -> str:
    """`text` without what does not matter: case, and how its words are parted."""
    return " ".join(text.split()).lower()


def main(args: Sequence[str] | None = None) -> int:
    """Run all cases, or one, and print those that fail; 1 if any does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", type=int, metavar="N", help="the case of this number, and its answer")
    only, cases = parser.parse_args(args).only, read()
    if only is not None:
        print(answer(cases[only - 1])[1])
        cases = cases[only - 1 : only]
    os.environ["NO_COLOR"] = "1"
    start, failed, known = time.perf_counter(), 0, 0
    for number, case in enumerate(cases, start=only or 1):
        said = list(faults(case))
        if case.open:
            known += bool(said)
            state = "open" if said else "answered now, take its `open` out"
            print(f"{number:>3}. {state}: {case.ask}: {case.open}\n  $ meshwright {case.command}")
        elif said:
            failed += 1
            print(f"{number:>3}. " + "\n".join(said))
    mistakes = sum(case.exit == 2 for case in cases)
    asked = f"{mistakes} mistakes, {len(cases) - mistakes} questions"
    rest = f"{failed} not, {known} known to be open; {time.perf_counter() - start:.0f} s"
    print(f"{len(cases) - failed - known} of {len(cases)} answered ({asked}), {rest}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
