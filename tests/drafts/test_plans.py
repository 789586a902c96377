"""Plans with drafted tokens: chosen where they pay, said why, and judged by the one model of a server."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner import plan
from planner.beside.plain import is_plain
from planner.candidates.points import batched
from planner.check import check
from planner.cli.app import main
from planner.cost.attention import Load
from planner.drafts.model import draft_of
from planner.errors import Infeasible
from planner.plans.operation import index_of, operate
from planner.predict.predictions import predict_rows
from planner.question.asked import read
from planner.question.posed import ask_of, pooled, pose
from planner.variants.drafts import drafted

EXAMPLES = Path(__file__).resolve().parents[2] / "cluster_configs" / "examples"
LOAD = {"isl": 1000, "osl": 201, "engine": "vllm", "work_limit": 200, "risk": 0.5}


def made(gpus="1xh100-sxm", model="mimo-7b", **asked):
    return plan(None, model, gpus=gpus, **{**LOAD, **asked})


def pool_of(gpus="8xh100-sxm", model="mimo-7b", **options):
    loads = {"isl": 1000, "osl": 201, "rate": options.pop("rate", None), "loop": options.pop("loop", None)}
    loads |= dict.fromkeys(("ttft_ms", "tpot_ms", "percentile"))
    asked = read(None, model, gpus, "chat", loads, {"engine": "vllm", "risk": 0.5, **options})
    return asked, pooled(asked)[0]


def without_seconds(plan_):
    form = plan_.model_dump(mode="json", by_alias=True)
    form["proof"].pop("seconds")
    return json.dumps(form)


def test_without_the_option_nothing_changes():
    none, off = made(explain=False), made(explain=False, speculation="off")

    assert without_seconds(none) == without_seconds(off)
    assert '"draft"' not in without_seconds(none)


def test_drafts_are_chosen_where_they_pay_and_the_plan_says_what_they_bring():
    """Near the shortest TPOT a batch is bound by the reading of weights, which four tokens share."""
    off, auto = made(tpot_ms=7), made(tpot_ms=7, speculation="auto")
    (group,), lines = auto.replicas, {a.what: a for a in auto.alternatives}
    line = next(a for what, a in lines.items() if what.startswith("no speculative decoding"))

    assert auto.proof.objective > 1.2 * off.proof.objective
    assert group.draft.kind == "mtp"
    assert group.draft.accepted == pytest.approx(sum(0.55 ** (i + 1) for i in range(group.draft.tokens)))
    assert line.objective == pytest.approx(off.proof.objective, rel=1e-3)
    assert line.status in ("proven", "within_gap")
    assert check(auto) == []


def test_drafts_that_nobody_accepts_are_not_chosen_and_the_plan_says_what_they_cost():
    off, never = made(tpot_ms=20), made(tpot_ms=20, speculation="auto", acceptance=0.01)
    line = next(a for a in never.alternatives if a.what.startswith("speculative decoding in every replica"))

    assert never.replicas[0].draft is None
    assert never.proof.objective == pytest.approx(off.proof.objective, rel=1e-9)
    assert line.loss > 0.01
    assert "mtp" in line.why


def test_more_acceptance_never_serves_less():
    found = [
        made(tpot_ms=7, speculation="mtp", acceptance=p, explain=False).proof.objective
        for p in (0.05, 0.3, 0.6, 0.9)
    ]

    assert found == sorted(found)
    assert found[-1] > found[0]


def test_every_candidate_finds_its_setup_again_and_both_servers_of_a_pair_draft_alike():
    _, pool = pool_of(speculation="auto")
    sides = {(c.role, c.pairs_as, c.draft) for c in pool.candidates if c.role != "mixed"}

    assert {c.role for c in pool.candidates if c.draft} == {"mixed", "prefill", "decode"}
    for c in pool.candidates:
        assert (draft.name if (draft := draft_of(pool.setup(c).model)) else "") == c.draft
        assert not c.draft or (c.design.pp, c.design.cp) == (1, 1)
    assert {draft for _, _, draft in sides} == {"", "mtp 1", "mtp 3"}
    assert len(sides) == len({side[:2] for side in sides})


def test_what_cannot_be_met_is_told_of_designs_that_draft_too():
    best = []
    for speculation in ("off", "mtp"):
        with pytest.raises(Infeasible) as error:
            made(tpot_ms=1, speculation=speculation, rate=1.0)
        best.append(float(re.search(r"best ([\d.]+) ms", error.value.message).group(1)))

    assert 1 < best[1] < 0.7 * best[0]


def test_a_fleet_that_drafts_is_not_the_plain_one():
    _, pool = pool_of(speculation="auto")
    simple = [c for c in pool.candidates if is_plain(replace(c, key=replace(c.key, draft="")))]

    assert any(c.draft for c in simple)
    assert not any(is_plain(c) for c in simple if c.draft)


def test_a_lone_sequence_has_its_tokens_of_a_step_in_a_step():
    """A decode server of one design with 8 sequences: the step at their mean context over what it gives."""
    _, pool = pool_of(speculation="mtp", draft_tokens=3, acceptance=0.5, loop="closed")
    s = next(made.setup for key, made in pool.made.items() if key.draft)
    index = np.array([0])
    points = batched(s, index, np.array([8.0]), "decode")
    step = s.model.step_s(s.designs.take(index), Load.of(8.0, 1000 + 201 / 2, 0.0, 0.0))[0]

    assert draft_of(s.model).accepted == 0.875
    assert points.tpot_s[0, 0] == pytest.approx(step / 1.875, rel=2e-3)
    assert points.rate[0] == pytest.approx(8 / (200 / 1.875 * step), rel=2e-3)


def test_a_decode_step_is_timed_at_the_whole_context_of_its_sequences():
    """Answers of 8,000 tokens in few steps: a mean context of 5,000 tokens, not what so few steps reach."""
    long = {"isl": 1000, "osl": 8000, "rate": 0.3, "ttft_ms": None, "tpot_ms": None, "percentile": None}
    asked = read(None, "mimo-7b", "1xh100-sxm", "chat", long, {"engine": "vllm", "speculation": "mtp"})
    _, pool, _ = pose(asked)
    c = next(c for c in pool.candidates if c.draft and c.role == "mixed")
    op = operate(s := pool.setup(c), c, {"0": 0.3}, 1)
    step = s.model.step_s(
        s.designs.take(np.array([index_of(s, c)])), Load.of(op.sequences, 5000.0, 0.0, 0.0)
    )[0]

    assert op.decode_s == pytest.approx(step, rel=0.01)


def test_predict_answers_for_a_planned_replica_what_the_plan_says():
    answer = made(rate=4.0, tpot_ms=5, speculation="mtp", draft_tokens=3, explain=False)
    (group,) = answer.replicas
    row = {
        **{"model": "mimo-7b", "device": "h100-sxm", "engine": "vllm", "isl": "1000", "osl": "201"},
        **{"tp": str(group.tp), "attn_dp": str(group.attn_dp), "rate_rps": str(4.0 / group.count)},
        **{"draft_tokens": "3", "accepted_tokens": str(group.draft.accepted)},
    }
    (predicted,) = predict_rows([row])

    assert group.draft is not None
    assert predicted.tpot_ms == pytest.approx(answer.predicted.tpot_ms.value, rel=1e-3)
    assert predicted.ttft_ms == pytest.approx(answer.predicted.ttft_ms.value, rel=1e-3)


def test_n_grams_of_sglang_draft_without_attention_dp():
    asked, _ = pool_of()
    options = asked.options.model_copy(update={"speculation": "ngram", "acceptance": 0.4, "engine": "sglang"})
    ask = ask_of(replace(asked, options=options))
    _, pool = pool_of(model="deepseek-v2-lite", engine="sglang")
    own = next(made for made in pool.made.values() if made.setup.designs.attn_dp.max() > 1)
    s = own.setup
    found = [made.setup for made in drafted(own, replace(ask, card=s.model.card)) if made.key.draft]

    assert (s.designs.attn_dp > 1).any()
    assert len(found) == len(ask.drafts) == 2
    assert all((own.designs.attn_dp == 1).all() for own in found)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--speculation", "mtp"), "has no multi-token-prediction layers"),
        (("--speculation", "ngram"), "--acceptance"),
        (("--acceptance", "0.5"), "nothing is drafted"),
        (("--speculation", "eagle", "--acceptance", "1.5"), "--acceptance"),
        (("--speculation", "eagle", "--draft-tokens", "99"), "--draft-tokens"),
        (("--speculation", "eagle", "--engine", "chains"), "chains of nodes draft nothing"),
    ],
)
def test_bad_input_says_why_and_exits_with_2(words, reason, capsys, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["meshwright", "plan", "--gpus", "1xH100", "--model", "llama-3.1-8b", *words]
    )
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert reason in " ".join(capsys.readouterr().err.split())


def test_weights_in_host_memory_draft_nothing_and_the_plan_says_so():
    answer = plan(EXAMPLES / "gh200-480gb.yaml", "llama-3.1-405b-fp8", speculation="eagle", explain=False)

    assert "drafts_unused" in [w.code for w in answer.warnings]
    assert not any(r.draft for r in answer.replicas)
