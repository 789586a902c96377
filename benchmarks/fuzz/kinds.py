"""A good file of every kind that a command reads, and that command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ruamel.yaml import YAML

from benchmarks.fuzz import samples
from benchmarks.fuzz.judging import answered, fault
from benchmarks.fuzz.writing import written

REPO = Path(__file__).resolve().parents[2]
SMALL = "--gpus 2xL4 -m qwen3-0.6b --engine vllm --time-limit 1"


@dataclass(frozen=True)
class Kind:
    """`file` is broken and `command` reads it; `good` makes it: values of a YAML or JSON file, rows of
    cells of a table, text, or bytes."""

    name: str
    file: str
    command: str
    good: Callable[[], Any]
    beside: Callable[[], dict[str, Any]] = dict
    """Good files that the command reads as well, by name."""

    def fault(self, data: bytes) -> str | None:
        """What is wrong with the answer where the file holds `data`, if anything is."""
        others = {name: written(name, value) for name, value in self.beside().items()}
        return fault(self.command, {**others, self.file: data}, self.file)


def example(name: str) -> Callable[[], str]:
    """A text of docs/examples."""
    return lambda: (REPO / "docs" / "examples" / name).read_text(encoding="utf-8")


def table(name: str, rows: int = 40) -> Callable[[], list[list[str]]]:
    """The first rows of a table of docs/examples."""
    return lambda: [line.split(",") for line in example(name)().splitlines()[: rows + 1]]


def as_is(value: Any) -> Callable[[], Any]:
    """A value that nobody changes: the mutations work on copies."""
    return lambda: value


@cache
def plan(options: str) -> Any:
    """The JSON of a plan that is made now, in the time that it takes here."""
    options = re.sub(r" --time-limit \S+", "", options)
    with TemporaryDirectory() as folder, chdir(folder):
        answer = answered(f"plan {options} -o plan.json", patience_s=120)
        if answer.code not in (0, 4):
            raise RuntimeError(answer.stderr)
        return json.loads(Path("plan.json").read_text(encoding="utf-8"))


@cache
def curve() -> Any:
    """The JSON of a curve around `ONE`."""
    with TemporaryDirectory() as folder, chdir(folder):
        answer = answered(f"pareto {ONE} --points 3 -o curve.json")
        if answer.code not in (0, 4):
            raise RuntimeError(answer.stderr)
        return json.loads(Path("curve.json").read_text(encoding="utf-8"))


@cache
def capped() -> Any:
    """The JSON of a plan under power caps of nodes and zones, whose electricity has a price."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "c.yaml"
        file.write_bytes(written("c.yaml", samples.FED))
        return plan(f"{file} -m qwen3-8b --rate 1 --engine vllm")


@cache
def swept(kept: bool) -> tuple[str, Any]:
    """The path of the first answer that a sweep keeps in its `--cache`, and what it says; or the rows of the
    sweep."""
    with TemporaryDirectory() as folder, chdir(folder):
        Path("s.yaml").write_bytes(written("s.yaml", samples.WHERE))
        answer = answered("sweep s.yaml -o out.jsonl -j 1 --cache kept")
        if answer.code != 0:
            raise RuntimeError(answer.stderr)
        if not kept:
            return "out.jsonl", Path("out.jsonl").read_text(encoding="utf-8")
        file = min(Path("kept").glob("*/*.json"))
        return str(file), json.loads(file.read_text(encoding="utf-8"))


@cache
def summary(trace: str) -> Any:
    """The workload that `meshwright workload` makes of a trace: buckets, what is found again, traffic."""
    with TemporaryDirectory() as folder, chdir(folder):
        answer = answered(f"workload {REPO / 'docs' / 'examples' / trace} -o w.yaml")
        if answer.code != 0:
            raise RuntimeError(answer.stderr)
        return YAML(typ="safe", pure=True).load(Path("w.yaml").read_text(encoding="utf-8"))


class Kept(Kind):
    """An answer in the cache of a sweep: its path is known once it was made."""

    def fault(self, data: bytes) -> str | None:
        path, _ = swept(kept=True)
        return fault(self.command, {"s.yaml": written("s.yaml", samples.WHERE), path: data}, path)


