"""Plans that keep prefill and decode together although a split is predicted to be better."""

import pytest

from planner import plan
from planner.check import check
from planner.reports.proven import phases

PCIE = "name: box\nnodes: [{device: l40s, nic: roce}]\n"
"""GPUs that do not read each other's memory, so that caches go over NICs; a split is told to be better."""

ASKED = {"model": "qwen3-14b", "engine": "trtllm"}


def roles(made):
    return {r.role for r in made.replicas}


def codes(made, **proof):
    """What `check` says of a plan with another proof line."""
    other = made.model_copy(update={"proof": made.proof.model_copy(update=proof)})
    return {v.code for v in check(other)}


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    path = tmp_path_factory.mktemp("box") / "cluster.yaml"
    path.write_text(PCIE)
    return path


@pytest.fixture(scope="module")
def bold(box):
    return plan(box, simple=0.0, **ASKED)


@pytest.fixture(scope="module")
def safe(box):
    return plan(box, **ASKED)


def test_over_tcp_a_split_is_worse_even_where_the_best_itself_is_asked_for():
    """Of 8 L40S half send 0.37 GB/s each: 1.48, of which a prompt of 4,000 tokens takes 0.66 GB."""
    made = plan(None, gpus="8xL40S", simple=0.0, **ASKED)

    assert roles(made) == {"mixed"}
    (split,) = [line for line in made.alternatives if line.what == "prefill/decode split"]
    assert split.objective < made.proof.objective


def test_without_peer_to_peer_nothing_is_split_unless_the_best_itself_is_asked_for(bold, safe):
    assert roles(bold) == {"prefill", "decode"}
    assert roles(safe) == {"mixed"}
    assert bold.proof.unsplit is None
    assert "unsplit" not in bold.proof.model_dump()


def test_the_proof_speaks_of_the_split_and_the_alternatives_show_it(bold, safe):
    proof = safe.proof

    assert proof.objective == pytest.approx(bold.proof.objective, rel=0.02)
    assert proof.own <= proof.unsplit < proof.objective
    assert any("not sure to pay" in line.why and line.objective > proof.own for line in safe.alternatives)
    assert check(safe) == []


def test_what_is_given_up_for_fewer_kinds_is_of_the_best_without_a_split(safe):
    assert "given_up_over" in codes(safe, unsplit=None)
    assert "given_up_wrong" in codes(safe, unsplit=2 * safe.proof.objective)


def test_a_plan_with_a_split_gives_none_up(bold):
    assert "given_up_wrong" in codes(bold, unsplit=bold.proof.objective)


def test_with_peer_to_peer_a_split_that_gains_much_is_not_given_up(safe):
    """The same plan where GPUs read each other's memory: a gain above a tenth would be a reason to split."""
    document = safe.model_dump(mode="json", by_alias=True)
    for node in document["problem"]["cluster"]["nodes"]:
        node["peer_to_peer"] = True
    fast = type(safe).model_validate(document)

    assert safe.proof.objective > 1.1 * safe.proof.unsplit
    assert "given_up_over" in {v.code for v in check(fast)}


def test_what_a_split_costs_in_first_tokens_stands_beside_its_gain(bold, safe):
    (line,) = [line for line in safe.alternatives if line.what == "prefill/decode split"]

    ours, theirs = (made.predicted.ttft_ms.value for made in (safe, bold))
    assert line.ttft_times == pytest.approx(theirs / ours, rel=0.05)
    assert f"first tokens after {theirs:,.3g} ms, the plan's after {ours:,.3g}" in line.why
    assert f"its mean TTFT {line.ttft_times:.2g} times as long" in str(phases(safe))


def test_gaps_between_tokens_that_mean_tpot_hides_stand_beside_a_split(bold, safe):
    """Servers of both phases stall their tokens while they compute a prompt's chunk; a decode step is all
    there is between tokens of the others."""
    (line,) = [line for line in safe.alternatives if line.what == "prefill/decode split"]
    theirs, ours = line.gaps_ms
    decoding = [1e3 * r.step.decode_s for r in bold.replicas if r.role == "decode"]

    assert ours > 1.5 * max(1e3 * r.step.decode_s for r in safe.replicas)
    assert theirs == pytest.approx(max(decoding), rel=0.02)
    assert f"{theirs:,.3g} ms between tokens where prompts come, the plan {ours:,.3g}" in line.why
    document = safe.model_dump(mode="json", by_alias=True)
    at = [a["what"] for a in document["alternatives"]].index(line.what)
    document["alternatives"][at]["gaps_ms"] = [theirs, 1.0]
    assert {v.code for v in check(type(safe).model_validate(document))} == {"gap_wrong"}
