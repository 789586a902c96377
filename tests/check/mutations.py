"""Ways to break a sound plan, each at a random place: a document in, a document with one limit broken out.

A mutation returns None where the plan has nothing of its kind. `codes`: the violations of which one must be
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Document = dict[str, Any]
Change = Callable[[Document, Random], bool | None]


@dataclass(frozen=True)
class Mutation:
    """`change` edits a document in place; False = does not apply."""

    name: str
    codes: frozenset[str]
    change: Change

    def applied(self, d: Document, seed: str) -> bool:
        """Whether the document has such a place, now broken."""
        try:
            return self.change(d, Random(f"{self.name} {seed}")) is not False
        except NotThereError:
            return False


BREAKING: list[Mutation] = []


def breaks(*codes: str) -> Callable[[Change], Change]:
    """Registers a change that must be reported under one of `codes`."""

    def register(change: Change) -> Change:
        BREAKING.append(Mutation(change.__name__, frozenset(codes), change))
        return change

    return register


class NotThereError(Exception):
    """The plan has nothing of the kind that a mutation breaks."""


def group(d: Document, rng: Random, *roles: str) -> Any:
    """A random group, of one of `roles` where given."""
    fitting = [r for r in d["replicas"] if not roles or r["role"] in roles]
    if not fitting:
        raise NotThereError
    return rng.choice(fitting)


def scale(holder: Document, key: str, rng: Random, low: float, high: float) -> None:
    holder[key] *= rng.uniform(low, high)


def rescale_band(band: Document, factor: float) -> None:
    for edge in ("value", "low", "high"):
        band[edge] *= factor


# memory


@breaks("weights_understated")
def lighter_weights(d: Document, rng: Random) -> None:
    scale(rng.choice(group(d, rng)["memory"]), "weights_bytes", rng, 0.1, 0.8)


@breaks("weights_overstated", "memory_over")
def heavier_weights(d: Document, rng: Random) -> None:
    part = rng.choice(group(d, rng)["memory"])
    scale(part, "weights_bytes", rng, 3.0, 6.0)
    part["kv_bytes"] = 0.0


@breaks("memory_over")
def cache_that_does_not_fit(d: Document, rng: Random) -> None:
    scale(rng.choice(group(d, rng)["memory"]), "kv_bytes", rng, 1.05, 3.0)


@breaks("memory_over")
def reserve_that_does_not_fit(d: Document, rng: Random) -> None:
    part = rng.choice(group(d, rng)["memory"])
    part["reserve_bytes"] += rng.uniform(0.01, 0.5) * part["capacity_bytes"]


@breaks("memory_over")
def activations_that_do_not_fit(d: Document, rng: Random) -> None:
    part = rng.choice(group(d, rng)["memory"])
    part["activation_bytes"] += rng.uniform(0.01, 0.5) * part["capacity_bytes"]


@breaks("activations_understated")
def longer_steps_than_there_is_room_for(d: Document, rng: Random) -> None:
    group(d, rng)["max_batched_tokens"] = rng.randint(10**8, 10**9)


@breaks("capacity_over")
def capacity_beyond_the_device(d: Document, rng: Random) -> None:
    scale(rng.choice(group(d, rng)["memory"]), "capacity_bytes", rng, 1.01, 2.0)


@breaks("memory_over")
def capacity_cut(d: Document, rng: Random) -> None:
    scale(rng.choice(group(d, rng)["memory"]), "capacity_bytes", rng, 0.3, 0.95)


@breaks("capacity_over")
def smaller_device(d: Document, rng: Random) -> None:
    used = {stage["device"] for r in d["replicas"] for stage in r["stages"]}
    scale(d["problem"]["devices"][rng.choice(sorted(used))], "memory_gb", rng, 0.3, 0.9)


@breaks("memory_stages")
def stage_without_memory(d: Document, rng: Random) -> None:
    memory = group(d, rng)["memory"]
    memory.pop(rng.randrange(len(memory)))


@breaks("memory_stages")
def memory_of_a_stage_that_is_not(d: Document, rng: Random) -> None:
    rng.choice(group(d, rng)["memory"])["stage"] += rng.randint(5, 9)


@breaks("kv_tokens_over")
def more_cached_tokens_than_bytes(d: Document, rng: Random) -> None:
    scale(group(d, rng), "kv_tokens", rng, 1.1, 4.0)


@breaks("kv_over", "kv_tokens_over")
def cache_too_small_for_the_load(d: Document, rng: Random) -> bool | None:
    replica = group(d, rng, "mixed", "decode")
    for part in replica["memory"]:
        part["kv_bytes"] *= 0.002
    replica["kv_tokens"] *= 0.002
    return None


@breaks("kv_over")
def fewer_cached_tokens_than_the_load(d: Document, rng: Random) -> None:
    scale(group(d, rng, "mixed", "decode"), "kv_tokens", rng, 0.0005, 0.002)


# structure


@breaks("layers_gap", "layers_overlap", "layers_not_covered")
def moved_layer_boundary(d: Document, rng: Random) -> None:
    replica = group(d, rng, "mixed", "prefill", "decode")
    rng.choice(replica["stages"])["layers"][rng.randint(0, 1)] += rng.choice([-2, -1, 1, 2])


@breaks("layers_gap", "layers_overlap")
def gap_between_stages(d: Document, rng: Random) -> bool | None:
    staged = [r for r in d["replicas"] if r["pp"] > 1]
    if not staged:
        return False
    rng.choice(staged)["stages"][1]["layers"][0] += rng.choice([-3, -1, 1, 3])
    return None


@breaks("layers_gap", "layers_overlap")
def stages_in_the_wrong_order(d: Document, rng: Random) -> bool | None:
    staged = [r for r in d["replicas"] if r["pp"] > 1]
    if not staged:
        return False
    rng.choice(staged)["stages"].reverse()
    return None


@breaks("stage_count")
def missing_stage(d: Document, rng: Random) -> bool | None:
    staged = [r for r in d["replicas"] if r["pp"] > 1]
    if not staged:
        return False
    rng.choice(staged)["stages"].pop()
    return None


@breaks("stage_count")
def deeper_pipeline_than_stages(d: Document, rng: Random) -> None:
    group(d, rng)["pp"] += rng.randint(1, 3)


@breaks("split_mismatch", "stage_gpus", "stage_tp", "heads_not_divisible")
def wrong_tensor_parallel(d: Document, rng: Random) -> None:
    group(d, rng)["tp"] *= rng.choice([2, 3, 5])


@breaks("split_mismatch", "experts_not_divisible")
def wrong_expert_parallel(d: Document, rng: Random) -> None:
    group(d, rng)["ep"] *= rng.choice([2, 3, 7])


@breaks("split_mismatch", "stage_gpus")
def wrong_attention_parallel(d: Document, rng: Random) -> None:
    group(d, rng)["attn_dp"] *= rng.choice([2, 3])


@breaks("heads_not_divisible")
def heads_cut_in_three(d: Document, rng: Random) -> None:
    replica = group(d, rng)
    for holder in (replica, *replica["stages"]):
        holder["tp"] *= 3
    replica["moe_tp"] *= 3
    for stage in replica["stages"]:
        stage["gpus"] *= 3


@breaks("stage_gpus")
def stage_with_other_gpus(d: Document, rng: Random) -> None:
    rng.choice(group(d, rng)["stages"])["gpus"] += rng.randint(1, 7)


@breaks("unknown_class")
def class_that_is_not(d: Document, rng: Random) -> None:
    rng.choice(group(d, rng)["stages"])["node_class"] = "nowhere"


@breaks("unknown_node")
def node_that_is_not(d: Document, rng: Random) -> None:
    stage = rng.choice(group(d, rng)["stages"])
    stage["nodes"][rng.randrange(len(stage["nodes"]))] = f"{stage['node_class']}-{rng.randint(100, 999)}"


@breaks("unknown_node")
def stage_on_no_node(d: Document, rng: Random) -> None:
    rng.choice(group(d, rng)["stages"])["nodes"] = []


@breaks("wrong_device")
def device_that_the_class_has_not(d: Document, rng: Random) -> None:
    rng.choice(group(d, rng)["stages"])["device"] = "h20"


@breaks("unknown_precision")
def precision_that_is_not(d: Document, rng: Random) -> None:
    group(d, rng)["precision"][rng.choice(["weights", "experts", "kv"])] = "fp7"


@breaks("precision_lowered")
def precision_nobody_asked_for(d: Document, rng: Random) -> None:
    group(d, rng)["precision"]["weights"] = "nvfp4"


@breaks("precision_lowered")
def cache_precision_nobody_asked_for(d: Document, rng: Random) -> None:
    group(d, rng)["precision"]["kv"] = "nvfp4"


@breaks("wrong_engine")
def engine_that_is_not(d: Document, rng: Random) -> None:
    group(d, rng)["engine"] = "abacus"


@breaks("wrong_engine")
def engine_nobody_asked_for(d: Document, rng: Random) -> None:
    d["problem"]["options"]["engine"] = "sglang"


@breaks("duplicate_id")
def one_id_for_two_groups(d: Document, rng: Random) -> bool | None:
    if len(d["replicas"]) < 2:
        return False
    d["replicas"][1]["id"] = d["replicas"][0]["id"]
    return None


def on_trtllm(d: Document) -> Any:
    """All groups on TensorRT-LLM; chains have an engine of their own."""
    if d["chains"]:
        raise NotThereError
    for replica in d["replicas"]:
        replica["engine"] = "trtllm"
    return d["replicas"]


@breaks("device_refused")
def engine_on_a_device_that_it_does_not_run_on(d: Document, rng: Random) -> None:
    on_trtllm(d)
    for device in d["problem"]["devices"].values():
        device["generation"] = rng.choice(["cdna3", "apple", "turing", "volta"])


@breaks("format_refused")
def weights_in_a_format_that_the_engine_lacks_there(d: Document, rng: Random) -> None:
    on_trtllm(d)
    d["problem"]["options"]["precision"] = group(d, rng)["precision"]["weights"] = "int8"


@breaks("format_refused")
def cache_in_a_format_that_the_engine_lacks_there(d: Document, rng: Random) -> None:
    d["problem"]["options"]["kv_precision"] = "nvfp4"
    for replica in on_trtllm(d):
        replica["precision"]["kv"] = "nvfp4"
    for device in d["problem"]["devices"].values():
        device["generation"] = "hopper"


@breaks("another_engine")
def a_command_of_another_engine(d: Document, rng: Random) -> None:
    replica = group(d, rng, "mixed", "prefill", "decode")
    command = "llama-server" if replica["engine"] == "vllm" else "vllm"
    replica["launch"] = {"argv": [command, "--port", "8000"], "engine_versions": "", "notes": []}


@breaks("split_refused")
def copies_of_no_experts(d: Document, rng: Random) -> None:
    dense = [r for r in d["replicas"] if r["ep"] == 1 and r["role"] != "chain"]
    if not dense:
        raise NotThereError
    rng.choice(dense)["redundant_experts"] = rng.randint(1, 8)


@breaks("split_refused", "experts_not_divisible", "expert_map")
def stages_half_spread_over_experts(d: Document, rng: Random) -> None:
    replica = group(d, rng, "mixed", "prefill", "decode")
    if replica["ep"] < 4:
        raise NotThereError
    replica["ep"], replica["moe_tp"] = replica["ep"] // 2, replica["moe_tp"] * 2


# packing


@breaks("gpus_double_booked", "no_packing")
def more_replicas_than_gpus(d: Document, rng: Random) -> None:
    replica = group(d, rng)
    replica["count"] = replica["count"] * rng.randint(17, 40) + 1


@breaks("gpus_double_booked", "no_packing")
def all_on_one_node(d: Document, rng: Random) -> None:
    for replica in d["replicas"]:
        replica["count"] *= 3
        for stage in replica["stages"]:
            stage["nodes"] = stage["nodes"][:1]


@breaks("gpus_double_booked", "no_packing", "unknown_node")
def fewer_nodes_in_the_cluster(d: Document, rng: Random) -> None:
    for node in d["problem"]["cluster"]["nodes"]:
        node["count"] = 1
    for replica in d["replicas"]:
        replica["count"] *= 4
        for stage in replica["stages"]:
            stage["nodes"] = stage["nodes"][:1]


@breaks("gpus_double_booked", "no_packing", "tp_across_domains")
def smaller_nodes(d: Document, rng: Random) -> bool | None:
    if all(node.get("gpus_per_node") == 1 for node in d["problem"]["cluster"]["nodes"]):
        return False
    for node in d["problem"]["cluster"]["nodes"]:
        node["gpus_per_node"] = 1
        node["scale_up_gpus"] = 1
    return None


@breaks("no_packing", "tp_across_domains", "gpus_double_booked")
def smaller_domains(d: Document, rng: Random) -> bool | None:
    widest = max(r["tp"] for r in d["replicas"])
    if widest == 1:
        return False
    for node in d["problem"]["cluster"]["nodes"]:
        node["scale_up_gpus"] = 1 if widest <= 4 else 4
    return None


@breaks("idle_not_told")
def idle_gpus_not_told(d: Document, rng: Random) -> bool | None:
    told = any(warning["code"] == "idle_gpus" for warning in d["warnings"])
    if not told or d["proof"]["sense"] == "min":
        return False
    d["warnings"] = []
    return None


@breaks("idle_not_told", "chain_count")
def a_replica_fewer(d: Document, rng: Random) -> bool | None:
    several = [r for r in d["replicas"] if r["count"] > 1]
    if not several or d["proof"]["sense"] == "min":
        return False
    rng.choice(several)["count"] -= 1
    return None


@breaks("idle_not_told")
def fewer_idle_gpus_than_there_are(d: Document, rng: Random) -> None:
    """Whatever the goal: 99 in a class of fewer, or none where GPUs are idle."""
    used = d["replicas"][0]["stages"][0]["node_class"]
    warning = {"code": "idle_gpus", "message": "", "class": used, "count": 99, "reason": "it is so said"}
    d["warnings"] = [warning]


# routing and transfer


@breaks("shares")
def shares_that_do_not_add_up(d: Document, rng: Random) -> None:
    scale(rng.choice(d["routing"]), "share", rng, 0.1, 0.9)


@breaks("shares")
def a_bucket_served_twice(d: Document, rng: Random) -> None:
    d["routing"].append(dict(rng.choice(d["routing"])))


@breaks("shares")
def a_bucket_nobody_serves(d: Document, rng: Random) -> None:
    bucket = rng.choice(d["routing"])["bucket"]
    d["routing"] = [route for route in d["routing"] if route["bucket"] != bucket]


@breaks("unknown_bucket")
def bucket_that_is_not(d: Document, rng: Random) -> None:
    d["routing"].append(rng.choice(d["routing"]) | {"bucket": rng.choice([-1, 9])})


@breaks("unknown_replica")
def group_that_is_not(d: Document, rng: Random) -> None:
    route = rng.choice(d["routing"])
    route["replica" if route["replica"] else rng.choice(["prefill", "decode"])] = "r99"


@breaks("wrong_role")
def role_changed(d: Document, rng: Random) -> None:
    replica = group(d, rng)
    replica["role"] = rng.choice([role for role in ("mixed", "prefill", "decode") if role != replica["role"]])


@breaks("wrong_role")
def pair_turned_round(d: Document, rng: Random) -> bool | None:
    pairs = [route for route in d["routing"] if route["prefill"]]
    if not pairs:
        return False
    route = rng.choice(pairs)
    route["prefill"], route["decode"] = route["decode"], route["prefill"]
    return None


@breaks("route_ends")
def route_to_a_group_and_to_a_pair(d: Document, rng: Random) -> None:
    route = rng.choice(d["routing"])
    if route["chains"]:
        route["replica"] = d["replicas"][0]["id"]
    elif route["replica"]:
        route["prefill"] = route["replica"]
    else:
        route["replica"] = route["prefill"]


@breaks("pair_disagrees")
def pair_of_two_engines(d: Document, rng: Random) -> bool | None:
    group(d, rng, "prefill", "decode")["engine"] = "sglang"
    return None


@breaks("pair_refused")
def pair_over_generations_of_which_the_engine_says_nothing(d: Document, rng: Random) -> None:
    group(d, rng, "prefill")
    for replica in d["replicas"]:
        replica["engine"] = "sglang"


@breaks("pair_refused")
def pair_of_unlike_attention(d: Document, rng: Random) -> None:
    stage = group(d, rng, "prefill", "decode")["stages"][0]
    d["problem"]["devices"][stage["device"]]["generation"] = rng.choice(["blackwell_dc", "turing", "cdna3"])


@breaks("role_refused")
def engine_without_such_roles(d: Document, rng: Random) -> None:
    group(d, rng, "prefill", "decode")
    for replica in d["replicas"]:
        replica["engine"] = "llama.cpp"


@breaks("kv_flow_understated")
def smaller_flow_than_the_prompts(d: Document, rng: Random) -> bool | None:
    pairs = [route for route in d["routing"] if route["prefill"]]
    if not pairs:
        return False
    rng.choice(pairs)["kv_gb_per_s"] *= rng.uniform(0.0, 0.9)
    return None


@breaks("link_over")
def slower_link(d: Document, rng: Random) -> bool | None:
    if not any(route["prefill"] for route in d["routing"]):
        return False
    d["problem"]["cluster"]["links"][0]["gb_per_s"] *= rng.uniform(0.01, 0.3)
    return None


@breaks("no_link")
def no_link_between_the_zones(d: Document, rng: Random) -> bool | None:
    if not d["problem"]["cluster"].get("links"):
        return False
    d["problem"]["cluster"]["links"] = []
    return None


@breaks("nic_over")
def slower_nics(d: Document, rng: Random) -> bool | None:
    if not any(route["prefill"] for route in d["routing"]):
        return False
    for node in d["problem"]["cluster"]["nodes"]:
        node["nic_gb_per_s"] = rng.uniform(0.01, 0.1)
    return None


# queueing and roofline


@breaks("utilisation_over", "utilisation_wrong")
def busier_than_always(d: Document, rng: Random) -> None:
    scale(group(d, rng), "utilisation", rng, 1.6, 5.0)


@breaks("utilisation_over")
def prefill_busier_than_the_rule(d: Document, rng: Random) -> None:
    d["problem"]["options"]["max_utilisation"] = group(d, rng, "prefill")["utilisation"] * rng.uniform(
        0.3, 0.99
    )


@breaks("utilisation_wrong")
def idler_on_the_whole_than_each(d: Document, rng: Random) -> None:
    rescale_band(d["predicted"]["utilisation"], rng.uniform(0.01, 0.3))


@breaks("utilisation_wrong")
def less_busy_than_the_busiest(d: Document, rng: Random) -> None:
    rescale_band(d["predicted"]["utilisation"], rng.uniform(0.9, 0.99))


@breaks("utilisation_below_roofline")
def idler_than_its_arithmetic(d: Document, rng: Random) -> None:
    scale(group(d, rng, "mixed", "prefill"), "utilisation", rng, 1e-6, 1e-3)


@breaks("batch_over")
def smaller_batch_than_the_load(d: Document, rng: Random) -> None:
    replica = group(d, rng, "mixed", "decode")
    replica["max_batch"] = max(1, int(replica["max_batch"] * rng.uniform(0.05, 0.3)))


@breaks("batch_beyond_cache", "batch_over")
def batch_beyond_what_the_cache_holds(d: Document, rng: Random) -> None:
    """A few times what is planned may have room, hundreds of times has not."""
    group(d, rng, "mixed", "decode", "prefill")["max_batch"] *= rng.choice([500, 1000, 10_000])


@breaks("batch_over", "kv_over", "tpot_below_step")
def slower_steps(d: Document, rng: Random) -> None:
    scale(group(d, rng, "mixed", "decode")["step"], "decode_s", rng, 6.0, 20.0)


@breaks("engine_over_step")
def engine_slower_than_the_step(d: Document, rng: Random) -> None:
    step = group(d, rng, "mixed", "decode")["step"]
    step["engine_s"] = step["decode_s"] * rng.uniform(1.1, 3)


@breaks("decode_below_roofline", "engine_over_step")
def decode_faster_than_memory(d: Document, rng: Random) -> None:
    scale(group(d, rng, "mixed", "decode")["step"], "decode_s", rng, 0.05, 0.4)


@breaks("prefill_below_roofline")
def prefill_faster_than_arithmetic(d: Document, rng: Random) -> None:
    scale(group(d, rng, "mixed", "prefill")["step"], "prefill_s", rng, 0.001, 0.08)


@breaks("ttft_below_step")
def first_token_before_the_prompt_is_read(d: Document, rng: Random) -> None:
    rescale_band(d["predicted"]["ttft_ms"], rng.uniform(0.05, 0.5))


@breaks("tpot_below_step")
def tokens_faster_than_steps(d: Document, rng: Random) -> None:
    rescale_band(d["predicted"]["tpot_ms"], rng.uniform(0.05, 0.5))


@breaks("slo_missed")
def later_than_promised(d: Document, rng: Random) -> None:
    name = rng.choice(["ttft_ms", "tpot_ms"])
    limit, band = d["problem"]["workload"]["slo"][name], d["predicted"][name]
    rescale_band(band, rng.uniform(1.05, 3.0) * limit / band["value"])


@breaks("slo_missed")
def tighter_promise(d: Document, rng: Random) -> None:
    name = rng.choice(["ttft_ms", "tpot_ms"])
    d["problem"]["workload"]["slo"][name] = d["predicted"][name]["value"] * rng.uniform(0.2, 0.9)


@breaks("rate_not_served")
def more_asked_than_served(d: Document, rng: Random) -> None:
    d["problem"]["workload"]["rate_rps"] = d["predicted"]["rps"]["value"] * rng.uniform(1.01, 3.0)


@breaks("batch_over", "kv_over", "rate_above_roofline")
def more_served_than_fits(d: Document, rng: Random) -> None:
    factor = rng.uniform(4.0, 9.0)
    for name in ("rps", "out_tok_per_s", "total_tok_per_s"):
        rescale_band(d["predicted"][name], factor)
    for route in d["routing"]:
        route["kv_gb_per_s"] = factor * route["kv_gb_per_s"] if route["kv_gb_per_s"] else None


# totals, budgets, proof


@breaks("totals")
def tokens_that_do_not_follow(d: Document, rng: Random) -> None:
    name = rng.choice(["out_tok_per_s", "total_tok_per_s", "usd_per_mtok", "joules_per_tok"])
    rescale_band(d["predicted"][name], rng.choice([0.5, 0.98, 1.02, 2.0]))


@breaks("totals")
def longer_answers(d: Document, rng: Random) -> None:
    rng.choice(d["problem"]["workload"]["buckets"])["osl"] += rng.randint(10, 100)


@breaks("cost_understated")
def cheaper_than_its_nodes(d: Document, rng: Random) -> None:
    factor = rng.uniform(0.1, 0.9)
    for name in ("usd_per_hour", "usd_per_mtok"):
        rescale_band(d["predicted"][name], factor)


@breaks("cost_understated")
def dearer_nodes(d: Document, rng: Random) -> None:
    for node in d["problem"]["cluster"]["nodes"]:
        node["price_usd_per_hour"] *= 3


@breaks("watts_understated")
def less_power_than_its_replicas(d: Document, rng: Random) -> None:
    factor = rng.uniform(0.1, 0.9)
    for name in ("watts", "joules_per_tok"):
        rescale_band(d["predicted"][name], factor)


@breaks("watts_understated")
def power_of_replicas_alone(d: Document, rng: Random) -> bool:
    """GPUs that stand in no replica draw nothing."""
    own = sum(r["count"] * r["watts"] for r in d["replicas"])
    factor = own / d["predicted"]["watts"]["value"]
    for name in ("watts", "joules_per_tok"):
        rescale_band(d["predicted"][name], factor)
    return factor < 0.99


@breaks("watts_over", "watts_understated")
def more_power_than_gpus_take(d: Document, rng: Random) -> None:
    scale(group(d, rng), "watts", rng, 4.0, 9.0)


@breaks("band_order")
def band_upside_down(d: Document, rng: Random) -> None:
    band = d["predicted"][rng.choice(sorted(d["predicted"]))]
    band["low"], band["high"] = band["high"], band["low"]


@breaks("band_narrow")
def figures_surer_than_the_rate_that_makes_them(d: Document, rng: Random) -> None:
    name = rng.choice(["out_tok_per_s", "total_tok_per_s", "joules_per_tok", "usd_per_mtok"])
    band, end = d["predicted"][name], rng.choice(["low", "high"])
    if band is None:
        raise NotThereError
    band[end] = band["value"]


@breaks("budget_over")
def budget_too_small(d: Document, rng: Random) -> None:
    used = {
        "usd_per_hour": d["predicted"]["usd_per_hour"]["value"],
        "watts": d["predicted"]["watts"]["value"],
        "gpus": sum(r["count"] * s["gpus"] for r in d["replicas"] for s in r["stages"]),
    }
    name = rng.choice(sorted(used))
    limit = used[name] * rng.uniform(0.2, 0.95)
    d["problem"]["options"]["budget"] = {name: max(1, int(limit)) if name == "gpus" else limit}


@breaks("power_cap_over")
def nodes_that_may_take_less(d: Document, rng: Random) -> None:
    for node in d["problem"]["cluster"]["nodes"]:
        node["power_cap_watts"] = rng.uniform(50, 200)


@breaks("feed_over")
def a_rack_that_holds_less(d: Document, rng: Random) -> None:
    watts = sum(r["count"] * r["watts"] for r in d["replicas"])
    names = {node.get("zone") or "default" for node in d["problem"]["cluster"]["nodes"]}
    d["problem"]["cluster"]["power_caps_watts"] = {name: watts * rng.uniform(0.01, 0.2) for name in names}


@breaks("limit_over")
def gpus_told_less_than_they_draw(d: Document, rng: Random) -> None:
    replica = group(d, rng)
    gpus = sum(stage["gpus"] for stage in replica["stages"])
    replica["power_limit_watts"] = replica["watts"] / gpus * rng.uniform(0.2, 0.9)


@breaks("gap_wrong")
def smaller_gap(d: Document, rng: Random) -> None:
    scale(d["proof"], "gap", rng, 0.0, 0.95)


@breaks("bound_crossed")
def bound_on_the_wrong_side(d: Document, rng: Random) -> None:
    proof = d["proof"]
    proof["bound"] = 2 * proof["objective"] - proof["bound"]


@breaks("status_wrong")
def optimal_with_a_gap(d: Document, rng: Random) -> None:
    d["proof"]["status"] = "optimal"


@breaks("status_wrong")
def a_gap_that_nothing_is_said_of(d: Document, rng: Random) -> None:
    d["proof"]["status"] = "not_closed"
    d["proof"].pop("why", None)


@breaks("status_wrong")
def a_reason_for_a_gap_that_was_closed(d: Document, rng: Random) -> None:
    d["proof"]["status"], d["proof"]["why"] = "time_limit", "columns are coarse"


@breaks("status_wrong")
def gap_wider_than_asked(d: Document, rng: Random) -> None:
    d["problem"]["options"]["gap"] = d["proof"]["gap"] * rng.uniform(0.1, 0.9)


@breaks("objective_wrong")
def objective_of_another_plan(d: Document, rng: Random) -> None:
    proof, factor = d["proof"], rng.choice([0.5, 0.9, 1.1, 2.0])
    for holder in (proof, *proof["kinds"]):
        holder["objective"] *= factor
    proof["bound"] *= factor
    if proof["chosen"]:
        proof["chosen"] *= factor


def price_list(d: Document) -> Any:
    """The proof of a plan that chose fewer kinds of replica than the best has."""
    if not d["proof"]["given_up"]:
        raise NotThereError
    return d["proof"]


@breaks("objective_wrong")
def best_fleets_objective_as_the_plans_own(d: Document, rng: Random) -> None:
    proof = price_list(d)
    entry = next(entry for entry in proof["kinds"] if entry["objective"] == proof["chosen"])
    proof["kinds"] = proof["kinds"][-1:]
    proof["kinds"][0]["kinds"] = entry["kinds"]
    proof["chosen"], proof["given_up"] = proof["objective"], 0.0


@breaks("given_up_wrong")
def less_given_up_than_it_is(d: Document, rng: Random) -> None:
    scale(price_list(d), "given_up", rng, 0.0, 0.95)


@breaks("given_up_wrong")
def simpler_and_yet_better_than_the_best(d: Document, rng: Random) -> None:
    proof = price_list(d)
    ratio = proof["chosen"] / proof["objective"]
    for holder in (proof, proof["kinds"][-1]):
        holder["objective"] *= ratio**2
    proof["bound"] *= ratio**2
    proof["given_up"] = abs(proof["chosen"] / proof["objective"] - 1)


@breaks("given_up_over")
def more_given_up_than_asked_for(d: Document, rng: Random) -> None:
    if "unsplit" in price_list(d):  # then it is the split that is given up
        raise NotThereError
    d["problem"]["options"]["simple"] = price_list(d)["given_up"] * rng.choice([0.0, 0.5, 0.95])


@breaks("kinds_wrong")
def fewer_kinds_at_no_price_told(d: Document, rng: Random) -> None:
    price_list(d)["kinds"] = []


@breaks("kinds_wrong")
def price_list_without_this_plan(d: Document, rng: Random) -> None:
    proof = price_list(d)
    proof["kinds"] = [entry for entry in proof["kinds"] if entry["objective"] != proof["chosen"]]


@breaks("kinds_wrong")
def price_list_without_the_best(d: Document, rng: Random) -> None:
    price_list(d)["kinds"].pop()


@breaks("kinds_wrong")
def price_list_upside_down(d: Document, rng: Random) -> None:
    price_list(d)["kinds"].reverse()


@breaks("kinds_wrong")
def more_kinds_and_worse(d: Document, rng: Random) -> None:
    kinds = price_list(d)["kinds"]
    kinds.insert(-1, {"kinds": kinds[-1]["kinds"] - 1, "objective": kinds[0]["objective"]})


@breaks("kinds_wrong")
def as_many_kinds_and_better(d: Document, rng: Random) -> None:
    kinds = price_list(d)["kinds"]
    kinds.insert(-1, kinds[-1] | {"objective": (kinds[-1]["objective"] + kinds[-2]["objective"]) / 2})


@breaks("kinds_wrong")
def a_kind_more_than_told(d: Document, rng: Random) -> None:
    proof = price_list(d)
    for entry in proof["kinds"][:-1]:
        entry["kinds"] += 1


@breaks("objective_wrong")
def unit_of_another_goal(d: Document, rng: Random) -> None:
    d["proof"]["unit"] = "W"


@breaks("bound_crossed")
def sense_turned(d: Document, rng: Random) -> None:
    d["proof"]["sense"] = {"max": "min", "min": "max"}[d["proof"]["sense"]]


@breaks("space_wrong")
def more_kept_than_considered(d: Document, rng: Random) -> None:
    d["proof"]["space"]["kept"] = d["proof"]["space"]["considered"] + rng.randint(1, 99)


@breaks("space_wrong")
def more_left_out_than_considered(d: Document, rng: Random) -> None:
    caps = [cap for cap in d["proof"]["space"]["caps"] if cap["considered"]]
    if not caps:
        raise NotThereError
    caps[0]["left_out"] = caps[0]["considered"] + rng.randint(1, 99)


@breaks("space_wrong")
def complete_although_a_cap_binds(d: Document, rng: Random) -> None:
    space = d["proof"]["space"]
    cap = {"what": "utilisation", "value": 0.9, "binds": space["complete"]}
    space["caps"] = [cap, *({**each, "binds": False} for each in space["caps"])]


def of_a_search(d: Document) -> Any:
    """The proof of a plan that designs were searched for."""
    if d["chains"] or any(r["engine"] == "measured" for r in d["replicas"]):
        raise NotThereError
    return d["proof"]


@breaks("space_wrong")
def no_cap_named(d: Document, rng: Random) -> None:
    of_a_search(d)["space"]["caps"] = []


@breaks("space_wrong")
def a_cap_of_each_search_not_named(d: Document, rng: Random) -> None:
    space = of_a_search(d)["space"]
    left = rng.choice(["GPUs of a replica", "designs of usual sizes", "sequences of a server"])
    space["caps"] = [cap for cap in space["caps"] if not cap["what"].startswith(left)]


@breaks("space_wrong")
def designs_left_out_by_a_cap_that_does_not_bind(d: Document, rng: Random) -> None:
    cap = next(c for c in of_a_search(d)["space"]["caps"] if c["what"].startswith("designs of usual sizes"))
    cap["left_out"], cap["considered"], cap["binds"] = 3, 40, False


@breaks("space_wrong")
def more_considered_than_there_is(d: Document, rng: Random) -> None:
    d["proof"]["space"]["considered"] = rng.choice([10**9, 10**12])


@breaks("space_wrong")
def a_cap_of_more_designs_than_there_are(d: Document, rng: Random) -> None:
    for cap in of_a_search(d)["space"]["caps"]:
        cap["considered"] = 10**9


@breaks("kinds_wrong")
def no_kinds_listed(d: Document, rng: Random) -> None:
    of_a_search(d)["kinds"] = []


@breaks("cost_overstated")
def nodes_paid_for_that_are_not_there(d: Document, rng: Random) -> None:
    hour, million = (d["predicted"][name] for name in ("usd_per_hour", "usd_per_mtok"))
    if hour is None:
        raise NotThereError
    factor = rng.uniform(20, 90)
    for figure in (hour, million):
        for edge in ("value", "low", "high"):
            figure[edge] *= factor


@breaks("band_too_narrow")
def bands_narrower_than_the_calibration_s(d: Document, rng: Random) -> None:
    d["problem"]["calibration"] = {"name": "shipped"}
    for name in rng.sample(["ttft_ms", "tpot_ms"], 2)[:1]:
        band = d["predicted"][name]
        band["low"], band["high"] = 0.999 * band["value"], 1.001 * band["value"]


@breaks("chance_below_risk")
def a_chance_below_the_risk_left_out(d: Document, rng: Random) -> None:
    d["problem"]["calibration"] = {"name": "shipped"}
    d["problem"]["options"]["risk"] = 0.2
    limit, band = d["problem"]["workload"]["slo"]["tpot_ms"], d["predicted"]["tpot_ms"]
    band["low"], band["high"] = 0.4 * band["value"], 2.5 * band["value"]
    d["problem"]["workload"]["slo"]["tpot_ms"] = min(limit, 1.001 * band["value"])
    d["predicted"]["chance_tpot"] = None


# what stands beside


def another_way(d: Document, rng: Random, part: float, **told: Any) -> Any:
    """An alternative that is worse by `part` of the plan's objective."""
    own = d["proof"]["chosen"] or d["proof"]["objective"]
    sign = -1 if d["proof"]["sense"] == "max" else 1
    line = {
        "what": "another",
        "why": "",
        "status": "within_gap",
        "objective": own * (1 + sign * part),
        **told,
    }
    if "bound_at" in line:
        line["bound"] = own * (1 + sign * line.pop("bound_at"))
    d["alternatives"] = [line]
    return line


