"""Caps on the space of designs: each named only where it is in force, and said to bind only where it does."""

from types import SimpleNamespace as Some

import numpy as np
import pytest

from planner.candidates.candidate import Key
from planner.candidates.setup import Made
from planner.inputs.options import Options, Survive
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import COST, ENERGY, LATENCY
from planner.plans import space
from planner.plans.schema import OUT_OF_TIME
from planner.plans.space import space_of, words
from planner.replicas.pool import Pool

CHAT = Workload(buckets=[Bucket(isl=1000, osl=200)])
KEY = Key("n", "vllm")
GPUS, USUAL, SEQUENCES = "GPUs of a replica", "designs of usual sizes", "sequences of a server"
BUSY = "utilisation of servers that only prefill"


def designs(kept: int, key: Key = KEY, left_out: int = 0, considered: int | None = None) -> Made:
    """A setup of so many designs; on several classes where the key names them by none."""
    setup = Some(designs=range(kept), left_out=left_out)
    return Made(key, setup, Some(id=key.where) if key.where else None, (), considered or kept)


def candidate(role: str = "mixed", batch: float = 8.0, busy: float = 0.5, attn_dp: int = 1):
    return Some(id=f"{role} {batch}", role=role, batch=batch, busy=busy, design=Some(attn_dp=attn_dp))


def asked(workload: Workload = CHAT, offload: bool = False, **options):
    return Some(workload=workload, offload=offload, options=Options(**options))


def node(name: str, gpus: int, most_watts: float = 700.0):
    return Some(id=name, gpus=gpus, gpu_most_watts=most_watts, device=Some(tdp_watts=700.0))


def found(*candidates, made=None, gpus: int = 8, survive=None, objective=COST, **pool):
    made = [designs(3)] if made is None else made
    return Some(
        objective=objective,
        pool=Pool(candidates or (candidate(),), {m.key: m for m in made}, **pool),
        cluster=Some(classes=[node("small", 1), node("n", gpus)]),
        space=Some(columns=dict.fromkeys("abc"), survive=survive),
        apart=False,
    )


def caps(question, fleet) -> dict[str, tuple[float, bool]]:
    """Value of each cap, and whether it binds, by what it is called before a bracket or comma."""
    return {
        cap.what.split(" (")[0].split(",")[0]: (cap.value, cap.binds)
        for cap in space_of(question, fleet).caps
    }


def test_a_small_space_is_whole_and_counts_what_it_looked_at():
    told = space_of(asked(), found(columns=40))

    assert (told.considered, told.kept, told.complete) == (3 + 40, 3, True)
    assert [cap.what.split(" (")[0] for cap in told.caps] == [GPUS, USUAL, SEQUENCES]


@pytest.mark.parametrize(("limit", "named"), [(50.0, True), (None, False)])
def test_routes_that_keep_a_limit_by_themselves_are_named_where_others_were_not_looked_at(limit, named):
    load = CHAT.model_copy(update={"slo": Slo(ttft_ms=None, tpot_ms=limit)})
    fleet = found()
    fleet.apart = True

    assert any(cap.what == space.ROUTES for cap in space_of(asked(load), fleet).caps) == named
    assert all(cap.what != space.ROUTES for cap in space_of(asked(load), found()).caps)


def test_what_there_was_no_time_for_is_named_by_class():
    unseen = (("l4", "sglang"), ("l4", "trtllm"), ("h20", "vllm"))
    told = space_of(asked(), found(late=True, columns=9, unseen=unseen))

    assert told.late
    assert told.caps[0].what == f"{OUT_OF_TIME} (none of sglang, trtllm on l4; vllm on h20)"
    assert not space_of(asked(), found()).late


