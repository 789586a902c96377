"""Chunks of long prompts, chosen by design."""

from dataclasses import replace

import numpy as np
import pytest

from planner import plan
from planner.candidates.ask import CHUNKS
from planner.candidates.candidate import Key
from planner.candidates.setup import Made
from planner.check import check
from planner.operating.room import counted
from planner.question.asked import read
from planner.question.posed import ask_of
from planner.replicas.alike import ROLES, setup
from planner.variants.chunks import chunked, first_token_s


def posed(isl: int, engine: str = "vllm"):
    asked = read(None, "llama-3.1-8b", "8xh100", "chat", {"isl": isl, "osl": 200}, {"engine": engine}, False)
    ask = ask_of(asked)
    node = asked.cluster.classes[0]
    s = setup(node, engine, ask, one_more=False)
    return ask, s, Made.of(Key(node.id, engine), s, node, ROLES)


def offered(made, ask):
    """Chunk, setup, designs and roles of all that is offered."""
    return [(m.key.chunk, m.setup, *part) for m in chunked(made, ask) for part in m.parts]


def test_each_design_has_the_chunks_that_are_out_first_and_each_role_is_offered_once():
    ask, s, one = posed(100_000)
    every = offered(one, ask)
    sizes = ("tp", "pp", "cp")
    by_role = {role: [] for role in ROLES}

    for chunk, own, fits, roles in every:
        assert own.token_budget == (chunk or s.token_budget)
        for i in fits.tolist():
            design = tuple(int(getattr(own.designs, name)[i]) for name in sizes)
            for role in roles:
                by_role[role].append(design)
            if "mixed" in roles:
                took = first_token_s(own, np.array([i]))[0]
                home = next(
                    k
                    for k in range(len(s.designs))
                    if tuple(int(getattr(s.designs, name)[k]) for name in sizes) == design
                )
                assert took <= first_token_s(s, np.array([home]))[0]
    assert len({chunk for chunk, *_ in every}) > 1
    for found in by_role.values():
        assert len(found) == len(set(found)) == int((s.memory.kv_bytes > 0).sum())


@pytest.mark.parametrize(("isl", "engine"), [(1000, "vllm"), (100_000, "llama.cpp")])
def test_short_prompts_and_engines_without_the_option_keep_their_own(isl, engine):
    ask, _, one = posed(isl, engine)

    assert list(chunked(one, ask)) == [one]


def test_larger_chunks_leave_less_room():
    ask, s, one = posed(100_000)
    for chunk, own, _, roles in offered(one, ask):
        if chunk > s.token_budget and "mixed" in roles:
            alike = replace(s, designs=own.designs)
            default = counted(s.model, alike.designs, s.token_budget, s.mix.context)
            assert (own.memory.kv_bytes <= default.kv_bytes).all()


def test_plans_of_long_prompts_say_the_option_and_pass_their_check():
    made = plan(None, "llama-3.1-70b", gpus="8xh100", isl=100_000, osl=500, engine="vllm", explain=False)

    told = {r.max_batched_tokens for r in made.replicas} - {None}
    assert told <= set(CHUNKS)
    assert told
    assert not check(made)


def test_plans_of_short_prompts_tell_nothing():
    made = plan(None, "llama-3.1-8b", gpus="2xh100", explain=False)

    assert all(r.max_batched_tokens is None for r in made.replicas)
