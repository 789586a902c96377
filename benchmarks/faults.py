"""Faults of the machine: `python -m benchmarks.faults [--kills 10] [--seed 0] [--only NAME]`.

*Killed*: every command that writes a file is killed, terminated or interrupted at a random moment, with a
good old file where it writes: afterwards that file is whole, the old one or the new, and when
the command has run again nothing else is left.
*Refused*: full disk, closed stdout, no HOME, an ASCII locale, 2 GB of address space, few open files and
others: the command answers as ever, or with one clear error and exit code 2. Exits with 1 where anything is
else.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from benchmarks.fuzz.samples import CLOUD, DAY
from benchmarks.fuzz.writing import written

REPO = Path(__file__).resolve().parents[1]
EXAMPLES = REPO / "docs" / "examples"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SWEEP = """base: {workload: chat, engine: vllm}
vary: {gpus: [1xL4, 2xL4], model: [qwen3-0.6b, qwen3-8b], isl: [512, 1024]}
"""
PLAN = "plan --gpus 2xL4 -m qwen3-8b --engine vllm"
SCHEDULE = "schedule cloud.yaml -m qwen3-0.6b -w day.yaml"
SIMULATE = "simulate plan.json --requests 300"
WRITERS = {
    "plan": f"{PLAN} -o out",
    "experts": f"experts {EXAMPLES}/expert_loads.csv --gpus 4 --slots 3 -o out",
    "calibrate": f"calibrate {EXAMPLES}/measured.csv -o out",
    "predict": f"predict {EXAMPLES}/rows.csv --out out",
    "cluster": "cluster init --gpus 8xH100 -o out",
    "export": "export plan.json --to k8s -o out",
    "workload": f"workload {EXAMPLES}/trace.csv -o out",
    "schedule": f"{SCHEDULE} -o out.csv",
    "simulate": "simulate plan.json --requests 3000 -o out.csv",
    "sweep": "sweep sweep.yaml -o out -j 2",
    "sweep to CSV": "sweep sweep.yaml -o out.csv -j 2",
    "sweep to Parquet": "sweep sweep.yaml -o out.parquet -j 2",
    "sweep by Dask": "sweep sweep.yaml -o out --backend dask --address 127.0.0.1:{dask}",
    "sweep by Ray": "sweep sweep.yaml -o out --backend ray --address 127.0.0.1:{ray}",
    "replan": "replan chains.json --without t4-0 -o out",
    "pareto": f"pareto {PLAN.removeprefix('plan ')} --points 3 -o out.csv",
    "report": "report plan.json -o out.html",
}
NEEDS = {"sweep to Parquet": "pyarrow", "sweep by Dask": "distributed", "sweep by Ray": "ray"}
"""Packages that a command is tried with only where they are installed."""

OUT = {"schedule": "out.csv", "simulate": "out.csv", "sweep to CSV": "out.csv", "pareto": "out.csv",
       "sweep to Parquet": "out.parquet", "report": "out.html"}  # fmt: skip
"""Where a command writes that looks at the ending of a name."""
READY_S = 20.0
"""Until a cluster of workers stands."""

RESUMED = {"out.part", "out.jsonl", "out.jsonl.part"}
"""What a sweep that was killed goes on from; beside a table of its rows they stand as JSON."""


@dataclass(frozen=True)
class Refusal:
    """A command under a fault: its environment, what is set in its process before, its streams, the exit
    codes that it may have."""

    command: str = PLAN
    env: Mapping[str, str | None] = field(default_factory=dict)
    before: Callable[[], object] | None = None
    stdout: str | None = None
    codes: tuple[int, ...] = (0,)


def limit(what: int, most: int) -> Callable[[], object]:
    """Sets a limit of the process."""
    return lambda: resource.setrlimit(what, (most, most))


def closed(*streams: int) -> Callable[[], object]:
    """Closes standard streams."""
    return lambda: [os.close(stream) for stream in streams]


NOBODY = "|"
"""A pipe whose reader has left."""

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
REFUSALS = {
    "full disk, the answer": Refusal(stdout="/dev/full", codes=(2,)),
    "full disk, JSON": Refusal(f"{PLAN} --json", stdout="/dev/full", codes=(2,)),
    "full disk, -o": Refusal(f"{PLAN} -o /dev/full", codes=(2,)),
    "files of 4 kB at most": Refusal(f"{PLAN} -o big", before=limit(resource.RLIMIT_FSIZE, 4096), codes=(2,)),
    "full disk, a replay": Refusal(f"{SIMULATE} --json", stdout="/dev/full", codes=(2,)),
    "full disk, a workload": Refusal(f"workload {EXAMPLES}/trace.csv", stdout="/dev/full", codes=(2,)),
    "full disk, a schedule": Refusal(SCHEDULE, stdout="/dev/full", codes=(2,)),
    "4 kB, a replay's series": Refusal(
        f"{SIMULATE} -o big.json", before=limit(resource.RLIMIT_FSIZE, 2048), codes=(2,)
    ),
    "the plan's own file, a replay": Refusal("simulate plan.json -o ./plan.json", codes=(2,)),
    "the workload's own file, a schedule": Refusal(f"{SCHEDULE} -o ./day.yaml", codes=(2,)),
    "the trace's own file": Refusal("workload trace.csv -o ./trace.csv", codes=(2,)),
    "no such folder": Refusal(f"{PLAN} -o none/plan.json", codes=(2,)),
    "a folder that nobody writes": Refusal(f"{PLAN} -o /proc/plan.json", codes=(2,)),
    "a name that is too long": Refusal(f"{PLAN} -o {'x' * 300}", codes=(2,)),
    "the cluster's own file": Refusal("plan c.yaml -m qwen3-8b -o c.yaml", codes=(2,)),
    "rows over rows": Refusal("predict rows.csv --out ./rows.csv", codes=(2,)),
    "/dev/stdout": Refusal(f"{PLAN} -o /dev/stdout"),
    "nobody reads the answer": Refusal(stdout=NOBODY, codes=(141,)),
    "nobody reads JSON": Refusal(f"{PLAN} --json", stdout=NOBODY, codes=(141,)),
    "nobody reads a difference": Refusal("diff plan.json plan.json", stdout=NOBODY, codes=(141,)),
    "nobody reads a replay": Refusal(SIMULATE, stdout=NOBODY, codes=(141,)),
    "nobody reads a schedule": Refusal(SCHEDULE, stdout=NOBODY, codes=(141,)),
    "closed stdin, import": Refusal("import - --gpus 2xL4", before=closed(0), codes=(2,)),
    "closed stdin, a cluster": Refusal("cluster from-k8s", before=closed(0), codes=(2,)),
    "closed stdout": Refusal(before=closed(1)),
    "closed stdout, a replay": Refusal(SIMULATE, before=closed(1)),
    "closed stdout, a workload": Refusal(f"workload {EXAMPLES}/trace.csv", before=closed(1)),
    "closed stdout, a schedule": Refusal(SCHEDULE, before=closed(1)),
    "closed stderr": Refusal(before=closed(2)),
    "closed stdin": Refusal(before=closed(0)),
    "no HOME": Refusal(env={"HOME": None}),
    "no environment": Refusal(env={name: None for name in os.environ if name not in ("PATH", "PYTHONPATH")}),
    "ASCII": Refusal(env=ASCII),
    "COLUMNS=0": Refusal(env={"COLUMNS": "0"}),
    "TERM=dumb": Refusal(env={"TERM": "dumb"}),
    "no temporary folder": Refusal(env={"TMPDIR": "/nowhere"}),
    "2 GB of address space": Refusal(before=limit(resource.RLIMIT_AS, 2_000_000_000)),
    "2 GB, packed blank lines": Refusal(
        "workload blank.csv.gz", before=limit(resource.RLIMIT_AS, 2_000_000_000), codes=(2,)
    ),
    "2 GB, lines of blank JSON": Refusal(
        "workload blank.jsonl", before=limit(resource.RLIMIT_AS, 2_000_000_000), codes=(2,)
    ),
    "2 GB, a zip of zeros": Refusal(
        "experts zeros.npz --gpus 4", before=limit(resource.RLIMIT_AS, 2_000_000_000), codes=(2,)
    ),
    "2 GB, a replay": Refusal(SIMULATE, before=limit(resource.RLIMIT_AS, 2_000_000_000)),
    "2 GB, a schedule": Refusal(SCHEDULE, before=limit(resource.RLIMIT_AS, 2_000_000_000)),
    "ASCII, a replay": Refusal(SIMULATE, env=ASCII),
    "ASCII, a schedule": Refusal(SCHEDULE, env=ASCII),
    "400 MB of address space": Refusal(before=limit(resource.RLIMIT_AS, 400_000_000), codes=(0, 1, 2)),
    "30 open files, a sweep": Refusal(
        "sweep sweep.yaml -o out2 -j 2", before=limit(resource.RLIMIT_NOFILE, 30), codes=(0, 2)
    ),
    "14 open files, a sweep": Refusal(
        "sweep sweep.yaml -o out3 -j 2", before=limit(resource.RLIMIT_NOFILE, 14), codes=(0, 2)
    ),
}


def main() -> int:
    """Both tables."""
    parser = argparse.ArgumentParser(description="Faults of the machine.")
    parser.add_argument("--kills", type=int, default=10, help="of each kind, for each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="NAME", default="")
    given = parser.parse_args()
    wrong = 0
    with TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        prepared(folder)
        print("| command | killed | file whole | wrong |\n|---|---|---|---|")
        missing = {c for c, package in NEEDS.items() if find_spec(package) is None}
        for command in missing:
            print(f"| {command} | 0 | {NEEDS[command]} is not installed | 0 |")
        for command in (c for c in WRITERS if given.only in c and c not in missing):
            faults, done = killed(command, folder, given.kills, random.Random(given.seed))
            wrong += len(faults)
            print(
                f"| {command} | {given.kills * len(SIGNALS)} | {done} new | {'; '.join(faults[:3]) or 0} |",
                flush=True,
            )
        print("\n| fault | exit code | wrong |\n|---|---|---|")
        for what, refusal in REFUSALS.items():
            if given.only in what:
                code, fault = refused(refusal, folder)
                wrong += bool(fault)
                print(f"| {what} | {code} | {fault or 0} |", flush=True)
        if not given.only:
            fault = together(folder)
            wrong += bool(fault)
            print(f"| two sweeps on one journal | | {fault or 0} |")
    return int(bool(wrong))


def prepared(folder: Path) -> None:
    """What the commands read."""
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    (folder / "c.yaml").write_text("nodes: [{device: l4, gpus_per_node: 2}]\n", encoding="utf-8")
    for name in ("rows.csv", "trace.csv"):
        shutil.copy(EXAMPLES / name, folder / name)
    for name, tree in (("cloud.yaml", CLOUD), ("day.yaml", DAY)):
        (folder / name).write_bytes(written(name, tree))
    with gzip.open(folder / "blank.csv.gz", "wb", compresslevel=1) as packed:
        packed.write(b"arrival_s,isl,osl\n")
        for _ in range(200):
            packed.write(b"\n" * 10**6)
    (folder / "blank.jsonl").write_bytes(b"{}\n" + b"\n" * 40 * 10**6)
    with zipfile.ZipFile(folder / "zeros.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
        zipped.writestr("tokens.npy", b"")
        for k in range(20):
            zipped.writestr(f"{k}.npy", bytes(10**8))
    run(f"{PLAN} --rate 0.5 -o plan.json", folder).wait()
    run("plan --gpus 2xL4,1xT4 -m qwen3-8b --engine chains -o chains.json", folder).wait()


@contextmanager
def serving(command: str) -> Iterator[str]:
    """The command line with the port of the cluster of workers that it asks, which stands meanwhile."""
    line, port = WRITERS[command], str(free_port())
    python, env = [sys.executable, "-m"], {**os.environ, "PYTHONPATH": str(REPO)}
    programs: list[list[str]] = []
    if "{dask}" in line:
        at, quiet = f"127.0.0.1:{port}", ["--no-dashboard"]
        programs = [
            [*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, *quiet]
        ]
        programs += 2 * [
            [*python, "distributed.cli.dask_worker", at, "--nthreads", "1", "--no-nanny", *quiet]
        ]
    elif "{ray}" in line:
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--port", port, "--block"]
        programs = [[*ray, "--num-cpus", "2", "--include-dashboard", "false"]]
    quiet_io = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    running = [subprocess.Popen(words, env=env, **quiet_io) for words in programs]  # type: ignore[call-overload]
    try:
        if running:
            time.sleep(READY_S)
        yield line.format(dask=port, ray=port)
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def run(
    command: str, folder: Path, env: Mapping[str, str | None] | None = None, **how: object
) -> subprocess.Popen[str]:
    """The command as a process of its own group."""
    around = {**os.environ, "PYTHONPATH": str(REPO), **(env or {})}
    words = [sys.executable, "-m", "planner.cli.app", *command.split()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    kept = {name: value for name, value in around.items() if value is not None}
    return subprocess.Popen(words, cwd=folder, env=kept, **{**quiet, **how})  # type: ignore[call-overload, no-any-return]


def killed(command: str, folder: Path, kills: int, chance: random.Random) -> tuple[list[str], int]:
    """What was wrong after each kill of a command, and how often the new file stood there."""
    with serving(command) as line:
        return killed_at(command, line, folder, kills, chance)


def killed_at(
    command: str, line: str, folder: Path, kills: int, chance: random.Random
) -> tuple[list[str], int]:
    """The same of this command line."""
    out, files = folder / OUT.get(command, "out"), {p.name for p in folder.iterdir()}
    began = time.monotonic()
    run(line, folder).wait()
    took_s, faults, done = time.monotonic() - began, list[str](), 0
    good = contents(out)
    for kind in SIGNALS:
        for _ in range(kills):
            old = "sweep" in command or command == "export"  # these begin with nothing there
            shutil.rmtree(out, ignore_errors=True)
            out.unlink(missing_ok=True)
            if not old:
                out.write_text("old\n", encoding="utf-8")
            process = run(line, folder)
            time.sleep(chance.uniform(0.4, 1.2) * took_s)
            process.send_signal(kind)
            process.communicate(timeout=60)
            found = contents(out)
            done += found == good
            if found not in (good, {} if old else {out.name: "old\n"}) and not broken_off(found):
                faults.append(f"{kind.name}: a file is torn: {sorted(found)[:3]}")
            left = {p.name for p in folder.iterdir()} - {out.name} - files
            if "sweep" in command:
                left -= RESUMED
                for name in RESUMED:
                    (folder / name).unlink(missing_ok=True)
            left -= {name for name in left if name.startswith(f".{out.name}.")}  # the next writer's to remove
            if left:
                faults.append(f"{kind.name}: left behind: {sorted(left)[:3]}")
                for name in left:
                    (folder / name).unlink() if (folder / name).is_file() else shutil.rmtree(folder / name)
            if alive(process.pid):
                faults.append(f"{kind.name}: a process of it runs on")
                os.killpg(process.pid, signal.SIGKILL)
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    run(line, folder).wait()
    if left := [p.name for p in folder.iterdir() if p.name.startswith(".")]:
        faults.append(f"left behind: {left[:3]}")
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    return faults, done


def contents(place: Path) -> dict[str, str]:
    """Text of a file, or of all files of a folder, without what says when it was made; {} where there is
    none."""
    files = [place] if place.is_file() else sorted(place.rglob("*")) if place.is_dir() else []
    return {f.name: "\n".join(untimed(f)) for f in files if f.is_file()}


def broken_off(found: dict[str, str]) -> bool:
    """Whether it is a whole plan that says that Ctrl-C ended its search."""
    try:
        return bool(json.loads(found.get("out", ""))["proof"]["status"] == "interrupted")
    except (ValueError, KeyError, TypeError):
        return False


def untimed(file: Path) -> list[str]:
    """Lines, but for seconds."""
    import re

    if file.suffix in (".csv", ".parquet") and file.read_bytes() != b"old\n":
        return _columns(file)
    text = file.read_text(encoding="utf-8")
    return (
        [text]
        if text == "old\n"
        else re.sub(r'"(seconds|took_s)": [\d.e-]+', '"seconds": 0', text).splitlines()
    )


def _columns(file: Path) -> list[str]:
    """Columns of a table, but for those of seconds; of one that is no table its bytes."""
    raw = file.read_bytes()
    if file.suffix == ".parquet" and raw[:4] == b"PAR1":
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

        table: dict[str, Any] = pyarrow.parquet.read_table(file).to_pydict()
        return [f"{name}: {values}" for name, values in table.items() if "seconds" not in name]
    rows = list(csv.reader(raw.decode().splitlines()))
    kept = [i for i, name in enumerate(rows[0] if rows else []) if "seconds" not in name]
    return [str([row[i] for i in kept if i < len(row)]) for row in rows]


def alive(group: int, patience_s: float = 5.0) -> bool:
    """Whether a process of the group still runs a little later."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True


