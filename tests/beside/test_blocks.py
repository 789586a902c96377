"""Offline in blocks: shown where patience was granted and it pays, and nowhere else."""

import re
from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from planner import plan
from planner.beside import blocks
from planner.beside.blocks import ON_CPU, block, in_blocks, phase_seconds
from planner.question.asked import read
from solvers.linear import Limits
from tests.beside.solved import alone

told = alone(in_blocks)

HOST = Host(memory_gb=128, gb_per_s=80, pcie_gb_per_s=25)
DISK = Tier(kind="nvme", gb=2000, read_gb_per_s=7, write_gb_per_s=5)
WHAT = "offline, in blocks over GPU, host and disk"


def cramped(host=HOST, memory_gb=19.0, gpus=1):
    """A card that holds an 8B model and next to no cache."""
    node = Node(device="rtx-4090", gpus_per_node=gpus, host=host, tiers=[DISK] if host else [])
    overrides = {"rtx-4090": {"memory_gb": memory_gb}}
    return resolve(Cluster(name="cramped", nodes=[node], device_overrides=overrides))


def made_for(cluster, isl=128, osl=512):
    loads = {"isl": isl, "osl": osl, "rate": None, "ttft_ms": None, "tpot_ms": None, "percentile": None}
    asked = read(cluster, "llama-3.1-8b", None, "chat", loads, {})
    return block(asked, cluster.classes[0], asked.workload.buckets[0], Limits())


def test_prompts_and_tokens_take_what_the_rate_says():
    problem, whole = made_for(cramped())
    prompt_s, token_s = phase_seconds(problem, whole)

    assert whole.point.tokens / (prompt_s + 511 * token_s) == pytest.approx(whole.tokens_per_s)


def test_without_a_host_or_room_there_is_no_block():
    assert made_for(cramped(host=None)) is None
    assert made_for(cramped(memory_gb=1.0)) is None


def test_a_block_that_was_broken_off_ends_the_explanations(monkeypatch):
    rounded = blocks.rounded
    monkeypatch.setattr(blocks, "rounded", lambda *given: replace(rounded(*given), status="interrupted"))

    with pytest.raises(KeyboardInterrupt):
        made_for(cramped())


def shown(cluster, **asked):
    made = plan(cluster, "llama-3.1-8b", isl=128, osl=512, **{"loop": "closed"} | asked)
    return made, [a for a in made.alternatives if a.what == WHAT]


def test_patience_and_a_cramped_card_show_blocks_that_are_faster():
    made, [found] = shown(cramped(memory_gb=18.5), ttft_ms="none", tpot_ms="none")

    assert found.objective > made.predicted.rps.value
    assert found.loss == 0
    assert "no stock engine" in found.why
    assert re.search(r"weights .* (gpu|host).*cache .* host.*TTFT [\d,.]+ s, TPOT [\d,]+ ms$", found.why)


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [
        (cramped(), {}),  # the default limits on latency are met
        (cramped(), {"ttft_ms": 5000, "tpot_ms": 100}),
        (cramped(), {"ttft_ms": "none", "tpot_ms": "none", "rate": 0.01, "loop": None}),
        (cramped(host=None), {"ttft_ms": "none", "tpot_ms": "none"}),
        (cramped(memory_gb=48.0), {"ttft_ms": "none", "tpot_ms": "none"}),  # all fits the card
    ],
)
def test_else_no_blocks_are_shown(cluster, asked):
    assert shown(cluster, **asked)[1] == []


def test_a_share_of_the_weights_on_the_cpu_is_shown_where_it_gains():
    """A slow link beside a quick host: the CPU takes some of what would have to be copied."""
    slow = Host(memory_gb=64, gb_per_s=300, tflops=10, pcie_gb_per_s=4)
    made, [plain] = shown(cramped(slow, memory_gb=12.0), ttft_ms="none", tpot_ms="none")
    beside = [a for a in made.alternatives if a.what == ON_CPU]

    assert len(beside) == 1
    assert beside[0].objective >= 1.02 * plain.objective
    assert re.search(r"weights .*\d+% cpu", beside[0].why)
    roomy, _ = shown(cramped(memory_gb=48.0), ttft_ms="none", tpot_ms="none")
    assert all(a.what != ON_CPU for a in roomy.alternatives)
