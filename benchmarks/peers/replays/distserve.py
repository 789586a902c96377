"""DistServe's simulator (arXiv:2401.09670): quadratic prompts, decode steps with two regimes, no KV limit but
one on the context of a step. The unit of time is the millisecond.

A prompt step takes whole prompts, first come first served; a decode step sequences in the order of a queue,
to whose tail those that go on return, behind what came during the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.replays.stepwise import Batch, Stepwise
from benchmarks.replays.transfers import Beside
from planner.designs.shape import Floats
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Ledger, Requests, Settings, StepCosts
from planner.simulate.routing import Way

NO_COSTS = StepCosts(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass
class Queues:
    """One server's rules: prompts before sequences."""

    times: dict[str, Any]
    policy: dict[str, Any]
    last: list[int] = field(default_factory=list)  # sequences of the step before

    def choose(self, server: Stepwise) -> Batch:
        book, room = server.ledger, self.policy["prefill_max_tokens"]
        prompts: list[tuple[int, int]] = []
        for request in list(server.waiting):
            tokens = server.left[request]
            if tokens and prompts and tokens > room:
                break
            if tokens:
                prompts.append((request, tokens))
                room -= tokens
            server.enter(request, 0.0)
        if prompts:
            return Batch(prompts, [])
        for request in self.last:  # behind what has come meanwhile
            if request in server.running:
                server.running[request] = server.running.pop(request)
        room, self.last = self.policy["decode_context_cap"], []
        for request in server.running:
            context = book.isl[request] + server.made[request]
            if self.last and context > room:
                break
            self.last.append(request)
            room -= context
        return Batch([], list(self.last))

    def seconds(self, server: Stepwise, batch: Batch) -> float:
        """Milliseconds."""
        p, t = self.policy, self.times
        if batch.prompts:
            tokens = np.array([n for _, n in batch.prompts], dtype=float)
            a, b, c = t["prefill"]
            own, context = (
                a + b * tokens.sum() + c * (tokens**2).sum() + p["prefill_constant_ms"],
                tokens.sum(),
            )
        else:
            n = len(batch.decodes)
            a, b, c = t["decode_small"] if n < t["batch_threshold"] else t["decode_large"]
            with_new = sum(server.ledger.isl[i] + server.made[i] for i in batch.decodes)
            own, context = a + b * with_new + c * n, with_new - n
        return float(own + p["overhead_ms"] + p["overhead_per_token_ms"] * context)

    def after(self, server: Stepwise, batch: Batch) -> None:
        """Nobody loses a place."""


def replayed(problem: dict[str, Any]) -> Fleet:
    """Prompt servers and decode servers, or servers of both phases."""
    policy = problem["policy"]
    at, isl, osl = np.array(problem["requests"], dtype=float).T
    requests = Requests(1e3 * at, isl, osl + 1)  # output_tokens steps after the first token

    def group(role: Any, count: int) -> Group:
        def machine(ledger: Ledger, _: int) -> Stepwise:
            return Stepwise(Queues(problem["step_time_ms"], policy), ledger, role)

        return Group(role, role, count, NO_COSTS, Settings(), machine=machine)

    way, wires, sent = Way(1.0, "mixed"), {}, {}
    groups = [group("mixed", policy["replicas"])]
    if policy["kind"] == "split":
        way = Way(1.0, "prefill", "decode")
        groups = [group("prefill", policy["prefill_replicas"]), group("decode", policy["decode_replicas"])]
        wires, sent = {("prefill", "decode"): Wire(1.0, 1.0, 0.0)}, {"prefill": np.zeros(len(at))}
    load = Load(requests, np.zeros(len(at), dtype=np.int64), {})
    return Fleet(Site(groups, [[way]], wires, sent, first_waits=False), load, Rules(transfers=Beside))


def measured(fleet: Fleet, out: Outcome) -> dict[str, Floats]:
    """Milliseconds."""
    return {"ttft_ms": out.ttft_s, "tpot_ms": out.tpot_s, "e2e_ms": out.end_s - out.arrival_s}
