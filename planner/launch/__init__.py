"""How every replica of a plan is started: the engine's own command line, from the plan alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from planner.engines import named
from planner.launch import llama_cpp, sglang, trtllm, vllm
from planner.launch.server import DRAFT_HEAD, Server
from planner.plans.schema import Launch, Plan, PlanWarning

LINES: Final[Mapping[str, Callable[[Server], Launch]]] = {
    "vllm": vllm.line,
    "sglang": sglang.line,
    "trtllm": trtllm.line,
    "llama.cpp": llama_cpp.line,
}
"""A new engine's command line is a file here and its entry."""

NOT_STARTED = "not_started"
"""Code of the warning that an engine does not start replicas as they come."""

NOT_LISTED = "not_listed"
"""Code of the warning that an engine's list of models lacks one."""


def launched(plan: Plan) -> Plan:
    """The plan with the commands that start its replicas; where the engine of one does not start it as it
    comes it has none, and a warning says why. Another says whose model is not on its engine's list."""
    servers = [Server(plan, r) for r in plan.replicas]
    lines = {s.replica.id: launch(s) for s in servers}
    made = [r.model_copy(update={"launch": lines[r.id]}) for r in plan.replicas]
    reasons = {r.id: lines[r.id].notes[0] for r in made if r.engine in LINES and not lines[r.id].argv}
    unlisted = {s.replica.id: why for s in servers if (why := _unlisted(s))}
    warnings = [w for w in plan.warnings if w.code not in (NOT_STARTED, NOT_LISTED)]
    for code, said in ((NOT_STARTED, reasons), (NOT_LISTED, unlisted)):
        for why in dict.fromkeys(said.values()):
            ids = ", ".join(name for name, own in said.items() if own == why)
            warnings.append(PlanWarning(code=code, message=f"{ids}: {why}"))
    return plan.model_copy(update={"replicas": made, "warnings": warnings})


def _unlisted(s: Server) -> str | None:
    """What to see to where an engine's list of models lacks the one of a replica."""
    engine, card = s.replica.engine, s.card
    if engine not in LINES or named(engine).lists(card.architecture):
        return None
    return (
        f"{engine}'s list of models has no {card.architecture}, which {card.name} is: see that your version "
        "loads it"
    )


def launch(s: Server) -> Launch:
    """The command of one replica, or why there is none."""
    why = s.why_not()
    if why is None and s.replica.engine not in LINES:
        why = f"how {s.replica.engine} is started is not known"
    if why is not None:
        return Launch(argv=[], notes=[why])
    made = LINES[s.replica.engine](s)
    heads = ["DRAFT_HEAD is the checkpoint of the EAGLE head that was trained for the model"]
    notes = made.notes + heads * (DRAFT_HEAD in s.draft_option)
    if (watts := s.replica.power_limit_watts) is not None:
        notes.append(f"its GPUs are limited to {watts:g} W: nvidia-smi -pl {watts:g} -i its GPUs, as root")
    return made.model_copy(update={"notes": notes})