@breaks("loss_wrong")
def another_way_made_worse(d: Document, rng: Random) -> None:
    another_way(d, rng, 0.1, loss=0.1 + rng.choice([-0.05, 0.05]))


@breaks("loss_wrong")
def a_stopped_search_that_loses_what_it_found(d: Document, rng: Random) -> None:
    """Its bound proves less."""
    another_way(d, rng, 0.2, loss=0.2, status="stopped", bound_at=0.1)


@breaks("loss_wrong")
def another_way_that_loses_nothing_told(d: Document, rng: Random) -> None:
    another_way(d, rng, 0.2, loss=None)


@breaks("bound_crossed")
def another_way_better_than_its_bound(d: Document, rng: Random) -> None:
    another_way(d, rng, 0.1, loss=0.1, bound_at=0.2)


@breaks("loss_wrong")
def an_assumption_that_costs_less(d: Document, rng: Random) -> None:
    line = another_way(d, rng, 0.3)
    d["assumptions"] = [{"name": "x", "what": "y", "objective": line["objective"], "loss": 0.1}]
    d["alternatives"] = []


# the embedded problem


@breaks("bad_problem")
def device_left_out(d: Document, rng: Random) -> None:
    d["problem"]["devices"].pop(rng.choice(sorted(d["problem"]["devices"])))


