"""Levels of keeping idle cache, as setups under keys of their own."""

from __future__ import annotations

from dataclasses import replace

from planner.candidates.candidate import Key
from planner.candidates.idle_cache import levels
from planner.candidates.setup import Made
from planner.cost.idle_cache import resting_of
from planner.inputs.reuse import Reuse
from planner.variants import VARIANTS
from planner.variants.idle_cache import keeping
from tests.candidates.samples import CHAT, ask, node, one_setup

LOAD = CHAT.model_copy(update={"reuse": [Reuse(name="turns", gap_s=60, gap_cv=1.5, again=0.7)]})
RESTING = resting_of(LOAD)
ROLES = ("mixed", "prefill", "decode")


def variants(wanted, **key):
    made = Made.of(Key("h100-sxm", "vllm", **key), one_setup(wanted), node(), ROLES)
    return made, list(keeping(made, wanted))


def test_every_level_is_a_setup_of_its_own_beside_the_plain_one():
    wanted = ask(workload=LOAD, resting=RESTING)
    plain, (first, *kept) = variants(wanted)

    assert first is plain
    assert [m.key.level for m in kept] == [k.number for k in levels(RESTING, wanted.workload.shares, ["hbm"])]
    assert all(m.setup.keep.number == m.key.level for m in kept)
    assert all(m.setup.place is None for m in kept)
    assert {tuple(m.roles) for m in kept} == {("mixed", "prefill")}
    assert {m.considered for m in kept} == {0}
    assert keeping in VARIANTS


def test_a_level_computes_less_and_holds_more():
    _, (first, *kept) = variants(ask(workload=LOAD, resting=RESTING))
    new = [float(m.setup.mix.new[0]) for m in (first, *kept)]
    held = [float(m.setup.idle_byte_s[0, 0]) for m in (first, *kept)]

    assert new == sorted(new, reverse=True)
    assert new[0] == 1000 > new[-1]
    assert held == sorted(held)
    assert held[0] == 0 < held[1]


def test_nothing_is_kept_where_nothing_returns_or_another_variant_is_on():
    wanted = ask(workload=LOAD, resting=RESTING)
    made, _ = variants(wanted)

    assert len(variants(ask())[1]) == 1
    assert len(variants(wanted, chunk=2048)[1]) == 1
    assert len(variants(wanted, draft="mtp 3")[1]) == 1
    assert len(list(keeping(replace(made, node=None), wanted))) == 1
    assert len(variants(replace(wanted, offload=True))[1]) == 1
