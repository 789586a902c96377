"""How a plan's servers are started, as it is printed."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from planner.plans.schema import Plan
from planner.reports.started import MANY, SHOWN, show, starting
from tests.exporters.samples import made, replica
from tests.reports.samples import ONE_NODE


def comments(plan: Plan) -> list[str]:
    return [line for line in starting(plan) if line.startswith("#")]


def test_each_server_has_its_node_and_its_command():
    lines = list(starting(made(replica("r1", "vllm", tp=8, count=2))))

    assert (lines[0], lines[2]) == ("# h200-sxm-0", "# h200-sxm-1")
    assert lines[1].startswith("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 vllm serve")


def test_of_many_equal_servers_the_first_are_told_and_how_many_more_there_are():
    plan = made(replica("r1", "vllm", tp=1, count=MANY + 3), replica("r2", "vllm", tp=8))
    lines = list(starting(plan))

    assert sum("vllm serve" in line for line in lines) == MANY + 1
    more = [line for line in lines if "more of" in line]
    assert more == ["# 3 more of r1 start alike: `meshwright export` writes all commands"]


def test_notes_are_told_once():
    plan = made(replica("r1", "vllm", tp=8), replica("r2", "vllm", tp=4))

    assert sum("--gpu-memory-utilization is a share" in line for line in comments(plan)) == 1


def test_files_are_printed_below_unless_they_are_long():
    plan = made(replica("r1", "trtllm", tp=8))
    short = list(starting(plan))
    launch = plan.replicas[0].launch
    assert launch is not None
    long = launch.model_copy(update={"files": {"r1.yaml": "x" * (SHOWN + 1)}})
    longer = plan.model_copy(update={"replicas": [plan.replicas[0].model_copy(update={"launch": long})]})

    assert "tensor_parallel_size: 8" in short[short.index("# r1.yaml:") :]
    assert comments(longer)[-1] == "# r1.yaml: 4,001 characters, which `meshwright export` writes"


def test_a_command_beyond_what_a_screen_holds_is_left_to_export():
    plan = made(replica("r1", "vllm", tp=8))
    launch = plan.replicas[0].launch
    assert launch is not None
    long = launch.model_copy(update={"argv": [*launch.argv, "x" * SHOWN]})
    lines = list(
        starting(plan.model_copy(update={"replicas": [plan.replicas[0].model_copy(update={"launch": long})]}))
    )

    assert "characters, which `meshwright export` writes" in lines[1]


def test_servers_without_room_are_not_written_and_that_is_said():
    plan = made(replica("r1", "vllm", tp=8))
    crowded = plan.replicas[0].model_copy(update={"count": 200})

    first = next(starting(plan.model_copy(update={"replicas": [crowded]})))
    assert first.startswith("not written: r1: 8 GPUs of a stage find no room")


def test_commands_are_whole_on_a_narrow_screen_and_absent_where_there_are_none():
    out = StringIO()
    show(made(replica("r1", "vllm", tp=8)), Console(file=out, width=40))
    nothing = StringIO()
    show(ONE_NODE, Console(file=nothing, width=40))

    assert any(len(line) > 200 for line in out.getvalue().splitlines())
    assert nothing.getvalue() == ""
