"""A sweep of 500 real cells: with one process and with two, killed ten times and resumed, on two Dask
workers of which one is killed; and what a sweep takes beside planning.

    python -m benchmarks.sweeps [--kills 10] [--seed 0]

Exits with 1 where a result has other bytes than that of one process. Dask's lines need `distributed`
(`pip install meshwright[dask]`); where it is absent they are left out, which is said.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from planner.plans.schema import Plan
from planner.studies import questions, sweep
from planner.studies.journal import Cache
from planner.studies.pools import Start
from planner.studies.pools.dask import Dask
from planner.studies.pools.local import Here, Local

SWEEP = """
base: {workload: chat, engine: vllm}
vary:
  gpus: [8xH100, 4xA100, "8xH100,8xL40S", 2xB200, 16xL40S]
  model: [llama-3.1-8b, qwen3-32b, llama-3.1-70b, gpt-oss-20b, mixtral-8x7b]
  tpot_ms: [20, 30, 50, 100]
  isl: {from: 512, to: 8192, times: 2}
"""
CELLS = 500
PLAN_S = 0.05
"""Seconds that a plan takes where only the sweep is looked at."""
WARM = 100
"""Cells that are not counted there: processes start, libraries are loaded."""


def main() -> int:
    """Both tables; what `whole_sweeps` returns."""
    parser = argparse.ArgumentParser(description="A real sweep, killed at random and resumed.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(given.seed)
        (folder / "sweep.yaml").write_text(SWEEP)
        wrong = whole_sweeps(folder, given.kills, chance)
        print("\n| who plans | ms a cell beside planning |\n|---|---|")
        print(f"| this process | {overhead_ms(folder, Here, 1):.1f} |")
        print(f"| two processes | {overhead_ms(folder, partial(Local, jobs=2), 2):.1f} |")
        if dask():
            with cluster() as (address, _):
                print(f"| two Dask workers | {overhead_ms(folder, partial(Dask, address=address), 2):.1f} |")
    return wrong


def whole_sweeps(folder: Path, kills: int, chance: random.Random) -> int:
    """All sweeps and their table; 1 where the bytes of one differ, or where there were fewer kills."""
    print(f"| {CELLS} cells | seconds | times as fast | same bytes |\n|---|---|---|---|", flush=True)
    alone_s = timed(folder, "one", ["--jobs", "1"])
    codes = Counter(json.loads(line)["exit_code"] for line in (folder / "one").read_text().splitlines())
    print(f"| one process | {alone_s:.1f} | | exit codes {dict(codes)} |", flush=True)
    same = [told(folder, "two processes", alone_s, "two", timed(folder, "two", ["--jobs", "2"]))]
    killed, torn_s = killed_and_resumed(folder, kills, chance)
    what = f"two processes, killed {len(killed)} times, at {', '.join(map(str, killed))} cells"
    same.append(told(folder, what, None, "torn", torn_s))
    if dask():
        with cluster() as (address, _):
            took_s = timed(folder, "dask", ["--backend", "dask", "--address", address])
        same.append(told(folder, "two Dask workers", alone_s, "dask", took_s))
        with cluster() as (address, workers):
            process, began = (
                start(folder, "less", ["--backend", "dask", "--address", address]),
                time.monotonic(),
            )
            wait(process, folder / "less", CELLS // 2)
            workers[0].send_signal(signal.SIGKILL)
            process.wait()
        what = f"two Dask workers, one killed at {CELLS // 2} cells"
        same.append(told(folder, what, None, "less", time.monotonic() - began))
    else:
        print("| two Dask workers | distributed is not installed | | |")
    return int(not all(same) or sum(codes.values()) != CELLS or len(killed) < kills)


def told(folder: Path, what: str, alone_s: float | None, name: str, took_s: float) -> bool:
    """A line of the table; whether the sweep has the bytes of that of one process."""
    same = (folder / name).read_bytes() == (folder / "one").read_bytes()
    faster = f"{alone_s / took_s:.2f}" if alone_s else ""
    print(f"| {what} | {took_s:.1f} | {faster} | {'yes' if same else 'NO'} |", flush=True)
    return same


def start(folder: Path, name: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command as a user runs it."""
    words = [sys.executable, "-m", "planner.cli.app", "sweep", str(folder / "sweep.yaml")]
    return subprocess.Popen([*words, "-o", str(folder / name), *options], stderr=subprocess.DEVNULL)


def timed(folder: Path, name: str, options: Sequence[str]) -> float:
    """Seconds of a sweep that nobody disturbs."""
    began = time.monotonic()
    start(folder, name, options).wait()
    return time.monotonic() - began


def killed_and_resumed(folder: Path, kills: int, chance: random.Random) -> tuple[list[int], float]:
    """At how many cells the sweep was killed before it was done, and the seconds of all runs."""
    killed, began = list[int](), time.monotonic()
    for at in [*sorted(chance.sample(range(1, CELLS - 5), kills)), CELLS]:
        process = start(folder, "torn", ["--jobs", "2"])
        wait(process, folder / "torn", at)
        if process.poll() is None and at < CELLS:
            time.sleep(chance.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed.append(done(folder / "torn"))
    return killed, time.monotonic() - began


def wait(process: subprocess.Popen[bytes], out: Path, at: int) -> None:
    """Until so many cells are done, or all."""
    while process.poll() is None and done(out) < at:
        time.sleep(0.002)


def done(out: Path) -> int:
    """Finished cells on disk."""
    part = out.with_name(out.name + ".part")
    try:
        return part.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def dask() -> bool:
    return find_spec("distributed") is not None


@contextmanager
def cluster() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a Dask scheduler on this machine, and its two workers of one thread each."""
    import distributed

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address = f"127.0.0.1:{port}"

    def program(name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *words, "--no-dashboard"]
        env = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    scheduler = program("scheduler", "--host", "127.0.0.1", "--port", port)
    workers = [program("worker", address, "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        while scheduler.poll() is None:
            try:
                with distributed.Client(address, timeout=5) as client:
                    client.wait_for_workers(2, timeout=60)
                    break
            except OSError:
                time.sleep(0.1)
        yield address, workers
    finally:
        for process in [*workers, scheduler]:
            process.kill()
            process.wait()


def overhead_ms(folder: Path, begin: Start, at_a_time: int) -> float:
    """Milliseconds that a cell takes of those who plan beside its plan, of real questions whose plan is there
    after PLAN_S: reading, the way there and back, the journal and the cache."""
    from planner.studies import grid

    cells, told_at = grid.read(str(folder / "sweep.yaml")), list[float]()
    plan: Callable[[object], Plan] = partial(slept, questions.plan(questions.resolve(cells[0])[1]))
    name = f"overhead-{at_a_time}-{getattr(begin, 'func', begin).__name__}"
    planner = questions.Planner(questions.resolve, plan, Cache(folder / f"{name}-cache"))

    def progress(done: int, of: int, known: int) -> None:
        told_at.append(time.perf_counter())

    sweep.run(cells, folder / name, planner, begin, progress)
    return 1e3 * ((told_at[-1] - told_at[WARM]) * at_a_time / (CELLS - WARM) - PLAN_S)


def slept(plan: Plan, question: object) -> Plan:
    """A plan that takes PLAN_S."""
    time.sleep(PLAN_S)
    return plan


if __name__ == "__main__":
    sys.exit(main())
