"""What a whole replica uses of itself, as candidates: by ranks, within a power cap, in roles it may have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.candidate import Key
from planner.candidates.columns import decoding, prefilling
from planner.candidates.offers import RESOURCES, Offer, Standing
from planner.candidates.pairing import Pairing
from planner.cost.transfer import Overlap
from tests.candidates.samples import TWO, ask, node, one_setup
from tests.cost.samples import KINDS

KEYS = {engine: Key("h100-sxm", engine) for engine in ("vllm", "sglang")}


def standing(at=None, engine="vllm", **more):
    return Standing(at or node(), KEYS[engine], **more)


def offer(s, at, role="mixed", within_s=None):
    """All designs of a setup in one role."""
    every = np.arange(len(s.designs))
    if role == "prefill":
        return Offer.of(prefilling(s, every, np.array([within_s])), s, at, role, None)
    ((_, columns),) = decoding(s, every, [(role, within_s or s.promise.tpot_s)])
    return Offer.of(columns, s, at, role, None)


def by_design(made):
    """Candidates by their design."""
    return {str(c.design): c for c in made}


def test_one_request_fills_half_as_much_of_two_ranks():
    """A replica of attn_dp ranks shares its requests among them."""
    s = one_setup(ask(KINDS["moe"]))
    made = offer(s, standing())
    ranks = made.designs.attn_dp
    alone = dict(decoding(s, np.arange(len(s.designs)), [("mixed", s.promise.tpot_s)]))["mixed"]

    assert set(ranks.tolist()) > {1}
    assert made.use * ranks[:, None, None] == pytest.approx(alone.use)
    assert made.least * ranks[:, None, None] == pytest.approx(alone.least)


def test_columns_above_the_power_cap_of_their_class_are_not_offered():
    s, free = one_setup(), offer(one_setup(), standing())
    gpus = s.designs.gpus[free.points.index]
    middle = float(np.median(free.watts / gpus))
    capped = replace(s.model.node_class, power_cap_watts=middle * s.model.node_class.gpus_per_node)
    s.model.__dict__["node_class"] = capped
    left = offer(s, standing(capped))

    assert 0 < len(left) < len(free)
    assert (left.watts / left.designs.gpus <= middle).all()


def test_a_power_cap_holds_those_that_stand_under_it_alone():
    s = one_setup()
    free, capped = offer(s, standing()), replace(s.model.node_class, power_cap_watts=1.0)
    under = (s.designs.gpus > 1).astype(int)
    s.model.__dict__["by_class"] = lambda d: [(s.model.node_class, d.gpus), (capped, under)]
    left = offer(s, standing())

    assert 0 < len(left) < len(free)
    assert set(left.designs.gpus) == {1}


@pytest.mark.parametrize("role", ["mixed", "decode"])
@pytest.mark.parametrize("kind", ["gqa", "moe"])
def test_a_candidate_says_of_its_column_what_it_is(role, kind):
    s = one_setup(ask(KINDS[kind], TWO))
    made = offer(s, standing(), role)
    own = made.candidates(s_counts := ask().counts)

    assert own
    assert s_counts.grows is None
    assert len({c.id for c in own}) == len(own)
    for c in own:
        d, point = c.design, [i for i in range(len(made)) if f"batch {made.points.sequences[i]:.6g}" in c.id]
        sizes = {name: getattr(made.designs, name) for name in ("tp", "pp", "attn_dp", "ep", "redundant")}
        i = next(k for k in point if all(x[k] == getattr(d, name) for name, x in sizes.items()))
        assert (c.role, c.node_class, c.engine, c.gpus) == (role, "h100-sxm", "vllm", d.tp * d.attn_dp * d.pp)
        assert c.batch == max(1, round(made.points.sequences[i] * d.attn_dp))
        assert c.watts == made.watts[i]
        assert c.tpot_s == made.points.tpot_s[i].max()
        assert set(c.use) <= set(RESOURCES)
        served = [w for w in "01" if np.isfinite(made.use[i, 0, int(w)])]
        assert c.use["busy"] == {w: made.use[i, 0, int(w)] for w in served}
        might = [w for w in "01" if np.isfinite(made.least[i, 0, int(w)])]
        assert c.least["busy"] == {w: made.least[i, 0, int(w)] for w in might}
        assert set(might) >= set(served)
        assert c.ttft_s == {w: made.points.ttft_s[i, int(w)] for w in c.least["busy"]}


@pytest.mark.parametrize("kind", ["gqa", "moe"])
def test_rows_that_time_always_exceeds_are_left_out_and_no_others(kind):
    s = one_setup(ask(KINDS[kind], TWO))
    made = offer(s, standing())
    own = {c.id: c for c in made.candidates(ask().counts)}
    seen = 0
    for i in range(len(made)):
        served = np.isfinite(made.use[i, 0])
        above = {
            n for n, row in zip(RESOURCES, made.use[i], strict=False) if (row > made.use[i, 0])[served].any()
        }
        for c in own.values():
            if c.use["busy"] == {str(w): u for w, u in enumerate(made.use[i, 0]) if served[w]}:
                assert set(c.use) == {"busy", *above}
                seen += 1

    assert seen >= len(own)


def test_a_prompts_cache_goes_over_the_nic_of_the_fullest_rank():
    """128 KiB a token of Llama-3.1-8B, of one rank all of it, of two ranks half."""
    s = one_setup()
    made = by_design(offer(s, standing(), "decode").candidates(ask().counts))
    nic, prompt = node().nic_bytes_per_s, 1000 * 131072

    assert made["tp1"].handoff_s["0"] == pytest.approx(prompt / nic)
    assert made["tp1"].copies == {"0": 1.0}
    assert by_design(offer(s, standing()).candidates(ask().counts))["tp1"].handoff_s == {"0": 0.0}


def test_sglang_sends_while_it_computes_and_vllm_does_not():
    long = TWO.model_copy(
        update={"buckets": [TWO.buckets[1].model_copy(update={"isl": 30_000, "share": 1.0})]}
    )
    hidden = {}
    for engine in ("vllm", "sglang"):
        s = one_setup(ask(workload=long), engine)
        own = offer(s, standing(engine=engine), "prefill", 9.0).candidates(ask().counts)
        hidden[engine] = {str(c.design): c.overlap for c in own}

    assert set(hidden["vllm"]["tp1"]) == set()
    chunk = hidden["sglang"]["tp1"]["0"]
    assert isinstance(chunk, Overlap)
    assert chunk.last == pytest.approx(8192 / 30_000)  # at most
    assert chunk.hidden_s > 0


def test_sides_of_a_pair_stand_at_their_edge_and_know_their_partners():
    s = one_setup()
    every = np.arange(len(s.designs))
    at = standing()
    pairing = Pairing.of(s.model.card, at.sides(s, every))
    made = offer(s, replace(at, pairing=pairing), "prefill", 1.5).candidates(ask().counts)

    assert made
    for c in made:
        assert c.late_s == 1.5
        assert "within 1500 ms" in c.id
        assert c.pairs_as == pairing.keys["prefill", c.side]
        assert 0 < c.busy <= s.busiest * (1 + 1e-9)
        assert c.ttft_s["0"] <= 1.5 * (1 + 1e-6)


def test_only_designs_with_a_partner_may_be_a_side():
    s = one_setup()
    every = np.arange(len(s.designs))
    alone = standing(pairing=Pairing())

    assert len(standing().able("prefill", s, every)) == len(every)
    assert len(alone.able("prefill", s, every)) == 0
    assert len(alone.able("mixed", s, every)) == len(every)


def test_replicas_over_nodes_stand_in_one_domain_where_it_reaches():
    s = one_setup(gpus="16xgb200")
    size, reach = s.model.node_class.gpus_per_node, s.model.node_class.scale_up_gpus
    made = offer(s, standing(s.model.node_class))

    assert reach > size
    assert (made.joined == ((made.designs.gpus > size) & (made.designs.gpus <= reach))).all()
    assert made.joined.any()


def test_where_latency_counts_columns_are_compared_by_whole_answers_at_their_whole_load_too():
    """By a first token and one more, a design of slow steps would do in place of one of quick ones."""
    wanted = ask(objective="latency")
    s = one_setup(wanted)
    osl = float(s.mix.osl[0])

    for c in offer(s, standing()).candidates(wanted.counts):
        assert c.lighter[-1] == pytest.approx([c.ttft_s["0"] + (osl - 1) * c.tpot_s], rel=1e-6)


def test_where_watts_count_columns_have_lines_that_never_lie_above_what_they_draw():
    wanted = ask(objective="energy")
    s = one_setup(wanted)
    made = offer(s, standing()).candidates(wanted.counts)

    assert made
    for c in made:
        rate = 1 / c.least["busy"]["0"]
        most = max(a + rate * b["0"] for a, b in c.tangents)
        assert most <= c.watts * (1 + 1e-6)
        assert most >= 0.9 * c.watts