@breaks("bad_problem")
def problem_with_a_field_missing(d: Document, rng: Random) -> None:
    part, field = rng.choice([("cluster", "nodes"), ("model", "hidden"), ("model", "mixers")])
    d["problem"][part].pop(field)


@breaks("bad_problem")
def problem_with_a_field_too_many(d: Document, rng: Random) -> None:
    part = rng.choice(["cluster", "model", "workload", "options"])
    d["problem"][part]["colour"] = "blue"


@breaks("bad_problem")
def load_that_is_none(d: Document, rng: Random) -> None:
    rng.choice(d["problem"]["workload"]["buckets"])[rng.choice(["isl", "osl", "share"])] = rng.choice([0, -1])


@breaks("layers_not_covered", "chain_not_covered")
def deeper_model(d: Document, rng: Random) -> None:
    d["problem"]["model"]["layers"][-1]["times"] += rng.randint(1, 9)


@breaks("weights_understated", "heads_not_divisible")
def wider_model(d: Document, rng: Random) -> None:
    d["problem"]["model"]["hidden"] *= 2


def expert_map(d: Document, rng: Random) -> Any:
    """A random group's expert map."""
    if not d.get("experts"):
        raise NotThereError
    return rng.choice(d["experts"]["replicas"])


@breaks("expert_map")
def an_expert_is_lost(d: Document, rng: Random) -> None:
    ranks = rng.choice(expert_map(d, rng)["map"])
    ranks[0][0] = ranks[1][0]


