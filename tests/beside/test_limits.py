"""What holds a replica group: one limit after the other reached, and never a word where none is."""

from dataclasses import replace

import numpy as np
import pytest

from planner.beside.limits import binding, limit
from planner.candidates.largest import MOST_SEQUENCES
from planner.candidates.setup import BUSIEST as CEILING
from planner.plans.found import groups
from tests.beside.solved import solved

NONE = np.full(1, 1e-6)
FIRST = {"ttft_s": NONE, "cautious_ttft_s": NONE}
IDLE = FIRST | {"rate": NONE, "tpot_s": NONE, "sequences": 1.0, "utilisation": 0.1, "busy": 0.1}
CHAT = {"ttft_ms": 2000, "tpot_ms": 50}


def group(role, risk_z=0.0, **operation):
    """A group of a solved fleet at a load where nothing holds it but what `operation` says."""
    keep = {} if role != "mixed" else {"gpus": "1xH100", "model": "llama-3.1-8b"}
    made = groups(solved(**keep, **CHAT)[2])
    g = next(g for g in made if g.candidate.role == role)
    setup = replace(g.setup, risk_z=risk_z)
    return replace(g, operation=replace(g.operation, **(IDLE | operation)), setup=setup)


def named(g, first_s=None):
    found = limit(g, first_s)
    return found and found[0]


@pytest.mark.parametrize("role", ["mixed", "prefill", "decode"])
def test_nothing_holds_a_group_that_is_at_no_limit(role):
    assert limit(group(role)) is None


@pytest.mark.parametrize(
    ("role", "operation", "name"),
    [
        ("mixed", {"tpot_s": np.array([0.0495])}, "the TPOT limit"),
        ("decode", {"tpot_s": np.array([0.0495])}, "the TPOT limit"),
        ("prefill", {"tpot_s": np.array([0.0495])}, None),
        ("mixed", {"cautious_ttft_s": np.array([1.99])}, "the TTFT limit"),
        ("prefill", {"cautious_ttft_s": np.array([1.99])}, "the TTFT limit"),
        ("prefill", {"ttft_s": np.array([1.99])}, None),
        ("decode", {"cautious_ttft_s": np.array([1.99])}, None),
        ("mixed", {"utilisation": 0.99, "busy": 0.4}, "KV room"),
        ("decode", {"utilisation": 0.99, "busy": 0.4}, "KV room"),
        ("mixed", {"utilisation": 0.99, "busy": 0.99}, "its time"),
        ("prefill", {"busy": CEILING}, f"the ceiling of {100 * CEILING:.0f} % of its time"),
        ("mixed", {"sequences": float(MOST_SEQUENCES)}, f"the cap of {MOST_SEQUENCES:,} sequences"),
    ],
)
def test_each_limit_is_named_where_it_is_reached(role, operation, name):
    assert named(group(role, **operation)) == name


def test_the_tokens_of_a_step_are_a_limit():
    g = group("mixed", tpot_s=np.array([0.02]))
    budget, each = g.setup.token_budget, 1024 + 256 - 1
    full = replace(g, operation=replace(g.operation, rate=np.array([budget / each / 0.02])))

    assert named(full) == f"the {budget:,} tokens of a step"
    assert limit(g) is None


def test_a_ceiling_is_never_told_as_a_batch():
    g = group("prefill", utilisation=CEILING, busy=CEILING, sequences=1e6)

    assert "batch" not in named(g)


def test_a_batch_is_named_where_nothing_else_holds():
    g = group("mixed")
    full = replace(g, operation=replace(g.operation, sequences=float(g.candidate.batch)))
    slow = replace(full, operation=replace(full.operation, tpot_s=np.array([0.0495])))

    assert named(full) == f"its batch of {g.candidate.batch:,}"
    assert named(slow) == "the TPOT limit"


def test_limits_are_those_of_the_cautious_prediction():
    bold, cautious = (group("mixed", z, tpot_s=np.array([0.045])) for z in (0.0, 1.28))

    assert limit(bold) is None
    assert named(cautious) == "the TPOT limit"


def test_a_pair_is_late_by_its_transfer_and_decode_step_too():
    g = group("prefill", cautious_ttft_s=np.array([1.0]))

    assert limit(g) is None
    assert named(g, 1.99) == "the TTFT limit"


def test_of_a_fleet_the_group_at_its_limit_is_named():
    found = solved(**CHAT)[2]
    p, d = (next(g for g in groups(found) if g.candidate.role == role) for role in ("prefill", "decode"))
    calm = [replace(g, operation=replace(g.operation, **IDLE)) for g in (p, d)]
    slow = replace(calm[1], operation=replace(calm[1].operation, tpot_s=np.array([0.0495])))

    assert binding(found, calm) is None
    assert binding(found, [calm[0], slow]) == f"its decode {d.candidate.label} is held by the TPOT limit"


def test_nics_that_are_full_hold_a_fleet():
    found = solved("16xH100", "llama-3.1-70b", isl=8000, osl=300)[2]
    made = groups(found)
    assert any(g.candidate.role == "prefill" for g in made)
    thin = replace(
        found.cluster, classes=tuple(replace(n, nic_bytes_per_s=1e6) for n in found.cluster.classes)
    )

    assert "the NICs" in binding(replace(found, cluster=thin), made)
