"""Models larger than GPU memory: the page's commands run, its table is today's, and what is printed says
where the weights lie and what bounds a token."""

import re
import shlex
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from model_zoo.schema import ModelCard
from planner import api
from planner.check import check
from planner.cli import app
from planner.cost.memory import room_by_stage
from planner.designs.shape import Precisions, like
from planner.errors import Infeasible
from planner.launch.instances import instances
from planner.launch.words import command
from planner.plans.schema import Plan
from planner.reports.memory import bound, interleave

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "offload.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ meshwright (.*)$", PAGE, flags=re.MULTILINE)
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| .* GB, .* \|", line)]


@cache
def ran(command: str) -> tuple[str, Plan]:
    """What a command of the page prints, and its plan."""
    said = StringIO()
    with TemporaryDirectory() as folder, chdir(REPO), redirect_stdout(said):
        assert app.run([*shlex.split(command), "--details", "-o", f"{folder}/plan.json"]) == 0
        return said.getvalue(), Plan.model_validate_json(
            Path(folder, "plan.json").read_text(encoding="utf-8")
        )


def planned(command: str) -> Plan:
    return ran(command)[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_prints_where_weights_lie(command):
    out = " ".join(ran(command)[0].split())

    assert "Beside the GPUs" in out
    assert "in host memory" in out
    assert "a token is bound by" in out


@pytest.mark.parametrize(("command", "row"), list(zip(COMMANDS, ROWS, strict=True)))
def test_the_table_is_what_plans_say(command, row):
    plan = planned(command)
    _, _, _, _, rate, tpot, by, _ = (cell.strip() for cell in row.split("|"))

    assert plan.predicted.out_tok_per_s.value == pytest.approx(float(rate), rel=0.05)
    assert plan.predicted.tpot_ms.value == pytest.approx(float(tpot.removesuffix(" ms")), rel=0.05)
    assert f"bound by {by}" in bound(plan.replicas[0])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_plan_is_sound_and_proven(command):
    plan = planned(command)

    assert check(plan) == []
    assert plan.proof.gap <= 0.01
    assert plan.predicted.out_tok_per_s.value > 1
    assert "host memory" in plan.proof.space.what


def test_options_say_what_the_plan_does():
    one, _, kernels, disk, _, cxl, boxes, stream = (planned(command) for command in COMMANDS)

    assert after(one, "--override-tensor") == rf"blk\.({'|'.join(map(str, range(25)))})\.ffn_.*_exps\.=CPU"
    assert "--load-mode" in argv(one)
    assert after(kernels, "--kt-num-gpu-experts") == after(cxl, "--kt-num-gpu-experts") == "4"
    assert "--load-mode" not in argv(disk)
    assert after(stream, "--offload-group-size") == "115"
    assert after(stream, "--offload-num-in-group") == "103"
    (dealt,) = interleave(cxl.tiers)
    assert "numactl --weighted-interleave=all, with 9 in" in dealt
    assert "and 4 in those of CXL memory" in dealt
    assert interleave(one.tiers) == []
    assert_all_layers_are_somewhere(boxes)


def argv(plan: Plan) -> list[str]:
    (r,) = plan.replicas
    assert r.launch is not None
    return r.launch.argv


def after(plan: Plan, flag: str) -> str:
    return argv(plan)[argv(plan).index(flag) + 1]


H100_BOX = {
    "name": "box",
    "nodes": [
        {"device": "h100-sxm", "gpus_per_node": 1, "host": {"memory_gb": 768, "gb_per_s": 300, "tflops": 6}}
    ],
}


@pytest.mark.parametrize(
    ("plan", "option"),
    [
        (lambda: planned(COMMANDS[0]), "--ubatch-size 2048"),
        (lambda: planned(COMMANDS[2]), "--chunked-prefill-size 4096"),
        (lambda: planned(COMMANDS[7]), "--max-num-batched-tokens 8192"),
        (lambda: on_an_h100("sglang"), "--chunked-prefill-size 8192"),
        (lambda: on_an_h100("llama.cpp"), "--ubatch-size 2048"),
    ],
)
def test_the_engine_is_told_the_steps_that_were_counted(plan, option):
    """The memory of the plan is that of steps as large as the launch line says."""
    made = plan()
    (r,), card = made.replicas, ModelCard.model_validate(made.problem.model)
    used = Precisions(r.precision.weights, r.precision.experts, card.weights.embedding, r.precision.kv)
    tokens = int(option.rpartition(" ")[2])
    steps = room_by_stage(card, 1e12, like(1, r.tp), used, r.engine, tokens).activation_bytes[0, 0]
    ahead = r.memory[0].activation_bytes - steps  # layers that are copied before they are needed

    assert after(made, option.split()[0]) == str(tokens)
    assert ahead > 1e9 if r.engine == "vllm" else ahead == pytest.approx(0, abs=10)  # written to nine digits


def on_an_h100(engine: str) -> Plan:
    cluster = resolve(Cluster.model_validate(H100_BOX))
    return api.plan(
        cluster, "deepseek-v3", precision="int4_wo", engine=engine, work_limit=1000, explain=False
    )


def assert_all_layers_are_somewhere(boxes: Plan) -> None:
    """Of the 94 layers and the output, on as many devices as the servers offer and the server has itself."""
    (i,) = instances(boxes)
    home, *others = (command(boxes, i, rank) for rank in range(4))
    offered = [name for text in others for name in text.split("--device ")[1].split(",")]
    split = [int(n) for n in re.search(r"--tensor-split ([\d,]+)", home)[1].split(",")]  # type: ignore[index]
    named = re.search(r"--device (\S+)", home)[1].split(",")  # type: ignore[index]

    assert sorted(offered) == ["CPU", "CUDA0", "CUDA0", "CUDA0"]
    assert named == ["RPC0", "RPC1", "RPC2", "RPC3", "CUDA0"]
    assert len(split) == len(named)
    assert sum(split) == 95
    assert "--n-gpu-layers 95 " in home
    assert "--rpc box-0:50052,box-1:50052,box-2:50052 " in home
    assert [node for node, _ in i.gpus] == ["box-3", "box-0", "box-1", "box-2"]


def test_a_model_that_fits_stays_on_the_gpus():
    box = REPO / "cluster_configs/examples/one-4090-128gb.yaml"
    plan = api.plan(box, "gpt-oss-20b", work_limit=1000, explain=False)

    assert plan.tiers == []
    assert "PCIe" not in plan.replicas[0].step.by


@pytest.mark.parametrize(("model", "gigabytes"), [("gpt-oss-120b", 64), ("llama-3.1-70b", 192)])
def test_without_a_host_the_error_says_how_much_memory_would_do(model, gigabytes):
    with pytest.raises(Infeasible, match="short on each GPU") as caught:
        api.plan(from_gpus("1xRTX4090"), model)

    assert f"{gigabytes} GB of host memory" in (caught.value.hint or "")


def test_another_engine_or_precision_is_named_where_it_would_do():
    box = REPO / "cluster_configs/examples/workstation-512gb.yaml"
    with pytest.raises(Infeasible) as engine:
        api.plan(box, "qwen3-235b-a22b", engine="trtllm", precision="int4_wo")
    with pytest.raises(Infeasible) as precision:
        api.plan(box, "deepseek-v3")

    assert "--engine llama.cpp, with weights in host memory" in (engine.value.hint or "")
    assert "--precision int4_wo, with weights in host memory" in (precision.value.hint or "")


def test_the_other_engine_is_shown():
    kernels = planned(COMMANDS[2])

    assert {r.engine for r in kernels.replicas} == {"sglang"}
    assert {"llama.cpp", "vllm"} <= {
        word for a in kernels.alternatives for word in re.findall(r"[\w.]+", a.what)
    }


def test_a_limit_that_host_memory_cannot_keep_is_named():
    with pytest.raises(Infeasible, match=r"no replica design keeps .*TPOT 10 ms \(best") as caught:
        api.plan(REPO / "cluster_configs/examples/one-4090-128gb.yaml", "gpt-oss-120b", tpot_ms=10)

    assert "--tpot-ms" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "load",
    [
        {"rate": 0.001, "isl": 100, "osl": 64},
        {"isl": 60_000, "osl": 500},
        {"rate": 0.05, "percentile": "p95", "objective": "latency"},
        {"ttft_ms": "none", "tpot_ms": "none"},
    ],
)
def test_plans_are_sound_under_any_load(load):
    """Many requests at once share experts that are copied to the GPU."""
    named = {"ttft_ms": "none"} | load if "percentile" in load else load
    plan = api.plan(
        REPO / "cluster_configs/examples/one-4090-128gb.yaml",
        "gpt-oss-120b",
        work_limit=1000,
        risk=0.5,
        **named,
    )

    assert check(plan) == []
    by = "PCIe" if load.get("tpot_ms") == "none" else "host memory bandwidth"
    assert f"bound by {by}" in bound(plan.replicas[0])
    assert not any("context parallelism" in a.what for a in plan.alternatives)


def test_offline_the_link_is_shared_by_many_sequences():
    """A step copies the weights once, for however many; the page's figures are today's."""
    one = planned(COMMANDS[-1])
    said = re.search(r"the GH200 (\d+) output tok/s for (\d+) requests", PAGE)
    assert said
    many = api.plan(
        REPO / "cluster_configs/examples/gh200-480gb.yaml",
        "llama-3.1-405b-fp8",
        ttft_ms="none",
        tpot_ms="none",
        loop="closed",
        work_limit=1000,
        explain=False,
    )

    assert check(many) == []
    assert many.predicted.out_tok_per_s.value == pytest.approx(float(said[1]), rel=0.05)
    assert many.replicas[0].max_batch == pytest.approx(float(said[2]), rel=0.05)
    assert many.predicted.out_tok_per_s.value > 20 * one.predicted.out_tok_per_s.value
    assert many.predicted.tpot_ms.value < 1.5 * one.predicted.tpot_ms.value
    assert "bound by NVLink-C2C" in bound(many.replicas[0])