BUY = "-m qwen3-0.6b --engine vllm --time-limit 2"
ONE = "--gpus 2xL4 -m qwen3-8b --engine vllm --time-limit 2"
SCHEDULE = "-m qwen3-0.6b --time-limit 2"
PRICED = REPO / "cluster_configs" / "examples" / "spot-cloud.yaml"
EXPERTS = "--gpus 4 --slots 3 --time-limit 2"
TWO = "--gpus 4xL4 -m qwen3-0.6b -m qwen3-8b --engine vllm --rate 1 --time-limit 4"
"""A plan of several models."""
KINDS = (
    Kind("cluster", "c.yaml", "plan c.yaml -m qwen3-0.6b --time-limit 2", as_is(samples.CLUSTER)),
    Kind("cluster, fit", "c.json", "fit c.json -m qwen3-0.6b", as_is(samples.CLUSTER)),
    Kind("workload", "w.yaml", f"plan {SMALL} -w w.yaml", as_is(samples.WORKLOAD)),
    Kind("workload with reuse", "w.yaml", f"plan {SMALL} -w w.yaml", as_is(samples.AGENTS)),
    Kind("model", "config.json", "plan --gpus 2xL4 -m config.json --time-limit 2", as_is(samples.CONFIG)),
    Kind("model, experts", "config.json", "plan --gpus 2xH100 -m config.json --time-limit 2",
        as_is(samples.MOE)),
    Kind("model, fit", "config.json", "fit --gpus 2xL4 -m config.json", as_is(samples.MOE)),
    Kind("sweep", "s.yaml", "sweep s.yaml -o out.jsonl -j 1", as_is(samples.SWEEP)),
    Kind("sweep, where", "s.yaml", "sweep s.yaml -o out.jsonl -j 1", as_is(samples.WHERE)),
    Kind("sweep, its rows", "out.jsonl", "sweep s.yaml -o out.jsonl -j 1", lambda: swept(kept=False)[1],
        lambda: {"s.yaml": samples.WHERE}),
    Kept("sweep, its cache", "kept.json", "sweep s.yaml -o out.jsonl -j 1 --cache kept",
        lambda: swept(kept=True)[1]),
    Kind("power caps, energy", "c.yaml", "plan c.yaml -m qwen3-0.6b --rate 1 --engine vllm --time-limit 2",
        as_is(samples.FED)),
    Kind("prices", "p.yaml", f"buy --prices p.yaml --rate 1 {BUY}", as_is(samples.OFFERS)),
    Kind("prices, money", "p.yaml", f"buy --prices p.yaml --budget 60k$ {BUY}", as_is(samples.OFFERS)),
    Kind("prices, nodes", "c.yaml", f"buy c.yaml --prices p.yaml --rate 1 {BUY}", as_is(samples.CLOUD),
        lambda: {"p.yaml": samples.OFFERS}),
    Kind("check, capped", "plan.json", "check plan.json", capped),
    Kind("diff, from", "plan.json", "diff plan.json other.json", lambda: plan(ONE),
        lambda: {"other.json": plan("--gpus 1xL4,1xL40S -m qwen3-8b --engine vllm --rate 1 --time-limit 2")}),
    Kind("diff, to", "plan.json", "diff other.json plan.json --json",
        lambda: plan("--gpus 8xH100 -m llama-3.1-70b -w rag --engine vllm"),
        lambda: {"other.json": plan("--gpus 8xH100 -m llama-3.1-70b --engine vllm")}),
    Kind("diff, table", "plan.json", "diff a.json plan.json a.json",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains"), lambda: {"a.json": plan(ONE)}),
    Kind("diff, capped", "plan.json", "diff plan.json a.json", capped, lambda: {"a.json": plan(ONE)}),
    Kind("report, capped", "plan.json", "report plan.json -o page.html", capped),
    Kind("check", "plan.json", "check plan.json", lambda: plan("--gpus 2xL4 -m qwen3-8b")),
    Kind("check, chains", "plan.json", "check plan.json",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains")),
    Kind("diff", "plan.json", "diff plan.json plan.json", lambda: plan("--gpus 2xL4 -m qwen3-8b")),
    Kind("export", "plan.json", "export plan.json --to k8s -o out",
        lambda: plan("--gpus 2xL4 -m qwen3-8b --engine vllm")),
    Kind("export, scripts", "plan.json", "export plan.json --to vllm -o out",
        lambda: plan("--gpus 8xH100 -m llama-3.1-70b -w rag --engine vllm")),
    Kind("replan", "plan.json", "replan plan.json --without t4-0",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains")),
    Kind("replan, copies", "plan.json", "replan plan.json --without t4-0 --copies 2 -o out.json",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains")),
    Kind("several models", "w.yaml", "plan --gpus 4xL4 -w w.yaml --time-limit 2", as_is(samples.MODELS)),
    Kind("several, cluster", "c.yaml",
        "plan c.yaml -m qwen3-0.6b -m qwen3-1.7b --rate 0.2 --engine vllm --time-limit 2",
        as_is(samples.FED)),
    Kind("several, check", "plan.json", "check plan.json --json", lambda: plan(TWO)),
    Kind("several, export", "plan.json", "export plan.json --to k8s -o out", lambda: plan(TWO)),
    Kind("several, report", "plan.json", "report plan.json -o page.html", lambda: plan(TWO)),
    Kind("several, simulate", "plan.json", "simulate plan.json#qwen3-8b --requests 100",
        lambda: plan(TWO)),
    Kind("explain", "plan.json", "explain plan.json", lambda: plan(f"{ONE} --rate 0.5")),
    Kind("explain, why not", "plan.json",
        "explain plan.json --why-not tp=1 --why-not 'engine=vllm role=split' --time-limit 1",
        lambda: plan(f"{ONE} --rate 0.5")),
    Kind("report", "plan.json", "report plan.json other.json -o page.html",
        lambda: plan("--gpus 8xH100 -m llama-3.1-70b -w rag --engine vllm --rate 1"),
        lambda: {"other.json": plan(ONE)}),
    Kind("report, picture", "plan.json", "report plan.json -o page.svg",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains")),
    Kind("report, curve", "curve.json", "report plan.json --curve curve.json -o page.html", curve,
        lambda: {"plan.json": plan(ONE)}),
    Kind("curve", "c.yaml", "pareto c.yaml -m qwen3-0.6b --engine vllm --points 3 --time-limit 1 -o c.json",
        as_is(samples.FED)),
    Kind("curve, cost", "w.yaml",
        "pareto c.yaml -m qwen3-0.6b --engine vllm --time-limit 2 -w w.yaml --curve cost --points 3 --rate 1",
        as_is(samples.WORKLOAD), lambda: {"c.yaml": samples.CLOUD}),
    Kind("export, compose", "plan.json", "export plan.json --to compose -o out", lambda: plan(ONE)),
    Kind("export, llm-d", "plan.json", "export plan.json --to llm-d -o out",
        lambda: plan("--gpus 8xH100 -m llama-3.1-70b -w rag --engine vllm")),
    Kind("export, slurm", "plan.json", "export plan.json --to slurm -o out", lambda: plan(ONE)),
    Kind("schedule, manifests", "w.yaml", f"schedule {PRICED} {SCHEDULE} -w w.yaml -o day.yaml",
        as_is(samples.DAY)),
    Kind("prices, outlook", "p.yaml", f"buy --prices p.yaml --rate 1 --outlook {BUY}",
        as_is(samples.OFFERS)),
    Kind("rows", "rows.csv", "predict rows.csv --out out.csv", table("rows.csv")),
    Kind("measured", "m.csv", "calibrate m.csv -o out.yaml", table("measured.csv")),
    Kind("trace", "t.csv", f"plan {SMALL} --trace t.csv", table("trace.csv")),
    Kind("trace, lines", "t.jsonl", f"plan {SMALL} --trace t.jsonl", samples.trace_lines),
    *([Kind("trace, Parquet", "t.parquet", "workload t.parquet -o w.yaml", samples.parquet)]
      if find_spec("pyarrow") else []),
    Kind("workload of a trace", "t.csv", "workload t.csv -o w.yaml", table("trace.csv")),
    Kind("workload of lines", "t.jsonl", "workload t.jsonl --slot 1", samples.trace_lines),
    Kind("workload with traffic", "w.yaml", f"plan {SMALL} -w w.yaml", lambda: summary("trace.csv")),
    Kind("schedule, day", "w.yaml", f"schedule {PRICED} {SCHEDULE} -w w.yaml -o day.csv", as_is(samples.DAY)),
    Kind("schedule, cluster", "c.yaml", f"schedule c.yaml {SCHEDULE} -w w.yaml -o day.yaml",
        as_is(samples.CLOUD), lambda: {"w.yaml": samples.DAY}),
    Kind("simulate", "plan.json", "simulate plan.json --requests 200",
        lambda: plan("--gpus 2xL4 -m qwen3-8b --rate 0.5")),
    Kind("simulate, split", "plan.json", "simulate plan.json --requests 100",
        lambda: plan("--gpus 8xH100 -m llama-3.1-70b -w rag --engine vllm --rate 1")),
    Kind("simulate, chains", "plan.json", "simulate plan.json --requests 50",
        lambda: plan("--gpus 2xL4,1xT4 -m qwen3-8b --engine chains")),
    Kind("simulate, trace", "t.csv", "simulate plan.json --trace t.csv -o over.csv", table("trace.csv"),
        lambda: {"plan.json": plan("--gpus 2xL4 -m qwen3-8b --rate 0.5")}),
    Kind("loads", "loads.csv", f"experts loads.csv {EXPERTS}", table("expert_loads.csv", 64)),
    Kind("loads, json", "loads.json", f"experts loads.json {EXPERTS}", as_is([[3, 9, 2, 1, 5, 4, 8, 6]] * 2)),
    Kind("loads, npy", "loads.npy", f"experts loads.npy {EXPERTS}", samples.npy),
    Kind("loads, npz", "loads.npz", f"experts loads.npz {EXPERTS}", samples.npz),
    Kind("loads, pt", "loads.pt", f"experts loads.pt {EXPERTS}", samples.dump_of_sglang),
    Kind("profile", "p.csv",
        "plan --gpus 2xA10G,1xA100 -m qwen3-0.6b --rate 1 --profile p.csv --time-limit 2",
        table("profile.csv")),
    Kind("script", "serve.sh", "import serve.sh --gpus 8xH100", example("serve.sh")),
    Kind("manifest", "m.yaml", "import m.yaml --facts", as_is(samples.PODS)),
    Kind("script, flags", "serve.sh", "import serve.sh --facts", as_is(samples.SERVE)),
    Kind("script, slurm", "job.sh", "import job.sh --gpus 8xH100", as_is(samples.JOB)),
    Kind("manifest, compose", "m.yaml", "import m.yaml --gpus 2xL4", as_is(samples.COMPOSE)),
    Kind("nvidia-smi", "n.txt", "cluster from-nvidia-smi n.txt", as_is(samples.SMI)),
    Kind("nvidia-smi topo", "n.txt", "cluster from-nvidia-smi n.txt", as_is(samples.WIRES)),
    Kind("nvidia-smi -q", "n.txt", "cluster from-nvidia-smi n.txt", as_is(samples.QUERIED)),
    Kind("kubectl", "n.json", "cluster from-k8s n.json", as_is(samples.NODES)),
    Kind("scontrol", "n.txt", "cluster from-slurm n.txt", as_is(samples.SLURM)),
    Kind("sinfo", "n.txt", "cluster from-slurm n.txt", as_is(samples.SINFO)),
    Kind("ray", "n.txt", "cluster from-ray n.txt", as_is(samples.RAY)),
    Kind("skypilot", "n.txt", "cluster from-skypilot n.txt", as_is(samples.SKY)),
)  # fmt: skip
