"""Ways to break a sound plan of chains, beside those of `mutations` that break any plan."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.check.mutations import Change, Document, Mutation, group, rescale_band, scale

CHAIN_BREAKING: list[Mutation] = []


def breaks(*codes: str) -> Any:
    """Registers a change that must be reported under one of `codes`."""

    def register(change: Change) -> Change:
        CHAIN_BREAKING.append(Mutation(change.__name__, frozenset(codes), change))
        return change

    return register


def chain(d: Document, rng: Random) -> Any:
    return rng.choice(d["chains"])


def hop(d: Document, rng: Random) -> Any:
    return rng.choice(chain(d, rng)["hops"])


def route(d: Document, rng: Random) -> Any:
    """A random route to chains."""
    return rng.choice([route for route in d["routing"] if route["chains"]])


def holder(d: Document, name: str) -> Any:
    """The group that a hop names."""
    return next(replica for replica in d["replicas"] if replica["id"] == name)


# shares and routes


@breaks("chain_shares")
def chains_that_take_not_all(d: Document, rng: Random) -> None:
    scale(chain(d, rng), "share", rng, 0.1, 0.9)


@breaks("chain_shares")
def a_chain_fewer(d: Document, rng: Random) -> bool | None:
    if len(d["chains"]) < 2:
        return False
    d["chains"].pop(rng.randrange(len(d["chains"])))
    return None


@breaks("chain_shares")
def a_chain_twice(d: Document, rng: Random) -> None:
    d["chains"].append(dict(chain(d, rng)))


@breaks("no_chains")
def routes_to_chains_that_are_not(d: Document, rng: Random) -> None:
    d["chains"] = []


@breaks("chains_unused")
def chains_that_nothing_takes(d: Document, rng: Random) -> None:
    for route in d["routing"]:
        route["chains"] = False


@breaks("route_ends")
def a_route_that_goes_nowhere(d: Document, rng: Random) -> None:
    route(d, rng)["chains"] = False


@breaks("wrong_role")
def a_route_to_one_interval(d: Document, rng: Random) -> None:
    route(d, rng).update({"chains": False, "replica": group(d, rng, "chain")["id"]})


# hops


@breaks("chain_gap", "chain_not_covered")
def a_hop_left_out(d: Document, rng: Random) -> None:
    hops = chain(d, rng)["hops"]
    hops.pop(rng.randrange(len(hops)))


@breaks("chain_gap", "chain_overlap", "chain_not_covered")
def a_boundary_moved_on_one_side(d: Document, rng: Random) -> None:
    hop(d, rng)["layers"][rng.randint(0, 1)] += rng.choice([-1, 1])


@breaks("chain_gap", "chain_overlap")
def hops_in_the_wrong_order(d: Document, rng: Random) -> None:
    chain(d, rng)["hops"].reverse()


@breaks("hop_outside")
def a_boundary_beyond_what_a_node_holds(d: Document, rng: Random) -> bool | None:
    """Both sides agree, but one of the nodes has no such layer."""
    first, second = chain(d, rng)["hops"][:2]
    held = holder(d, second["replica"])["stages"][0]["layers"][0]
    if held <= first["layers"][0] + 1:
        return False
    first["layers"][1] = second["layers"][0] = held - 1
    return None


@breaks("hop_empty")
def a_hop_of_no_layers(d: Document, rng: Random) -> None:
    hops = chain(d, rng)["hops"]
    at = rng.randrange(len(hops))
    hops.insert(at, hops[at] | {"layers": [hops[at]["layers"][0]] * 2})


@breaks("node_twice")
def a_node_passed_twice(d: Document, rng: Random) -> None:
    hops = chain(d, rng)["hops"]
    at = rng.randrange(len(hops))
    first, end = hops[at]["layers"]
    hops[at : at + 1] = [hops[at] | {"layers": [first, end - 1]}, hops[at] | {"layers": [end - 1, end]}]


@breaks("hop_elsewhere")
def a_node_that_holds_another_interval(d: Document, rng: Random) -> None:
    first, second = chain(d, rng)["hops"][:2]
    first["node"] = second["node"]


@breaks("hop_elsewhere")
def a_node_that_left(d: Document, rng: Random) -> None:
    hop(d, rng)["node"] += "0"


@breaks("unknown_replica")
def an_interval_that_is_not(d: Document, rng: Random) -> None:
    hop(d, rng)["replica"] = "c99"


@breaks("chain_not_covered")
def a_chain_without_hops(d: Document, rng: Random) -> None:
    chain(d, rng)["hops"] = []


# groups


@breaks("chain_stages", "stage_count")
def an_interval_in_two_stages(d: Document, rng: Random) -> None:
    replica = group(d, rng, "chain")
    replica["stages"].append(replica["stages"][0])
    replica["pp"] = 2


@breaks("chain_count")
def a_copy_on_some_of_the_nodes(d: Document, rng: Random) -> None:
    group(d, rng, "chain")["count"] += rng.randint(1, 2) * 16 + 1


@breaks("layers_outside")
def an_interval_beyond_the_model(d: Document, rng: Random) -> None:
    layers = group(d, rng, "chain")["stages"][0]["layers"]
    layers[0], layers[1] = rng.choice([(-1, layers[1]), (layers[0], 33)])


@breaks("layers_empty")
def an_interval_without_layers(d: Document, rng: Random) -> None:
    layers = group(d, rng, "chain")["stages"][0]["layers"]
    layers[1] = layers[0]


@breaks("wrong_engine")
def chains_on_an_engine_that_runs_whole_models(d: Document, rng: Random) -> None:
    group(d, rng, "chain")["engine"] = "vllm"


@breaks("wrong_role", "wrong_engine")
def an_interval_that_calls_itself_whole(d: Document, rng: Random) -> None:
    group(d, rng, "chain")["role"] = "mixed"


@breaks("gpus_double_booked")
def one_node_in_two_intervals(d: Document, rng: Random) -> None:
    """A second group on a node whose GPUs are all taken; no chain passes it."""
    twin = dict(group(d, rng, "chain"))
    stage = twin["stages"][0]
    size = next(n for n in d["problem"]["cluster"]["nodes"] if n["name"] == stage["node_class"])
    twin.update(id="twin", count=size["gpus_per_node"] // stage["gpus"])
    twin["stages"] = [stage | {"nodes": stage["nodes"][:1]}]
    d["replicas"].append(twin)


@breaks("weights_understated", "kv_tokens_over", "memory_over")
def more_layers_than_memory_says(d: Document, rng: Random) -> None:
    layers = group(d, rng, "chain")["stages"][0]["layers"]
    if layers[0] > 0:
        layers[0] = 0
    else:
        layers[1] = 32


# networks


@breaks("no_link")
def zones_apart(d: Document, rng: Random) -> None:
    d["problem"]["cluster"]["links"] = []


@breaks("no_link")
def a_zone_of_its_own(d: Document, rng: Random) -> bool | None:
    """The first of two classes in one zone leaves it."""
    nodes = d["problem"]["cluster"]["nodes"]
    if [node["zone"] for node in nodes].count(nodes[0]["zone"]) < 2:
        return False
    nodes[0]["zone"] = "c"
    return None


@breaks("link_over", "ttft_below_step")
def a_thin_link(d: Document, rng: Random) -> None:
    d["problem"]["cluster"]["links"][0]["gb_per_s"] *= rng.uniform(0.0001, 0.01)


@breaks("tpot_below_step", "ttft_below_step")
def a_far_link(d: Document, rng: Random) -> None:
    d["problem"]["cluster"]["links"][0]["latency_ms"] = rng.uniform(200, 500)


@breaks("nic_over")
def thin_nics(d: Document, rng: Random) -> None:
    for node in d["problem"]["cluster"]["nodes"]:
        node["nic_gb_per_s"] = rng.uniform(1e-4, 1e-3)


# nodes in time


@breaks("node_over")
def slower_decode(d: Document, rng: Random) -> None:
    scale(group(d, rng, "chain")["step"], "decode_s", rng, 60.0, 90.0)


@breaks("node_over", "ttft_below_step")
def slower_prefill(d: Document, rng: Random) -> None:
    scale(group(d, rng, "chain")["step"], "prefill_s", rng, 10.0, 20.0)


@breaks("decode_below_roofline")
def decode_faster_than_memory(d: Document, rng: Random) -> None:
    step = group(d, rng, "chain")["step"]
    scale(step, "decode_s", rng, 0.2, 0.5)
    step["engine_s"] = 0.0


@breaks("prefill_below_roofline")
def prefill_faster_than_arithmetic(d: Document, rng: Random) -> None:
    scale(group(d, rng, "chain")["step"], "prefill_s", rng, 0.05, 0.3)


@breaks("batch_over", "kv_over")
def fewer_places(d: Document, rng: Random) -> None:
    for replica in d["replicas"]:
        replica["max_batch"] = 1


@breaks("kv_over", "kv_tokens_over")
def less_cache(d: Document, rng: Random) -> None:
    for replica in d["replicas"]:
        replica["memory"][0]["kv_bytes"] *= 0.002
        replica["kv_tokens"] *= 0.002


@breaks("kv_over")
def fewer_tokens(d: Document, rng: Random) -> None:
    for replica in d["replicas"]:
        replica["kv_tokens"] *= 0.002


@breaks("ttft_below_step")
def first_tokens_before_the_prompt_is_through(d: Document, rng: Random) -> None:
    scale(chain(d, rng), "ttft_s", rng, 0.1, 0.6)


@breaks("tpot_below_step")
def tokens_faster_than_the_hops(d: Document, rng: Random) -> None:
    scale(chain(d, rng), "tpot_s", rng, 0.05, 0.4)


@breaks("batch_over", "tpot_below_step")
def tokens_much_slower(d: Document, rng: Random) -> None:
    for each in d["chains"]:
        each["tpot_s"] *= 4


@breaks("ttft_below_step", "tpot_below_step")
def better_than_its_chains(d: Document, rng: Random) -> None:
    rescale_band(d["predicted"][rng.choice(["ttft_ms", "tpot_ms"])], rng.uniform(0.2, 0.6))


@breaks("node_over", "batch_over", "kv_over")
def all_through_one_chain(d: Document, rng: Random) -> None:
    """Four times the requests, and only one way for them."""
    taken = chain(d, rng)
    for each in d["chains"]:
        each["share"] = float(each is taken)
    for name in ("rps", "out_tok_per_s", "total_tok_per_s"):
        rescale_band(d["predicted"][name], 4.0)


@breaks("rate_above_roofline", "node_over")
def more_than_any_hardware(d: Document, rng: Random) -> None:
    for name in ("rps", "out_tok_per_s", "total_tok_per_s"):
        rescale_band(d["predicted"][name], 40.0)


@breaks("cost_understated")
def nodes_that_cost_nothing(d: Document, rng: Random) -> None:
    """Every named node is paid for, also where one could take the GPUs of all."""
    for name in ("usd_per_hour", "usd_per_mtok"):
        rescale_band(d["predicted"][name], 0.8)