def _stdout(name: str) -> IO[str]:
    """What a command writes to: a file, or a pipe whose reader has left."""
    if name != NOBODY:
        return open(name, "w")
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def refused(refusal: Refusal, folder: Path) -> tuple[int, str | None]:
    """Exit code of a command under a fault, and what is wrong with its answer."""
    out = subprocess.PIPE if refusal.stdout is None else _stdout(refusal.stdout)
    process = run(refusal.command, folder, refusal.env, stdout=out, preexec_fn=refusal.before)
    _, said = process.communicate(timeout=120)
    said, code = said or "", process.returncode
    if "Traceback" in said or "unexpected " in said or "Exception ignored" in said:
        return code, said.strip().splitlines()[-1][:120]
    if code not in refusal.codes:
        return code, f"exit code {code}: {said[:120]}"
    if code == 2 and "error: " not in said:
        return code, f"no clear error: {said[:120]}"
    if left := [p.name for p in folder.iterdir() if p.name.startswith(".")]:
        return code, f"left behind: {left[:3]}"
    return code, None


def together(folder: Path) -> str | None:
    """Two sweeps that write one file at once: one of them refuses, or both end well with the same rows."""
    both = [run("sweep sweep.yaml -o twice -j 1", folder) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    codes = sorted(process.returncode for process in both)
    rows = (folder / "twice").read_text(encoding="utf-8").splitlines()
    if codes not in ([0, 0], [0, 2]) or len(rows) != 8 or any("Traceback" in text for text in said):
        return f"exit codes {codes}, {len(rows)} rows: {said[0][:80]} {said[1][:80]}"
    return None


if __name__ == "__main__":
    sys.exit(main())
