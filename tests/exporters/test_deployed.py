"""A plan as it is deployed: GPUs, nodes, names, what a target refuses, and the page beside the files."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.exporters.deployed import Deployed, script, without, yaml
from planner.plans.schema import Route
from tests.exporters.samples import made, replica


def deployed(*replicas, to="k8s"):
    return Deployed(made(*replicas), to)


def test_gpus_and_nodes_are_those_of_one_replica():
    d = deployed(replica("r1", "vllm", tp=8, pp=2, count=3))
    (r,) = d.plan.replicas

    assert (d.gpus(r), d.nodes(r), len(d.of(r))) == (16, 2, 3)


@pytest.mark.parametrize(
    ("vendor", "key"),
    [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("intel", "gpu.intel.com/i915")],
)
def test_kubernetes_calls_gpus_by_their_vendor(vendor, key):
    d = deployed(replica("r1", "vllm", tp=8))
    d.plan.problem.devices["h200-sxm"]["vendor"] = vendor
    try:
        assert d.gpu_key(d.plan.replicas[0]) == key
    finally:
        d.plan.problem.devices["h200-sxm"]["vendor"] = "nvidia"


@pytest.mark.parametrize(
    ("model", "name"),
    [("Llama-3.1-70B", "llama-3-1-70b"), ("x" * 40, "x" * 30), ("a" * 29 + ".b", "a" * 29), ("-q_", "q")],
)
def test_names_have_small_letters_digits_and_hyphens_and_thirty_at_most(model, name):
    d = deployed(replica("r1", "vllm", tp=8))
    problem = d.plan.problem.model_copy(update={"model": d.plan.problem.model | {"name": model}})

    assert Deployed(d.plan.model_copy(update={"problem": problem}), "k8s").name == name


def test_servers_of_other_engines_are_refused_by_name():
    d = deployed(replica("r1", "vllm", tp=8), replica("r2", "sglang", tp=8), to="kserve")

    d.alike("vllm", "sglang")
    with pytest.raises(InputError, match="kserve starts vllm, r2 runs on sglang"):
        d.alike("vllm")


def test_what_needs_an_mpi_launcher_or_addresses_is_refused_over_several_nodes_alone():
    one, two = replica("r1", "trtllm", tp=8), replica("r1", "trtllm", tp=8, pp=2)
    d = deployed(one)
    d.no_mpi(d.plan.replicas[0])

    several = deployed(two)
    with pytest.raises(InputError, match="2 nodes, and k8s has no MPI launcher"):
        several.no_mpi(several.plan.replicas[0])
    plain = deployed(replica("r1", "vllm", tp=8, pp=2))
    plain.no_mpi(plain.plan.replicas[0])


def test_a_command_loses_flags_with_their_values_and_nothing_else():
    words = ["--port", "1", "--a", "--tp", "2", "--b", "x", "--port"]

    assert without(words, ("--port", "--tp")) == ["--a", "--b", "x"]
    assert without(words, ()) == words


def test_a_script_says_first_which_variables_it_lacks():
    text = script('run --at "$HEAD_ADDR" --model "$MODEL_GGUF"', "r1 on a")

    assert text.splitlines()[:3] == ["#!/usr/bin/env bash", "# r1 on a", "set -euo pipefail"]
    assert ': "${HEAD_ADDR:?}"' in text
    assert ': "${MODEL_GGUF:?}"' in text
    assert "HOST_ADDR" not in text
    assert text.endswith('"$MODEL_GGUF"\n')


def test_documents_keep_their_order_and_are_parted():
    assert yaml({"b": 1, "a": [2]}, {"c": None}) == "b: 1\na:\n  - 2\n---\nc:\n"


def test_the_page_says_what_runs_where_shares_go_and_what_was_assumed():
    p = made(replica("r1", "vllm", "prefill", tp=8, count=2), replica("r2", "vllm", "decode", tp=8))
    p = p.model_copy(update={"routing": [Route(bucket=0, share=0.25, prefill="r1", decode="r2")]})
    d = Deployed(p, "k8s", ["weights are at hand"])
    text = d.readme({"r1.yaml": ""}, ["Start it."])

    assert "- 2 x r1: prefill, vllm" in text
    assert "8 x h200-sxm each" in text
    assert "requests of bucket 0: 25 % to r1 then r2" in text
    assert "- weights are at hand" in text
    assert "- `r1.yaml`" in text
    assert "1. Start it.\n" in text
