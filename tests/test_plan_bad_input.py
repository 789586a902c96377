"""What cannot be planned: one clear line, where it stands, what to do about it; exit 2 or 3, no traceback, no
file left behind. And where a hint names the smallest change, that change gives a plan."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner import plan
from planner.check import check
from planner.cli import app
from planner.errors import InputError
from planner.plans.schema import Plan

ONE_NODE = "nodes: [{name: h, device: h100-sxm, gpus_per_node: 2, price_usd_per_hour: 4}]\n"
BOMB = "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(12)
)  # 9^12 values in half a kilobyte

CLUSTERS = {
    "an unknown field": ("nodes:\n  - {device: h100-sxm, cuont: 2}\n", ":2:24", "did you mean `count`?"),
    "an unknown device": ("nodes:\n  - {device: h100-sxn}\n", ":2:14", "did you mean `h100-sxm`"),
    "a count of 0": ("nodes:\n  - {device: l4, count: 0}\n", ":2:25", "at least 1"),
    "a count of -1": ("nodes:\n  - {device: l4, count: -1}\n", ":2:25", "at least 1"),
    "a count in words": ("nodes:\n  - {device: l4, count: two}\n", ":2:25", "`count` must be"),
    "a node of no GPUs": ("nodes:\n  - {device: l4, gpus_per_node: 0}\n", ":2:33", "at least 1"),
    "no nodes": ("nodes: []\n", ":1:8", "at least 1"),
    "no field `nodes`": ("name: x\n", ":1:1", "`nodes` is missing"),
    "a name used twice": ("nodes:\n  - {device: l4, name: a}\n  - {device: t4, name: a}\n", ":3:24", "twice"),
    "a key given twice": ("name: a\nname: b\nnodes: [{device: l4}]\n", ":2:1", "twice"),
    "a price that is no number": ("nodes: [{device: l4, price_usd_per_hour: .nan}]\n", ":1:42", "finite"),
    "an infinite price": ("nodes: [{device: l4, price_usd_per_hour: .inf}]\n", ":1:42", "finite"),
    "a price below 0": ("nodes: [{device: l4, price_usd_per_hour: -3}]\n", ":1:42", "at least 0"),
    "a number with another unit": (
        "nodes: [{device: l4, nic_gb_per_s: 50 GB}]\n",
        ":1:36",
        "plain number",
    ),
    "a field in another unit": (
        "nodes: [{device: l4, nic_gbit_per_s: 400}]\n",
        ":1:22",
        "write `nic_gb_per_s: 50`",
    ),
    "a link that carries nothing": (
        "nodes: [{device: l4, zone: a}]\nlinks: [{between: [a, b], gb_per_s: 0}]\n",
        ":2:37",
        "greater than 0",
    ),
    "an empty file": ("", "", "empty"),
    "only a comment": ("# nothing\n", ":1:1", "empty"),
    "a list": ("[1, 2]\n", ":1:1", "expected named fields"),
    "no YAML": ("nodes:\n  - {device: l4}\n  loose\n", ":4:1", "not valid YAML"),
    "a cycle": ("a: &a\n  b: *a\nnodes: [*a]\n", ":2:6", "contains itself"),
    "an alias bomb": (BOMB + "nodes: *a11\n", ":", "expands to more than"),
    "a zero byte": ("nodes: \0\n", "", "binary"),
    "a file without end": ("nodes:\n" + "  - {device: h100-sxm}\n" * 450_000, "", "larger than 10 MB"),
}

WORKLOADS = {
    "no buckets": ("buckets: []\n", ":1:10", "at least 1"),
    "answers of no tokens": ("isl: 5\nosl: 0\n", ":2:6", "at least 1"),
    "a rate of 0": ("rate_rps: 0\n", ":1:11", "greater than 0"),
    "a rate that is no number": ("rate_rps: .nan\n", ":1:11", "finite"),
    "a limit in seconds": ("slo: {ttft_s: 2}\n", ":1:7", "write `ttft_ms: 2000`"),
    "a share of all prompts and more": ("prefix_hit: 1.5\n", ":1:13", "less than 1"),
    "lengths given twice": ("buckets: [{isl: 5, osl: 3}]\nisl: 4\n", ":1:1", "not both"),
}

OPTIONS = {
    "--rate 0": "greater than 0",
    "--rate -1": "greater than 0",
    "--rate nan": "finite",
    "--rate inf": "finite",
    "--rate many": "`many` is not what `--rate` takes",
    "--isl 0": "at least 1",
    "--isl 1.5": "give a whole number of tokens",
    "--isl 200000": "too long",
    "--osl 0": "at least 1",
    "--ttft-ms 0": "greater than 0",
    "--ttft-ms nan": "finite",
    "--ttft-ms 2GB": "a number",
    "--percentile p42": "p95",
    "--objective speed": "throughput",
    "--objective cost": "needs a rate",
    "--budget gpus=0": "at least 1",
    "--budget gpus=1.5": "whole number",
    "--budget euros=3": "did you mean",
    "--budget gpus": "NAME=NUMBER",
    "--budget watts=nan": "finite",
    "--engine tensorflow": "vllm",
    "--precision fp9": "fp8",
    "--kv-precision q4": "fp8",
    "--risk 0": "greater than 0",
    "--risk nan": "nan",
    "--gap -1": "0",
    "--time-limit 0": "greater than 0",
    "--seed -1": "0",
    "--workload nosuch": "did you mean",
    "--profile nosuch.csv": "no such file",
    "--model gpt-5": "did you mean",
    "--gpus 8xH100": "one cluster",
    "--bogus": "no such option",
}

GPUS = {
    "0xH100": "from 1 to",
    "-1xH100": "from 1 to",
    "8xH101": "did you mean",
    "8": "COUNTxGPU",
    "8xH100,,": "empty part",
    "1.5xH100": "COUNTxGPU",
    "1000000000000xH100": "from 1 to",
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def hints(self) -> list[str]:
        """The alternatives of the hint, as options."""
        hint = next(line for line in self.err.splitlines() if line.startswith("hint: "))
        return [part.strip() for part in hint.removeprefix("hint: ").split(" or ")]


Run = Callable[[str], Ended]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in a folder of its own, which holds ok.yaml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.yaml").write_text(ONE_NODE)

    def command(line: str) -> Ended:
        code = app.run(shlex.split(line))
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return command


def is_clear(ended: Ended, code: int = 2) -> bool:
    """One `error:` line, perhaps where and what next, and nothing else."""
    kinds = [line.partition(" ")[0] for line in ended.err.splitlines() if not line.startswith("  at ")]
    return ended.code == code and ended.out == "" and kinds[:1] == ["error:"] and set(kinds[1:]) <= {"hint:"}


@pytest.mark.parametrize(("text", "place", "says"), CLUSTERS.values(), ids=CLUSTERS)
def test_a_bad_cluster_file_is_one_clear_line_with_its_place(run: Run, text: str, place: str, says: str):
    Path("bad.yaml").write_text(text)

    ended = run("plan bad.yaml --model llama-3.1-8b -o plan.json")

    assert is_clear(ended)
    assert says in ended.err
    assert f"bad.yaml{place}" in ended.err
    assert not Path("plan.json").exists()


@pytest.mark.parametrize(("text", "place", "says"), WORKLOADS.values(), ids=WORKLOADS)
def test_a_bad_workload_file_is_one_clear_line_with_its_place(run: Run, text: str, place: str, says: str):
    Path("bad.yaml").write_text(text)

    ended = run("plan ok.yaml --model llama-3.1-8b --workload bad.yaml")

    assert is_clear(ended)
    assert says in ended.err
    assert f"bad.yaml{place}" in ended.err


@pytest.mark.parametrize(("option", "says"), OPTIONS.items(), ids=OPTIONS)
def test_a_bad_option_is_one_clear_line(run: Run, option: str, says: str):
    model = "--model llama-3.1-8b"
    ended = run(f"plan ok.yaml {model if '--model' not in option else ''} {option} -o plan.json")

    assert is_clear(ended)
    assert says in ended.err
    assert [path.name for path in Path().iterdir()] == ["ok.yaml"]


@pytest.mark.parametrize(("gpus", "says"), GPUS.items(), ids=GPUS)
def test_a_bad_cluster_in_a_line_is_one_clear_line(run: Run, gpus: str, says: str):
    ended = run(f"plan --gpus '{gpus}' --model llama-3.1-8b")

    assert is_clear(ended)
    assert says in ended.err
    assert "--gpus" in ended.err


@pytest.mark.parametrize("line", ["plan . --model llama-3.1-8b", "plan ok.yaml --model x -w .", "check ."])
def test_a_directory_is_no_file(run: Run, line: str):
    ended = run(line)

    assert is_clear(ended)
    assert "director" in ended.err or "unknown model" in ended.err


@pytest.mark.parametrize("name", [".", "nowhere/plan.json"])
def test_a_plan_that_cannot_be_written_is_refused_before_the_work(run: Run, name: str):
    ended = run(f"plan ok.yaml --model llama-3.1-8b -o {name}")

    assert is_clear(ended)
    assert "cannot write" in ended.err


def test_with_json_the_error_is_json_too(run: Run):
    ended = run("plan ok.yaml --model llama-3.1-8b --rate 0 --json")

    error = json.loads(ended.out)["error"]
    assert ended.code == 2
    assert set(error) == {"code", "message", "where", "hint"}
    assert (error["code"], error["where"]) == ("bad_input", "--rate")


def test_with_json_what_is_infeasible_is_json_too(run: Run):
    ended = run("plan ok.yaml --model llama-3.1-405b --json -o plan.json")

    error = json.loads(ended.out)["error"]
    assert ended.code == 3
    assert error["code"] == "infeasible"
    assert "llama-3.1-405b does not fit" in error["message"]
    assert not Path("plan.json").exists()


def test_a_plan_that_was_there_stays_when_the_next_one_fails(run: Run):
    Path("plan.json").write_text("mine")

    assert run("plan ok.yaml --model llama-3.1-8b --ttft-ms 0.1 -o plan.json").code == 3
    assert Path("plan.json").read_text() == "mine"
    assert sorted(path.name for path in Path().iterdir()) == ["ok.yaml", "plan.json"]


ON = "plan --gpus 2xL40S --model llama-3.1-8b --engine vllm "
PRICED = "plan ok.yaml --model llama-3.1-8b --engine vllm "
INFEASIBLE = {
    "a time to first token that nothing keeps": ON + "--ttft-ms 5",
    "a time per token that nothing keeps": ON + "--tpot-ms 3",
    "both": ON + "--ttft-ms 5 --tpot-ms 3 --rate 1",
    "a tail that nothing keeps": ON + "--tpot-ms 4 --percentile p95 --rate 0.5",
    "a rate above what the nodes serve": ON + "--rate 500",
    "a rate above what the money buys": PRICED + "--rate 30 --budget usd_per_hour=3",
    "a rate above what the GPUs allowed serve": PRICED + "--rate 30 --budget gpus=1",
    "a rate above what the watts allow": PRICED + "--rate 30 --budget watts=700",
    "a rate above what several budgets allow": PRICED + "--rate 30 --budget gpus=1,watts=700,usd_per_hour=1",
    "too little money for anything": PRICED + "--budget usd_per_hour=1",
    "too few watts for anything": PRICED + "--budget watts=20",
    "a model larger than the GPUs": "plan --gpus 1xH100 --model llama-3.1-70b --engine vllm",
    "a prompt longer than the memory": "plan --gpus 1xL4 --model llama-3.1-8b --engine vllm --isl 100000",
    "an engine that does not run there": "plan --gpus 8xT4 --model gpt-oss-20b --engine trtllm",
}


@pytest.mark.parametrize("line", INFEASIBLE.values(), ids=INFEASIBLE)
def test_what_is_infeasible_says_the_smallest_change_and_that_change_gives_a_plan(run: Run, line: str):
    ended = run(line)

    assert is_clear(ended, code=3)
    changes = applicable(ended.hints)
    assert changes
    for change in changes:
        better = run(f"{replaced(line, change)} --json")
        assert better.code in (0, 4), f"{change}: {better.err}"
        assert check(Plan.model_validate_json(better.out)) == []


def test_more_nodes_are_named_and_that_many_carry_the_load(run: Run):
    ended = run(PRICED + "--rate 100")

    needed = re.search(r"(\d+) more nodes? of h", ended.err)
    assert needed
    count = 1 + int(needed[1])
    Path("more.yaml").write_text(ONE_NODE.replace("name: h", f"name: h, count: {count}"))
    Path("less.yaml").write_text(ONE_NODE.replace("name: h", f"name: h, count: {count - 1}"))
    assert run(PRICED.replace("ok.yaml", "more.yaml") + "--rate 100").code == 0
    assert run(PRICED.replace("ok.yaml", "less.yaml") + "--rate 100").code == 3


def applicable(hints: list[str]) -> list[str]:
    """The options that hints name: by themselves, or in brackets behind words."""
    found = []
    for hint in hints:
        for part in hint.split(";"):
            inside = re.search(r"\((--[^)]*)\)", part)
            option = inside[1] if inside else part.strip()
            if option.startswith("--"):
                found.append(option)
    return found


def replaced(line: str, change: str) -> str:
    """The command with the options of `change` in place of its own."""
    for option in re.findall(r"--[a-z-]+", change):
        line = re.sub(rf"{option} \S+", "", line)
    return f"{line} {change}"


def test_an_option_that_is_none_names_the_nearest():
    with pytest.raises(InputError, match="`time_limit` is no option of a plan") as caught:
        plan(None, "llama-3.1-8b", gpus="1xh100", time_limit=3)
    assert "`time_limit_s`" in (caught.value.hint or "")
