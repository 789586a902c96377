"""Shape of each replica: layers covered once and in order, the split of a stage multiplies out, the engine
can run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from model_zoo.schema import (
    KV_BYTES,
    WEIGHT_BYTES,
    Attention,
    DenseFfn,
    LinearAttention,
    Mixer,
    Mla,
    ModelCard,
    MoeFfn,
)
from planner.check.case import Case
from planner.check.packing import NodeIndex
from planner.check.violation import Violation
from planner.check.weights import Away
from planner.plans.schema import Replica

REDUNDANT_SHARE = 1 / 8  # of experts, that engines add as copies to fill the ranks
KNOWN_ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp", "chains", "measured")


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the shape of the replicas."""
    ids = Counter(replica.id for replica in case.plan.replicas)
    for name, times in ids.items():
        if times > 1:
            yield Violation("duplicate_id", "replicas", f"{times} groups are called {name}")
    if not case.plan.replicas:
        yield Violation("no_replicas", "replicas", "the plan runs nothing")
    for index, replica in enumerate(case.plan.replicas):
        where = f"replicas[{index}]"
        yield from _stages(case, replica, where)
        yield from _split(case, replica, where)
        yield from _names(case, replica, where)
        if case.card is not None:
            if replica.role == "chain":
                yield from _interval(case.card, replica, where)
            else:
                yield from _layers(case.card, replica, where, case.away(replica))
            if case.card.stack and replica.engine != "llama.cpp" and not case.measured(replica):
                yield from _heads(case.card, replica, where)
                yield from _experts(case, case.card, replica, where)


def _stages(case: Case, replica: Replica, where: str) -> Iterator[Violation]:
    """pp stages, each on known nodes of one class, of the device it names."""
    if len(replica.stages) != replica.pp:
        yield Violation(
            "stage_count", f"{where}.stages", f"{len(replica.stages)} stages, but pp is {replica.pp}"
        )
    if sorted(part.stage for part in replica.memory) != list(range(len(replica.stages))):
        named = [part.stage for part in replica.memory]
        text = f"speaks of stages {named}, there are {len(replica.stages)}"
        yield Violation("memory_stages", f"{where}.memory", text)
    for number, stage in enumerate(replica.stages):
        place = f"{where}.stages[{number}]"
        node_class = case.classes.get(stage.node_class)
        if node_class is None:
            known = ", ".join(case.classes)
            yield Violation(
                "unknown_class", f"{place}.node_class", f"no class {stage.node_class}; there are {known}"
            )
            continue
        if stage.device != node_class.device.name:
            text = f"{stage.node_class} has {node_class.device.name}, not {stage.device}"
            yield Violation("wrong_device", f"{place}.device", text)
        index = NodeIndex(node_class.nodes)
        if strangers := [name for name in stage.nodes if index.find(name) is None]:
            text = f"{stage.node_class} has no node {strangers[0]}"
            yield Violation("unknown_node", f"{place}.nodes", text)
        if not stage.nodes:
            yield Violation("unknown_node", f"{place}.nodes", "the stage stands on no node")
        if len(set(stage.nodes)) < len(stage.nodes):
            yield Violation("duplicate_node", f"{place}.nodes", "a node is named twice")


def _split(case: Case, replica: Replica, where: str) -> Iterator[Violation]:
    """tp * attn_dp * cp = moe_tp * ep = GPUs of one stage, the same in all; or, said aloud, of the widest."""
    attention = replica.tp * replica.attn_dp * replica.cp
    experts = replica.moe_tp * replica.ep
    if attention != experts:
        text = f"tp·attn_dp·cp = {attention}, but moe_tp·ep = {experts}"
        yield Violation("split_mismatch", where, text)
    for number, stage in enumerate(replica.stages):
        place = f"{where}.stages[{number}]"
        if stage.gpus != stage.tp * replica.attn_dp * replica.cp:
            text = f"{stage.gpus} GPUs, but tp·attn_dp·cp = {stage.tp * replica.attn_dp * replica.cp}"
            yield Violation("stage_gpus", f"{place}.gpus", text)
        if stage.tp != replica.tp and not case.has_warning("uneven_tp"):
            text = f"tp {stage.tp} in a replica of tp {replica.tp}, without the warning `uneven_tp`"
            yield Violation("stage_tp", f"{place}.tp", text)
    widest = max((stage.tp for stage in replica.stages), default=replica.tp)
    if widest != replica.tp and case.has_warning("uneven_tp"):
        yield Violation("stage_tp", f"{where}.tp", f"tp {replica.tp}, its widest stage has {widest}")


def _names(case: Case, replica: Replica, where: str) -> Iterator[Violation]:
    """Engine and precisions are known, and are those asked for."""
    asked = case.options.engine
    if (replica.engine == "chains") != (replica.role == "chain"):
        text = f"{replica.engine} for the role {replica.role}: chains run on `chains`, and it runs only them"
        yield Violation("wrong_engine", f"{where}.engine", text)
    if replica.engine not in KNOWN_ENGINES or (asked != "any" and replica.engine not in (asked, "measured")):
        yield Violation("wrong_engine", f"{where}.engine", f"{replica.engine}, asked for {asked}")
    if replica.engine == "measured" and not case.measured(replica):
        text = "a measured group needs the warning `measured_profile` and step times of 0"
        yield Violation("measured_unsaid", f"{where}.engine", text)
    if case.card is None:
        return
    used = replica.precision
    for field, value, known in (
        ("weights", used.weights, WEIGHT_BYTES),
        ("experts", used.experts, WEIGHT_BYTES),
        ("kv", used.kv, KV_BYTES),
    ):
        if value not in known:
            text = f"unknown precision {value}; there are {', '.join(known)}"
            yield Violation("unknown_precision", f"{where}.precision.{field}", text)
    yield from _lowered(case, case.card, replica, f"{where}.precision")


