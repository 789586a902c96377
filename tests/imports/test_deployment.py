"""Servers as one deployment: equal ones are replicas, further nodes belong to their head."""

from dataclasses import replace

import pytest

from planner.imports.commands import servers
from planner.imports.deployment import Deployment, Group, joined, named

MODEL = "meta-llama/Llama-3.1-8B"


def one(flags: str = "-tp 2"):
    (found,) = servers(f"vllm serve {MODEL} {flags}")
    return found


def test_equal_commands_are_replicas_and_unlike_ones_are_groups():
    found = joined("command", [one(), one(), one("-tp 4")])

    assert [(g.server.facts["tp"], g.replicas) for g in found.groups] == [(2, 2), (4, 1)]
    assert found.gpus == 2 * 2 + 4


def test_a_further_node_belongs_to_the_server_that_it_helps_to_start():
    head = one("-tp 8 -pp 2")
    found = joined("command", [head, replace(head, secondary=True)])

    assert [(g.replicas, g.server.secondary) for g in found.groups] == [(1, False)]
    assert found.facts["one_deployment"] is True
    assert found.gpus == 16


def test_further_nodes_alone_are_one_server():
    found = joined("command", [replace(one(), secondary=True)])

    assert [g.replicas for g in found.groups] == [1]
    assert "one_deployment" not in found.facts


def test_what_a_manifest_counts_wins_over_the_command():
    group = Group(one(), 3, gpus=4)

    assert group.each == 4
    assert Group(one(), 3).each == 2
    assert Deployment("kubernetes", (group,)).gpus == 12


def test_facts_of_the_whole_are_those_that_all_servers_share():
    both = Deployment(
        "dynamo", (Group(one("-tp 2 --max-model-len 4096")), Group(one("-tp 4 --max-model-len 4096")))
    )

    assert both.facts["max_model_len"] == 4096
    assert both.facts["tp"] == 1  # nothing that all have
    assert both.facts["model"] == MODEL
    assert (both.facts["engine"], both.facts["kind"]) == ("vllm", "dynamo")


def test_roles_are_told_apart_where_servers_have_some():
    first, second = replace(one("-tp 2"), role="prefill"), replace(one("-tp 4"), role="decode")
    facts = Deployment("dynamo", (Group(first, 3), Group(second, 1, facts={"x": 1}))).facts

    assert facts["roles"]["prefill"] | {"replicas": 3, "gpus": 2, "tp": 2} == facts["roles"]["prefill"]
    assert facts["roles"]["decode"] | {"replicas": 1, "gpus": 4, "tp": 4, "x": 1} == facts["roles"]["decode"]
    assert "role" not in facts
    assert Deployment("command", (Group(first),)).facts["role"] == "prefill"
    assert "roles" not in Deployment("command", (Group(one()), Group(one()))).facts


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("prefill.sh", "prefill"),
        ("my-DECODE-node.yaml", "decode"),
        ("prefill-decode.sh", "mixed"),
        ("a.sh", "mixed"),
    ],
)
def test_a_connector_that_serves_both_sides_takes_its_role_from_the_files_name(name, role):
    server = one()
    open_ = replace(server, facts={**server.facts, "kv_connector": "NixlConnector"})

    assert named(open_, name).role == role
    assert named(server, name).role == "mixed"  # no connector: it serves both phases
    assert named(replace(open_, role="decode"), "prefill.sh").role == "decode"
