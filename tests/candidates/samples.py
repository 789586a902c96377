"""Asks and setups that the tests of candidates share."""

from __future__ import annotations

from dataclasses import replace

from cluster_configs.reading import from_gpus
from planner.candidates.ask import Ask
from planner.candidates.mix import Promise
from planner.candidates.setup import Setup
from planner.designs.precision import precisions
from planner.engines import NAMES as ENGINES
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import named
from planner.replicas.alike import setup
from tests.cost.samples import LLAMA_8B

CHAT = Workload(buckets=[Bucket(isl=1000, osl=200)], slo=Slo(ttft_ms=2000, tpot_ms=50))
TWO = CHAT.model_copy(
    update={"buckets": [Bucket(isl=200, osl=50, share=0.7), Bucket(isl=6000, osl=400, share=0.3)]}
)


def ask(card=LLAMA_8B, workload=CHAT, objective="throughput", engines=ENGINES, **more) -> Ask:
    promise = Promise.of(workload.slo, workload.loop)
    return Ask(card, precisions(card), engines, workload, promise, named(objective), **more)


def node(gpus: str = "4xH100"):
    """The one class of a cluster."""
    return from_gpus(gpus).classes[0]


def one_setup(wanted: Ask | None = None, engine: str = "vllm", gpus: str = "4xH100") -> Setup:
    """The designs of one engine."""
    made = setup(node(gpus), engine, wanted or ask(), one_more=False)
    assert made is not None
    return made


def promising(workload: Workload, **slo) -> Ask:
    """An ask for `workload` with other limits."""
    changed = workload.model_copy(update={"slo": workload.slo.model_copy(update=slo)})
    return replace(ask(workload=changed))