def _lowered(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """Nothing is stored in fewer bytes than the checkpoint's, or than was asked for."""
    own, asked, used = card.weights, case.options.precision, replica.precision
    least = [
        ("weights", used.weights, [asked] if asked else [own.attention, own.dense], WEIGHT_BYTES),
        ("kv", used.kv, [case.options.kv_precision or own.kv], KV_BYTES),
    ]
    if card.moe:
        least.append(("experts", used.experts, [own.experts] + ([asked] if asked else []), WEIGHT_BYTES))
    for field, value, floor, size in least:
        known = [name for name in floor if name in size]
        if value in size and known and size[value] < min(size[name] for name in known):
            text = f"{value} is lower than {' or '.join(known)}, which nobody asked for"
            yield Violation("precision_lowered", f"{where}.{field}", text)


def _layers(card: ModelCard, replica: Replica, where: str, away: Away) -> Iterator[Violation]:
    """The stages hold [0, a), [a, b), … up to the last layer; none empty. Of layers that lie in host memory
    whole so many come first, and behind stages."""
    expected = away.layers
    for number, stage in enumerate(replica.stages):
        place = f"{where}.stages[{number}].layers"
        first, end = stage.layers
        if first != expected:
            kind = "layers_gap" if first > expected else "layers_overlap"
            yield Violation(kind, place, f"starts at layer {first}, expected {expected}")
        if end <= first:
            yield Violation("layers_empty", place, f"[{first}, {end}) holds no layer")
        expected = end + away.after.get(number, 0)
    if expected != len(card.stack):
        text = f"stages end at layer {expected}, {card.name} has {len(card.stack)}"
        yield Violation("layers_not_covered", f"{where}.stages", text)


def _interval(card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """A group of chains holds some of the layers; `chains` sees that each runs once in every chain."""
    for number, stage in enumerate(replica.stages):
        first, end = stage.layers
        place, text = f"{where}.stages[{number}].layers", f"[{first}, {end})"
        if end <= first:
            yield Violation("layers_empty", place, f"{text} holds no layer")
        if first < 0 or end > len(card.stack):
            yield Violation("layers_outside", place, f"{text}, {card.name} has {len(card.stack)}")


def _heads(card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """The tp of every stage divides the heads of every mixer and the width of every dense FFN."""
    for tp in sorted({replica.tp, *(stage.tp for stage in replica.stages)}):
        yield from _divided(card, tp, where)
    if replica.cp > 1 and not any(isinstance(m, Attention | Mla) for m in card.mixers.values()):
        yield Violation("cp_without_cache", f"{where}.cp", "context parallel needs a KV cache")


def _divided(card: ModelCard, tp: int, where: str) -> Iterator[Violation]:
    for name, mixer in card.mixers.items():
        apart = isinstance(mixer, Attention) and mixer.kv_heads % tp and tp % mixer.kv_heads
        if apart or any(count % tp for count in _head_counts(mixer)):
            text = f"the heads of {name} don't divide by tp {tp}"
            yield Violation("heads_not_divisible", f"{where}.tp", text)
    for name, ffn in card.ffns.items():
        if isinstance(ffn, DenseFfn) and ffn.inner % tp:
            yield Violation("ffn_not_divisible", f"{where}.tp", f"width {ffn.inner} of {name} by tp {tp}")


def _head_counts(mixer: Mixer) -> list[int]:
    if isinstance(mixer, LinearAttention):
        return [mixer.key_heads, mixer.value_heads]
    return [mixer.heads]


def _experts(case: Case, card: ModelCard, replica: Replica, where: str) -> Iterator[Violation]:
    """ep divides the experts with their copies (where none are stated, a few may fill the ranks), moe_tp
    their width."""
    for name, ffn in card.ffns.items():
        if not isinstance(ffn, MoeFfn):
            continue
        copies = replica.redundant_experts
        empty = -(ffn.experts + copies) % replica.ep
        if empty > (0 if copies else REDUNDANT_SHARE * ffn.experts):
            held = f"{ffn.experts} experts" + (f" and {copies} copies" if copies else "")
            text = f"{held} of {name} don't divide by ep {replica.ep}"
            yield Violation("experts_not_divisible", f"{where}.ep", text)
        for gpus in sorted({replica.moe_tp * replica.ep, *(stage.gpus for stage in replica.stages)}):
            moe_tp, rest = divmod(gpus, replica.ep)
            if rest or ffn.inner % max(moe_tp, 1):
                text = (
                    f"expert width {ffn.inner} of {name} doesn't divide by {gpus} GPUs over ep {replica.ep}"
                )
                yield Violation("experts_not_divisible", f"{where}.moe_tp", text)
