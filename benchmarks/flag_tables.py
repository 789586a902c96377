"""Flag tables of engines by version, for `planner/imports`: `python -m benchmarks.flag_tables FOLDER`.

FOLDER holds what the engines' own parsers say (`vllm_flags.json`, `sglang_flags.json`, `llamacpp_flags.json`,
`schemas/tensorrt_llm_serve.json`, `dynamo_worker_flags.json`), as they were read from vllm 0.11.2, 0.23.0 and
0.33.0, sglang 0.5.5, 0.5.13, 0.5.23, llama.cpp 4227c9be, 0c1e5709, TensorRT-LLM of 2026 and Dynamo 1.6.1.
Written are names, aliases, what follows a flag, in which versions it is, and what took its place.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[1] / "planner" / "imports" / "flags"
HEADS = ("flag", "aliases", "takes", "versions", "instead")
Row = dict[str, Any]


def main() -> None:
    """Write a table for each engine."""
    folder = Path(sys.argv[1])
    for engine, name in (("vllm", "vllm"), ("sglang", "sglang"), ("llama.cpp", "llamacpp")):
        found = json.loads((folder / f"{name}_flags.json").read_text())["versions"]
        rows = merged((_version(x), x["flags"]) for x in found)
        for row in rows if engine == "llama.cpp" else ():
            if (instead := GONE.get(row["flag"])) is not None:
                row |= {"instead": instead, "versions": [v for v in row["versions"] if v != "0c1e5709"]}
        write(engine, rows)
    serve = json.loads((folder / "schemas" / "tensorrt_llm_serve.json").read_text())["cli"]["options"]
    flags = [
        {
            "flag": flag,
            "type": "flag" if x.get("flag") else "str",
            "aliases": [alias.split()[0] for alias in x.get("aliases", [])],
        }
        for flag, x in {
            **serve,
            "--host": {},
            "--port": {},
        }.items()
    ]
    write("trtllm", merged([("2026", flags)]))
    workers = json.loads((folder / "dynamo_worker_flags.json").read_text())["workers"]
    for engine, own in workers.items():
        write(f"dynamo-{engine}", merged([("1.6.1", own)]))


GONE = {
    "--draft-max": "--spec-draft-n-max",
    "--draft-n-min": "--spec-draft-n-min",
    "--no-mmap": "--load-mode none",
}
"""Flags that llama.cpp 0c1e5709 lacks, or has only to say what took their place ("the argument has been
removed"), and that."""


def _version(table: Row) -> str:
    return str(table.get("version") or table["llama_cpp_commit"][:8])


def merged(tables: Iterator[tuple[str, list[Row]]] | list[tuple[str, list[Row]]]) -> list[Row]:
    """A row a flag, the newest version's, with the versions that have it."""
    rows: dict[str, Row] = {}
    for version, flags in tables:
        for x in flags:
            flag = x["flag"]
            if not flag.startswith("-"):
                continue
            others = [a for a in x.get("aliases", []) if a != flag]
            flag = next(
                (kept for kept, row in rows.items() if {flag, *others} & {kept, *row["aliases"]}), flag
            )
            row = {"flag": flag, "aliases": others, "takes": takes(x), "instead": x.get("replacement", "")}
            kept = rows.setdefault(flag, {**row, "versions": []})
            kept["versions"].append(version)
            every = dict.fromkeys([*kept["aliases"], *others, x["flag"]])
            kept["aliases"] = [name for name in every if name != flag]
    return sorted(rows.values(), key=lambda row: row["flag"])


def takes(x: Row) -> str:
    """What follows a flag: a value, a list, nothing, nothing but `--no-x` is one too, or maybe a value."""
    if "argument" in x:
        said = x["argument"]
        return "nothing" if said is None else "maybe" if said.startswith("[") else "value"
    kind = str(x.get("type"))
    if kind.startswith("flag (") or "BooleanOptional" in str(x.get("action")):
        return "switch"
    return {"flag": "nothing", "list": "list", "flag or string": "maybe"}.get(kind, "value")


def write(engine: str, rows: list[Row]) -> None:
    with open(OUT / f"{engine}.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, HEADS, lineterminator="\n")
        table.writeheader()
        for row in rows:
            table.writerow(
                {**row, "aliases": " ".join(row["aliases"]), "versions": " ".join(row["versions"])}
            )


if __name__ == "__main__":
    main()