@pytest.mark.parametrize(
    ("question", "fleet", "what", "value", "binds"),
    [
        (asked(), found(gpus=space.MOST_GPUS), GPUS, space.MOST_GPUS, False),
        (asked(), found(gpus=space.MOST_GPUS + 1), GPUS, space.MOST_GPUS, True),
        (
            asked(),
            found(late=True, columns=9),
            "operating points looked at before the time was over",
            9,
            True,
        ),
        (asked(), found(candidate(batch=16_384.0)), SEQUENCES, 16_384, True),
        (asked(), found(candidate(batch=16_300.0)), SEQUENCES, 16_384, False),
        (
            asked(),
            found(candidate(batch=16_384.0, attn_dp=2)),
            SEQUENCES,
            16_384,
            False,
        ),  # 8,192 of each copy
        (asked(), found(candidate("prefill", busy=0.9)), BUSY, 0.98, False),
        (asked(), found(candidate("prefill", busy=0.98)), BUSY, 0.98, True),
        (asked(max_utilisation=0.9), found(candidate("prefill", busy=0.9)), BUSY, 0.9, True),
        (
            asked(CHAT.model_copy(update={"buckets": [Bucket(isl=9, osl=1)]})),
            found(candidate(busy=0.98)),  # servers of prompts alone are mixed where no answer has a step
            BUSY,
            0.98,
            True,
        ),
    ],
)
def test_a_cap_binds_where_a_looser_one_may_change_the_answer(question, fleet, what, value, binds):
    assert caps(question, fleet)[what] == (value, binds)
    assert space_of(question, fleet).complete is not binds


def test_servers_that_also_decode_have_no_cap_on_utilisation():
    assert BUSY not in caps(asked(), found(candidate("decode", busy=1.0)))


def test_unusual_sizes_that_were_left_out_are_counted():
    made = [
        designs(5, left_out=2),
        designs(4, Key("m", "vllm"), left_out=1),
        designs(7, Key("", "vllm", "unlike stages"), left_out=50),  # of no one class
        designs(6, Key("n", "vllm", level=1), left_out=2),  # the first once more, with cache kept
    ]
    (cap,) = [c for c in space_of(asked(), found(made=made)).caps if c.what.startswith(USUAL)]

    assert (cap.value, cap.considered, cap.left_out, cap.binds) == (9, 12, 3, True)


@pytest.mark.parametrize(("ranked", "left"), [(space.SHORTLIST, 0), (space.SHORTLIST + 7, 7)])
def test_of_pipelines_over_several_classes_those_beyond_the_shortlist_are_left_out(ranked, left):
    """Each engine has a shortlist of its own; of the second all are tried."""
    made = [
        designs(3),
        designs(1, Key("", "vllm", "unlike stages"), considered=ranked),
        designs(1, Key("", "sglang", "unlike stages"), considered=2),
    ]
    fleet = found(made=made)
    (cap,) = [c for c in space_of(asked(), fleet).caps if c.what.startswith("pipelines")]

    assert (cap.value, cap.considered, cap.left_out) == (space.SHORTLIST + 2, ranked + 2, left)
    assert cap.binds is (left > 0)
    some = f"the {space.SHORTLIST + 2} most promising of" if left else "all"
    assert f"stages on several classes {some} {ranked + 2:,} pipelines" in words(asked(), fleet)


def test_levels_of_kept_cache_bind_and_are_said():
    fleet = found(made=[designs(3), designs(3, Key("n", "vllm", level=2))])

    assert caps(asked(), fleet)["levels of keeping idle KV cache"] == (2, True)
    assert "at up to 2 levels of keeping it" in words(asked(), fleet)
    assert "idle" not in words(asked(), found())


def drafting(of: int):
    return found(made=[designs(10), *(designs(of, Key("n", "vllm", draft=d)) for d in ("mtp", "x"))])


def test_designs_that_do_not_draft_are_left_out_of_those_that_could():
    """Of 10 usual designs 6 draft, in each of two ways."""
    fleet = drafting(6)
    told = {cap.what.split(" (")[0]: cap for cap in space_of(asked(), fleet).caps}

    assert (told["ways to draft"].value, told["ways to draft"].binds) == (2, True)
    cap = told["designs that draft"]
    assert (cap.value, cap.considered, cap.left_out, cap.binds) == (6, 10, 4, True)
    assert "without drafts and with (mtp, x)" in words(asked(), fleet)


def test_drafts_of_a_given_length_are_all_there_are():
    told = caps(asked(draft_tokens=3), drafting(10))

    assert told["ways to draft"] == (2, False)
    assert told["designs that draft"] == (10, False)


@pytest.mark.parametrize(("fewer", "there"), [(1, False), (0, True)])
def test_chunks_of_long_prompts_are_a_few_sizes(fewer, there):
    long = CHAT.model_copy(update={"buckets": [*CHAT.buckets, Bucket(isl=space.LONG - fewer, osl=9)]})

    assert ("sizes of a long prompt's chunks" in caps(asked(long), found())) is there
    assert "sizes of a long prompt's chunks" not in caps(asked(long, offload=True), found(made=[]))