@breaks("expert_map")
def an_expert_that_is_not(d: Document, rng: Random) -> None:
    rng.choice(rng.choice(expert_map(d, rng)["map"]))[0] = 10_000


@breaks("expert_map")
def a_slot_is_left_empty(d: Document, rng: Random) -> None:
    rng.choice(rng.choice(expert_map(d, rng)["map"])).pop()


@breaks("expert_map")
def a_layer_without_a_map(d: Document, rng: Random) -> None:
    expert_map(d, rng)["map"].pop()


@breaks("expert_map")
def a_map_of_another_group(d: Document, rng: Random) -> None:
    expert_map(d, rng)["replica"] = "nobody"


@breaks("expert_map")
def a_map_for_more_ranks(d: Document, rng: Random) -> None:
    expert_map(d, rng)["ep"] *= 2


@breaks("expert_balance")
def experts_balanced_in_words_only(d: Document, rng: Random) -> None:
    entry = expert_map(d, rng)
    if entry["hottest"] <= 1.0:
        raise NotThereError
    entry["hottest"] = 1.0 + rng.uniform(0.0, 0.9) * (entry["hottest"] - 1.0)


@breaks("expert_balance")
def an_expert_bound_that_is_crossed(d: Document, rng: Random) -> None:
    entry = expert_map(d, rng)
    entry["bound"] = entry["hottest"] * rng.uniform(1.01, 2.0)


@breaks("expert_loads")
def loads_of_another_model(d: Document, rng: Random) -> None:
    if not d.get("experts"):
        raise NotThereError
    d["experts"]["tokens"].pop()


@breaks("experts_not_divisible", "expert_map")
def copies_that_fill_no_rank(d: Document, rng: Random) -> None:
    r = group(d, rng)
    if r["ep"] == 1:
        raise NotThereError
    r["redundant_experts"] = rng.randrange(1, r["ep"])
