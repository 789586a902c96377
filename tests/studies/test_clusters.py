"""Sweeps on clusters: the bytes of a sweep on this machine, also where a worker is killed on the way.

Skipped where the libraries are absent: `pip install meshwright[dask]`, `meshwright[ray]`.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from planner.cli import app
from planner.errors import InputError, MeshwrightError
from planner.studies import sweep
from planner.studies.pools.dask import START, Dask
from planner.studies.pools.local import Here
from planner.studies.pools.ray import Ray
from planner.studies.questions import Planner
from tests.studies.fake import CELLS, FAKE, logged, resolve

REPO = Path(__file__).resolve().parents[2]
with_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
libraries_own = pytest.mark.filterwarnings("default")


def silent(*_: int) -> None: ...


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def started(*words: str) -> "subprocess.Popen[bytes]":
    """A program of Dask's, which finds these tests, too."""
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
    return subprocess.Popen(command, cwd=REPO, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Cluster:
    """A Dask scheduler with two workers of a thread each."""

    def __init__(self) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        quiet = ["--no-dashboard"]
        self.scheduler = started("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *quiet)
        alone = [self.address, "--nthreads", "1", "--no-nanny", *quiet]
        self.workers = [started("dask_worker", *alone) for _ in range(2)]

    def ready(self) -> None:
        import distributed

        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with distributed.Client(self.address, timeout=5) as client:
                    client.wait_for_workers(2, timeout=30)
                    return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@pytest.fixture
def dask():
    cluster = Cluster()
    try:
        cluster.ready()
        yield cluster
    finally:
        cluster.end()


@with_dask
@libraries_own
def test_two_dask_workers_write_what_one_process_writes_though_one_is_killed(dask, tmp_path):
    log, killed = tmp_path / "log", []

    def progress(done: int, of: int, known: int) -> None:
        if done == 6:
            dask.workers[0].send_signal(signal.SIGKILL)
            killed.append(dask.workers[0].wait())

    slow = Planner(resolve, partial(logged, str(log)))
    sweep.run(CELLS, tmp_path / "dask.jsonl", slow, partial(Dask, address=dask.address), progress)
    sweep.run(CELLS, tmp_path / "here.jsonl", FAKE, Here, silent)

    assert killed == [-signal.SIGKILL]
    assert (tmp_path / "dask.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert len(CELLS) <= len(log.read_text().splitlines()) <= len(CELLS) + 2  # what the lost worker had


@with_dask
@libraries_own
def test_a_scheduler_that_goes_away_ends_the_sweep_which_goes_on_elsewhere(dask, tmp_path):
    def progress(done: int, of: int, known: int) -> None:
        if done == 6:
            dask.end()

    slow = Planner(resolve, partial(logged, str(tmp_path / "log")))
    with pytest.raises(MeshwrightError) as ended:
        sweep.run(CELLS, tmp_path / "out.jsonl", slow, partial(Dask, address=dask.address), progress)
    planned = len(log := (tmp_path / "log").read_text().splitlines())
    sweep.run(CELLS, tmp_path / "out.jsonl", slow, Here, silent)
    sweep.run(CELLS, tmp_path / "here.jsonl", FAKE, Here, silent)

    assert "the same command goes on from here" in str(ended.value)
    assert planned < len(CELLS), log
    assert len((tmp_path / "log").read_text().splitlines()) <= len(CELLS) + 4
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


@with_dask
@libraries_own
def test_a_worker_with_other_files_of_ours_is_refused(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "made_by", lambda: "another version")

    with pytest.raises(MeshwrightError, match="a worker has other files of Meshwright"):
        sweep.run(CELLS, tmp_path / "out.jsonl", FAKE, partial(Dask, address=dask.address), silent)


@with_dask
@libraries_own
def test_real_plans_travel(dask, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, engine: vllm}\nvary: {model: [llama-3.1-8b, llama-3.1-70b, no-such-model]}\n"
    )
    words = ["sweep", str(tmp_path / "s.yaml"), "-o"]

    assert (
        app.run([*words, str(tmp_path / "dask.jsonl"), "--backend", "dask", "--address", dask.address]) == 4
    )
    assert app.run([*words, str(tmp_path / "here.jsonl"), "--jobs", "1"]) == 4
    assert (tmp_path / "dask.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


@with_dask
@libraries_own
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nobody", "no such host:8786"])
def test_where_no_dask_scheduler_is_that_is_said_at_once(address):
    with pytest.raises(InputError, match="no Dask cluster answers") as refused:
        Dask(abs, address)

    assert "dask worker" in refused.value.hint


@pytest.fixture
def ray():
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--num-cpus", "2"]
    port = free_port()
    options = ["--port", str(port), "--include-dashboard", "false", "--disable-usage-stats"]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    head = subprocess.Popen(
        [*command, *options, "--block"],
        cwd=REPO,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        head.terminate()
        head.wait(timeout=60)


def killed_once(mark: str, cell: dict[str, object]) -> object:
    """The plan of a cell; once, the process that makes it is killed."""
    if cell["isl"] == 103 and not Path(mark).exists():
        Path(mark).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return FAKE.plan(cell)


@with_ray
@libraries_own
def test_ray_writes_what_one_process_writes_though_a_worker_is_killed(ray, tmp_path):
    deadly = Planner(resolve, partial(killed_once, str(tmp_path / "killed")))
    sweep.run(CELLS, tmp_path / "ray.jsonl", deadly, partial(Ray, address=ray), silent)
    sweep.run(CELLS, tmp_path / "here.jsonl", FAKE, Here, silent)

    assert (tmp_path / "killed").exists()
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


@with_ray
@libraries_own
def test_a_node_with_other_files_of_ours_is_refused(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "made_by", lambda: "another version")

    with pytest.raises(MeshwrightError, match="a worker has other files of Meshwright"):
        sweep.run(CELLS, tmp_path / "out.jsonl", FAKE, partial(Ray, address=ray), silent)


@with_ray
@libraries_own
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nobody"])
def test_where_no_ray_cluster_is_that_is_said(address):
    with pytest.raises(InputError, match="no Ray cluster answers") as refused:
        Ray(abs, address)

    assert "ray start --head" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "127.0.0.1:8786"], ["--address is of a cluster", "--backend dask"]),
        (["--backend", "dask"], ["needs the address", "dask scheduler --port 8786 &"]),
        (["--backend", "ray"], ["needs the address", "--address 127.0.0.1:6379", "ray start --head"]),
        (
            ["--backend", "dask", "--address", "a:1", "--jobs", "2"],
            ["--jobs is of processes on this machine"],
        ),
        (["--backend", "spark"], ["local, dask, ray"]),
        (["--backend", "dsak"], ["did you mean `dask`?"]),
    ],
)
def test_options_that_contradict_are_refused_before_any_work(options, words, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text("base: {gpus: 1xL40S, model: llama-3.1-8b}\n")

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.jsonl"), *options]) == 2
    told = capsys.readouterr().err
    assert [word for word in words if word not in told] == []
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(("pool", "library"), [(Dask, "dask"), (Ray, "ray")])
def test_without_the_library_the_error_names_what_to_install(pool, library, monkeypatch):
    monkeypatch.setattr(f"planner.studies.pools.{library}.find_spec", lambda name: None)

    with pytest.raises(InputError) as refused:
        pool(abs, "127.0.0.1:8786")

    assert f"pip install meshwright[{library}]" in refused.value.hint


def of_the_page(backend: str) -> list[str]:
    """The commands of docs/sweep.md for a backend: the one that starts a cluster, the one that sweeps."""
    page = (REPO / "docs" / "sweep.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```console\n")[1:]]
    found = next(block for block in blocks if f"--backend {backend}" in block)
    return [line.removeprefix("$ ") for line in found.splitlines()]


@with_dask
@libraries_own
def test_the_page_starts_a_dask_cluster_with_one_command(tmp_path, monkeypatch):
    port = str(free_port())
    start, command = (line.replace("8786", port) for line in of_the_page("dask"))
    assert of_the_page("dask")[0] == START
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {
        **os.environ,
        "PYTHONPATH": str(REPO),
        "PATH": path,
        "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__ADDRESS": ":0",
    }
    (tmp_path / "docs").symlink_to(REPO / "docs")
    monkeypatch.chdir(tmp_path)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    shell = subprocess.Popen(start, shell=True, cwd=REPO, env=env, start_new_session=True, **quiet)
    try:
        until = time.monotonic() + 60
        while (code := app.run(shlex.split(command)[1:])) == 2 and time.monotonic() < until:
            time.sleep(0.3)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()

    assert code == 0
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 12
