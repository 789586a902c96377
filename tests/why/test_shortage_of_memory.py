"""What all places lack, and ways that do: every one of them planned."""

from __future__ import annotations

import re

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from planner import api
from planner.check import check
from planner.errors import Infeasible

HOST = Host(memory_gb=64, gb_per_s=80, pcie_gb_per_s=25)


def boxes(count: int = 1, host: Host | None = HOST, tiers: tuple[Tier, ...] = (), device: str = "rtx-4090"):
    form = Node(
        name="box",
        device=device,
        count=count,
        gpus_per_node=1,
        host=host,
        tiers=list(tiers),
        nic_gb_per_s=1.25,
    )
    return resolve(Cluster(nodes=[form]))


def refused(cluster, model="llama-3.1-405b", **more) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        api.plan(cluster, model, **{"precision": "int4_wo", **more})
    return caught.value


def test_what_is_missing_adds_up_and_says_where():
    error = refused(boxes(2))
    short, need, gpus, host = (
        float(x.replace(",", ""))
        for x in re.findall(r"([\d.,]*\d) GB (?:short even|of w|on 2|in host)", error.message)
    )

    assert short == pytest.approx(need - gpus - host, abs=0.2)
    assert host == pytest.approx(2 * 0.9 * 64, abs=0.1)
    tables = 2 * 128256 * 16384 * (2 - 4.125 / 8) / 1e9  # embedding and LM head stay in 16 bits
    assert need == pytest.approx(405.9 * 4.125 / 8 + tables, rel=0.01)


def test_memory_nodes_or_a_disk_that_are_named_would_do():
    hint = refused(boxes(2)).hint or ""
    memory, count = re.search(r"memory_gb: (\d+)", hint), re.search(r"`count: (\d+)`", hint)
    disk = Tier(kind="nvme", gb=4000, read_gb_per_s=7, write_gb_per_s=5)
    assert memory
    assert count
    assert "kind: nvme, gb: 4000" in hint
    larger = HOST.model_copy(update={"memory_gb": float(memory[1])})

    for cluster in (boxes(2, larger), boxes(int(count[1])), boxes(2, tiers=(disk,))):
        assert check(api.plan(cluster, "llama-3.1-405b", precision="int4_wo", work_limit=1000)) == []
    for cluster in (boxes(2, HOST.model_copy(update={"memory_gb": 96})), boxes(int(count[1]) - 1)):
        if cluster.classes[0].host.memory_gb != larger.memory_gb:
            refused(cluster)


def test_a_shorter_prompt_is_named_where_it_would_do():
    """A card that holds no cache of 100,000 tokens beside what must be there."""
    small = boxes(host=HOST.model_copy(update={"memory_gb": 24}))
    hint = refused(small, "llama-3.1-70b", isl=126_000).hint or ""
    shorter = re.search(r"--isl (\d+)\), with weights in host memory", hint)

    assert shorter
    given = {"isl": int(shorter[1]), "precision": "int4_wo", "work_limit": 1000}
    assert api.plan(small, "llama-3.1-70b", **given).tiers


def test_one_output_token_is_planned_and_shown(capsys):
    from planner.cli import app

    options = ["--model", "gpt-oss-120b", "--osl", "1", "--details"]
    assert app.run(["plan", "cluster_configs/examples/one-4090-128gb.yaml", *options]) == 0
    assert "no step decodes" in " ".join(capsys.readouterr().out.split())
