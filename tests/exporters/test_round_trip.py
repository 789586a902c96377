"""What is exported is read back by a reader that never saw the plan: the same GPUs, degrees and roles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo import catalog
from planner.errors import InputError
from planner.exporters import EXPORTERS, export
from planner.imports.plan import parts
from planner.imports.read import read_path
from planner.plans.schema import Plan
from tests.exporters.samples import gpus, made, replica

CARD = catalog.find("deepseek-v3")[0]
OF_ENGINE = {
    "vllm": ("vllm", "dynamo", "llm-d", "kserve", "ray-serve", "slurm", "compose", "k8s"),
    "sglang": ("sglang", "dynamo", "slurm", "compose", "k8s"),
    "trtllm": ("tensorrt-llm", "dynamo", "slurm", "compose", "k8s"),
    "llama.cpp": ("llama.cpp", "slurm", "compose", "k8s"),
}
TARGETS = [(engine, to) for engine, targets in OF_ENGINE.items() for to in targets]


def sizes(engine: str, tp: int, pp: int, dp: int, spread: bool) -> dict[str, int]:
    """As the engine has them: experts over all ranks of a stage, or divided."""
    if engine == "llama.cpp":
        return {"pp": min(pp * tp, 8)}
    if engine == "trtllm" and dp > 1:
        tp = 1
    ranks = tp * dp
    return {"tp": tp, "pp": pp, "attn_dp": dp, "ep": ranks if spread else 1, "moe_tp": 1 if spread else ranks}


def told(p: Plan) -> Counter[tuple[object, ...]]:
    """Replicas by role and degrees."""
    found: Counter[tuple[object, ...]] = Counter()
    for r in p.replicas:
        found[r.role, r.tp, r.pp, r.attn_dp, r.moe_tp, r.ep] += r.count
    return found


def reread(p: Plan, to: str) -> tuple[int, Counter[tuple[object, ...]], list[str]]:
    """GPUs, replicas and models of an export."""
    with TemporaryDirectory() as folder:
        for name, text in export(p, to).items():
            (Path(folder) / name).write_text(text)
        found = read_path(folder)
    got: Counter[tuple[object, ...]] = Counter()
    for part in parts(found, CARD):
        d = part.design
        got[part.role, d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep] += part.count
    return found.gpus, got, [str(g.server.facts["model"]) for g in found.groups]


@pytest.mark.parametrize(("engine", "to"), TARGETS)
@settings(max_examples=12)
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 1, 2, 4]),
    dp=st.sampled_from([1, 1, 2, 4, 8]),
    spread=st.booleans(),
    count=st.integers(1, 3),
)
def test_an_export_read_back_is_the_plan(engine, to, tp, pp, dp, spread, count):
    if to == "llm-d":
        pp = 1
    p = made(replica("r1", engine, count=count, **sizes(engine, tp, pp, dp, spread)))
    if engine == "trtllm" and to in ("compose", "k8s") and gpus(p) > 8 * count:
        with pytest.raises(InputError, match="MPI"):
            reread(p, to)
        return
    if to == "kserve" and gpus(p) > 8 * count and pp > 1 and dp > 1:
        with pytest.raises(InputError, match="pipeline"):
            reread(p, to)
        return
    found, got, models = reread(p, to)

    assert found == gpus(p)
    assert got == told(p)
    if engine != "llama.cpp":
        assert set(models) == {"deepseek-ai/DeepSeek-V3"}


@pytest.mark.parametrize(
    ("engine", "to"), [(e, to) for e in ("vllm", "sglang", "trtllm") for to in OF_ENGINE[e]]
)
@settings(max_examples=8)
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    first=st.sampled_from([1, 2]),
    second=st.sampled_from([1, 2, 8]),
    n=st.integers(1, 2),
)
def test_a_pair_read_back_has_its_roles(engine, to, tp, first, second, n):
    p = made(
        replica("p1", engine, "prefill", n, **sizes(engine, tp, 1, first, True)),
        replica("d1", engine, "decode", 1, **sizes(engine, tp, 1, second, True)),
    )
    found, got, _ = reread(p, to)

    assert found == gpus(p)
    assert got == told(p)


def test_every_target_has_a_round_trip():
    assert {to for targets in OF_ENGINE.values() for to in targets} == set(EXPORTERS)
