"""Lines beside a plan for long prompts, drafts, chains, other engines: what each asks, and when none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.beside import chains as chained
from planner.beside import contexts, long_prompts, other_engines, speculation
from planner.beside.lone_prompts import Lone, chunks, line, quickest
from planner.beside.planned import Planned
from planner.candidates.ask import LONG
from planner.candidates.points import alone
from solvers.linear import Limits
from tests.beside.solved import solved
from tests.candidates.samples import CHAT, ask, one_setup


def planned(gpus="2xH100", **asked):
    """A small plan, its question and its limits."""
    return Planned(*solved(gpus, "llama-3.1-8b", **asked), Limits(work=200))


SHORT = planned(tpot_ms=50)


def test_the_quickest_design_that_holds_the_prompt_is_shown():
    s = one_setup(ask(workload=CHAT))
    every = np.arange(len(s.designs))
    seconds, tokens = alone(s, every)
    (lone,) = quickest(s, every, "here")

    assert lone.seconds == seconds.min()
    assert lone.kv_tokens == tokens[seconds.argmin()]
    assert lone.engine == "vllm"
    assert chunks(s) == f"chunks of {s.token_budget:,}"
    assert chunks(s) in lone.words


def test_its_text_is_read_first():
    s = one_setup(ask(workload=CHAT))
    every, tuning = np.arange(len(s.designs)), s.model.tuning
    read = tuning.text_token_s * s.mix.isl.max()
    slow = one_setup(ask(workload=CHAT)).model
    slow.tuning = replace(tuning, text_token_s=2 * tuning.text_token_s)

    assert alone(s, every, slow)[0] - alone(s, every)[0] == pytest.approx(read)


def test_designs_without_room_for_it_are_left_out():
    s = one_setup(ask(workload=CHAT))
    every = np.arange(len(s.designs))
    best = int(alone(s, every)[0].argmin())
    room = np.where(every == best, 1e-3, s.memory.kv_bytes)
    (second,) = quickest(replace(s, memory=replace(s.memory, kv_bytes=room)), every, "here")

    assert second.seconds == np.delete(alone(s, every)[0], best).min()
    none = replace(s, memory=replace(s.memory, kv_bytes=np.zeros(len(every))))
    assert quickest(none, every, "here") == []
    assert quickest(s, every[:0], "here") == []


def test_a_line_has_milliseconds_and_who_starts_it():
    row = line("the plan", Lone(1.5, 1e6, "tp8", "vllm"), None, "why")

    assert (row.what, row.ttft_ms, row.kv_tokens) == ("the plan: tp8", 1500.0, 1e6)
    assert (row.started_by, row.why) == (None, "why")


def test_short_prompts_have_no_lines_of_long_ones():
    assert list(long_prompts.long_prompts(SHORT)) == []
    assert contexts.other_contexts(SHORT) == []


def test_long_prompts_are_shown_the_plans_way_first_and_none_that_is_not_sooner():
    long = planned("4xH100", isl=LONG, osl=100, ttft_ms=60_000)
    rows = list(long_prompts.long_prompts(long))
    started = [row for row in rows if row.started_by]
    names = [row.what.split(":")[0] for row in rows]

    assert names[:3] == ["the plan", "pipeline or tensor parallel", "context parallel, a ring"]
    assert started[1].ttft_ms <= started[0].ttft_ms
    soonest = min(row.ttft_ms for row in started[:3])
    assert all(row.ttft_ms < soonest for row in rows if row.what.startswith(("Ulysses", "unlike")))
    assert " cp" in started[2].what
    assert " cp" not in started[1].what


@pytest.mark.parametrize("gpus", ["4xH100"])
def test_beside_a_plan_stands_what_dividing_prompts_gives_or_gives_up(gpus):
    (other,) = contexts.other_contexts(planned(gpus, isl=LONG, osl=100, ttft_ms=60_000))

    assert other.what in ("context parallelism", "no context parallelism")
    assert other.loss is None or other.loss >= 0


def test_where_no_drafts_were_asked_for_there_is_no_line():
    assert speculation.speculation(SHORT) == []


def test_with_drafts_the_plan_is_told_beside_its_contrary():
    own = planned("2xH100", tpot_ms=50, speculation="ngram", acceptance=0.7)
    (other,) = speculation.speculation(own)
    drafting = any(g.candidate.draft for g in own.made)

    assert other.what == (speculation.WITHOUT if drafting else speculation.WITH)
    assert other.objective is not None
    assert other.objective <= own.fleet.objective * (1 + 0.02)


def test_chains_are_looked_for_where_links_join_places_alone():
    assert list(chained.chains(SHORT)) == []


def test_other_engines_are_asked_where_weights_lie_in_host_memory_alone():
    assert list(other_engines.other_engines(SHORT)) == []
