"""Docker Compose: a file a node, a service a server, its GPUs, ports and variables."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from planner.errors import InputError
from planner.exporters import export
from planner.launch import launched
from planner.plans.schema import Draft, Plan
from tests.exporters.samples import made, replica


def services(plan: Plan) -> dict[str, dict[str, Any]]:
    """All services of all nodes, by name."""
    read = YAML(typ="safe")
    files = {n: t for n, t in export(plan, "compose").items() if n.startswith("compose-")}
    return {name: s for text in files.values() for name, s in read.load(text)["services"].items()}


def on(vendor: str, plan: Plan) -> Plan:
    """The same plan on GPUs of another maker."""
    device = plan.problem.devices["h200-sxm"] | {"vendor": vendor}
    return plan.model_copy(
        update={"problem": plan.problem.model_copy(update={"devices": {"h200-sxm": device}})}
    )


def test_a_server_of_two_nodes_is_a_service_on_each_with_its_own_rank():
    found = services(made(replica("r1", "sglang", tp=16)))

    assert [*found] == ["r1-0-node0", "r1-0-node1"]
    assert [s["command"][-1] for s in found.values()] == ["0", "1"]


def test_an_address_with_a_port_is_a_variable_and_the_port():
    """`${HEAD_ADDR:5000:?}` is no variable to Compose."""
    command = services(made(replica("r1", "sglang", tp=16)))["r1-0-node0"]["command"]

    assert command[command.index("--dist-init-addr") + 1] == "${HEAD_ADDR:?}:5000"


def test_a_variable_inside_a_word_is_asked_for_too():
    own = replica("r1", "vllm", tp=8)
    option = '--speculative-config {"method":"eagle3","model":"HEAD"}'
    draft = Draft(kind="eagle", tokens=3, accepted=1.0, weights_bytes=0, option=option)
    plan = launched(made(own).model_copy(update={"replicas": [own.model_copy(update={"draft": draft})]}))

    assert '{"method":"eagle3","model":"${DRAFT_HEAD:?}"}' in services(plan)["r1-0"]["command"]


def test_servers_of_one_node_share_its_network_and_no_port():
    """A prefill server listens for requests and, 64 ports apart, on its side channel."""
    pair = replica("p1", "vllm", "prefill", tp=2, count=2), replica("d1", "vllm", "decode", tp=2, count=2)
    found = services(made(*pair))
    ports = [s["command"][s["command"].index("--port") + 1] for s in found.values()]
    channels = [s["environment"]["VLLM_NIXL_SIDE_CHANNEL_PORT"] for s in found.values()]

    assert {s["network_mode"] for s in found.values()} == {"host"}
    assert sorted(ports) == ["8000", "8001", "8002", "8003"]
    assert sorted(channels) == ["5600", "5664", "5728", "5792"]
    assert {s["environment"]["VLLM_NIXL_SIDE_CHANNEL_HOST"] for s in found.values()} == {"${HOST_ADDR:?}"}


def test_amds_gpus_are_device_files_and_a_list_of_those_to_see():
    plan = on("amd", made(replica("r1", "vllm", tp=2, count=2)))
    first, second = services(plan).values()

    assert first["devices"] == ["/dev/kfd", "/dev/dri"]
    assert [s["environment"]["HIP_VISIBLE_DEVICES"] for s in (first, second)] == ["0,1", "2,3"]
    assert "deploy" not in first
    assert "images are built for NVIDIA GPUs" in export(plan, "compose")["README.md"]
    assert "images are built" not in export(plan, "vllm")["README.md"]  # scripts name none


def test_gpus_that_compose_cannot_give_are_refused():
    with pytest.raises(InputError, match="compose reserves NVIDIA and AMD GPUs, r1-0 has others"):
        export(on("intel", made(replica("r1", "vllm", tp=2))), "compose")


def test_files_that_a_server_reads_are_mounted_where_it_starts():
    (service,) = services(made(replica("r1", "trtllm", tp=8))).values()

    assert "./r1.yaml:/app/r1.yaml:ro" in service["volumes"]
    assert service["working_dir"] == "/app"
    (plain,) = services(made(replica("r1", "vllm", tp=8))).values()
    assert "working_dir" not in plain
    assert "environment" not in plain