@pytest.mark.parametrize(
    ("objective", "buckets", "there"), [(LATENCY, 2, True), (LATENCY, 1, False), (ENERGY, 2, False)]
)
def test_latency_of_several_buckets_is_proven_under_their_own_mix(objective, buckets, there):
    several = CHAT.model_copy(update={"buckets": CHAT.buckets * buckets})
    said = [cap for cap in caps(asked(several), found(objective=objective)) if "waiting" in cap]

    assert bool(said) is there


@pytest.mark.parametrize("more", [0, 1])
def test_many_buckets_are_looked_at_almost_alone(more):
    many = CHAT.model_copy(update={"buckets": CHAT.buckets * (space.FEW + more)})

    assert ("buckets whose servers are looked at almost alone" in caps(asked(many), found())) is bool(more)


@pytest.mark.parametrize(
    ("ways", "apart", "told"),
    [
        (space.fleet_survive.LOSSES, False, False),
        (space.fleet_survive.LOSSES + 1, False, True),
        (space.fleet_survive.LOSSES + 1, True, None),  # each class by itself: there are no ways to list
    ],
)
def test_losses_that_the_bound_does_not_look_at_are_a_cap(monkeypatch, ways, apart, told):
    monkeypatch.setattr(space.fleet_nodes, "apart", lambda problem: apart)
    monkeypatch.setattr(space.fleet_survive, "ways", lambda problem: range(ways))
    own = caps(asked(), found(survive=Survive()))
    what = "losses of nodes of several classes that the bound looks at"

    assert own.get(what) == (None if told is None else (space.fleet_survive.LOSSES, told))


@pytest.mark.parametrize(
    ("survive", "said"),
    [
        (Survive(), "serves 100 % of the rate after the loss of any node"),
        (Survive(nodes=2, share=0.755), "serves 75.5 % of the rate after the loss of any 2 nodes"),
    ],
)
def test_what_a_fleet_survives_is_part_of_what_the_bound_speaks_of(survive, said):
    assert said in words(asked(survive=survive), found())
    assert "after the loss" not in words(asked(), found())


@pytest.mark.parametrize(
    ("engine", "begins"), [("any", "all engines' tp x pp"), ("sglang", "all sglang-valid tp x pp")]
)
def test_the_engines_of_a_space_are_named(engine, begins):
    assert words(asked(engine=engine), found()).startswith(begins)


@pytest.mark.parametrize(
    ("engine", "said", "not_said"),
    [
        ("any", ("llama.cpp and SGLang", "vllm: every number of layers"), "vllm: for every"),
        ("vllm", ("vllm: every number of layers",), "fewest experts"),
        ("sglang", ("sglang: for every number of sequences",), "vllm"),
    ],
)
def test_placements_in_host_memory_are_told_by_engine(engine, said, not_said):
    fleet = found(made=[designs(3, Key("n", "llama.cpp"))])
    text = words(asked(offload=True, engine=engine), fleet)

    assert all(part in text for part in said)
    assert not_said not in text
    assert "RPC" not in text


def test_host_memory_has_one_placement_a_batch_and_no_cap_on_gpus():
    fleet = found(made=[designs(3, Key("n", "llama.cpp"))], gpus=999)
    told = caps(asked(offload=True), fleet)

    assert told["placements in host memory: the fewest bytes away for each batch"] == (1, True)
    assert not {GPUS, USUAL} & set(told)
    assert "placements" not in " ".join(caps(asked(offload=True), found(made=[])))


def test_nodes_joined_by_rpc_are_said_where_there_are_such_designs():
    fleet = found(made=[designs(3, Key("", "llama.cpp", "several hosts"))])

    assert f"up to {space.MOST_NODES} nodes with llama.cpp's RPC" in words(asked(offload=True), fleet)


@pytest.mark.parametrize(
    ("told", "stands_on", "named"), [(None, 2, True), (300.0, 2, False), (None, 0, False)]
)
def test_loads_below_the_largest_under_a_cap_that_no_step_is_timed_at_are_said_to_be_left_out(
    told, stands_on, named
):
    own, gpus = designs(3), np.array([stands_on])
    own.setup.model = Some(
        limit_watts=told, by_class=lambda _: [(Some(id="n"), gpus), (Some(id="m"), 1 - 0 * gpus)]
    )
    fleet = found(made=[own])
    fleet.cluster.classes[1] = node("n", 8, 300.0)

    assert any(cap.startswith("loads of a replica") for cap in caps(asked(), fleet)) is named
