"""Command lines that plans carry, read by the engines' own parsers: `python -m benchmarks.engines
[--vllm PYTHON] [--sglang PYTHON] [--markdown]`.

PYTHON is one that has the engine installed; no GPU is needed (`benchmarks/engines.md` says how). Every flag
of every command must be known to the parser, and be read as the value that was written. Replicas are of many
sizes (`tests/exporters/samples.py`), in every role, with and without copies of experts, drafts, idle
cache in host memory, an fp8 cache and several nodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from benchmarks.process import rows
from planner.plans.schema import Draft
from tests.exporters.samples import KEPT, made, replica

PROBE = Path(__file__).with_name("probe.py")
START = {"vllm": 2, "sglang": 3}
"""Words before the engine's own."""


def lines(engine: str) -> Iterator[list[str]]:
    """Argument lists of many replicas, those of further nodes too."""
    from planner.engines import named

    for role, tp, pp, dp, spread in product(
        ("mixed", "prefill", "decode"), (1, 8), (1, 4), (1, 2, 16), (0, 1)
    ):
        sizes = {"tp": tp, "pp": pp, "attn_dp": dp, "ep": tp * dp if spread else 1}
        r = replica("r1", engine, role, redundant_experts=8 * spread * (tp * dp > 1), **sizes)
        if role == "mixed" and pp == 1:
            option = named(engine).drafts["mtp"].format(k=3, name="")
            draft = Draft(kind="mtp", tokens=3, accepted=0.9, weights_bytes=0.0, option=option)
            yield from _argv(engine, r.model_copy(update={"draft": draft}))
        if not spread:
            yield from _argv(engine, r.model_copy(update={"kept": KEPT}))
        fp8 = r.precision.model_copy(update={"kv": "fp8"})
        yield from _argv(engine, r.model_copy(update={"precision": fp8}))


def _argv(engine: str, r: object) -> Iterator[list[str]]:
    launch = made(r).replicas[0].launch  # type: ignore[arg-type]
    assert launch is not None
    for argv in (launch.argv, *launch.ranks):
        yield argv[START[engine] :]


def asked(python: str, engine: str, every: Sequence[Sequence[str]]) -> tuple[str, list[dict[str, object]]]:
    """The engine's version, and its parser's answer to each."""
    script = f"from importlib.metadata import version; print(version({engine!r}))"
    version = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    told = "\n".join(json.dumps(list(argv)) for argv in every)
    done = subprocess.run(
        [python, str(PROBE), engine], input=told, capture_output=True, text=True, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(every):
        raise SystemExit(f"{engine}'s parser did not answer: {done.stderr.strip().splitlines()[-1:]}")
    return version, answers


def wrong(argv: Sequence[str], answer: dict[str, object]) -> list[str]:
    """Flags that were refused, or read as something else than was written."""
    if "error" in answer:
        return [str(answer["error"])]
    read, found = answer["read"], []
    assert isinstance(read, dict)
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        if not word.startswith("--"):
            continue
        if word not in read:
            found.append(f"{word} is not a flag's own name")
        elif not after.startswith("--") and after and not _same(after, str(read[word])):
            found.append(f"{word} {after} is read as {read[word]}")
    return found


def _same(written: str, read: str) -> bool:
    """As numbers or words, and JSON by its values."""
    if written.startswith("{"):
        return all(str(value) in read for value in json.loads(written).values())
    try:
        return float(written) == float(read)
    except ValueError:
        return written == read or written in read


def main() -> int:
    """Print a line an engine; 1 where a flag was refused or misread."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--vllm")
    parser.add_argument("--sglang")
    parser.add_argument("--markdown", action="store_true")
    options, table, bad = parser.parse_args(), [("engine", "version", "commands", "flags", "wrong")], 0
    for engine in START:
        python = getattr(options, engine)
        if python is None:
            continue
        every = list(lines(engine))
        version, answers = asked(python, engine, every)
        found = [w for argv, answer in zip(every, answers, strict=True) for w in wrong(argv, answer)]
        flags = {w for argv in every for w in argv if w.startswith("--")}
        table.append((engine, version, str(len(every)), str(len(flags)), str(len(found))))
        bad += len(found)
        for words in dict.fromkeys(found):
            print(words, file=sys.stderr)
    print(rows(table, markdown=options.markdown))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
