"""Splitwise's simulator (arXiv:2311.18677): whole prompts, step times from a table, sequences that are put
aside when prompts fill a step, and replicas that help out in the other phase.

Its rules of a step: `Aside`. A request's tokens are a task of their own: they keep its place in the order of
arrival while its prompt is computed, and count anew how often they were passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from benchmarks.replays.stepwise import Batch, Stepwise
from benchmarks.replays.transfers import Beside
from planner.designs.shape import Floats
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.loop import Machine
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Ledger, Requests, Settings, StepCosts
from planner.simulate.routing import View, Way

NO_COSTS = StepCosts(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
BESIDE = 1.1
"""Times a step with prompts takes as long when sequences decode beside them."""

Chosen = dict[int, tuple[Machine, Machine]]
"""Of each request the servers of its prompt and of its tokens."""


class Replica(Stepwise):
    """A server of either phase, or both, as the router says of each request."""

    chosen: Chosen

    def ends_here(self, request: int) -> bool | None:
        one, two = self.chosen[request]
        return None if one is not self else two is self


@dataclass
class Aside:
    """A step takes who was passed over too often, then prompts, those put aside, those running, others."""

    policy: dict[str, Any]
    room_tokens: float
    table: dict[str, list[float]]
    passed: dict[int, int] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)  # sequences of the step before
    aside: set[int] = field(default_factory=set)

    def choose(self, server: Stepwise) -> Batch:
        ready = sorted({*server.waiting, *server.running} - {*self.running}, key=self._order)
        most = self.policy["max_passed_over"]
        urgent = list(takewhile(lambda i: self.passed.get(i, 0) >= most, ready))
        prompts = sorted(i for i in ready if server.left[i])
        put_aside = [i for i in ready if i in self.aside]
        others = sorted(i for i in ready if not server.left[i] and i not in self.aside)
        taken = dict[int, int]()
        tokens = 0
        for group in (urgent, prompts, put_aside, self.running, others):
            for request in group:
                size = server.left.get(request, 0) or 1
                if request in taken:
                    continue
                full = len(taken) >= self.policy["max_batch"]
                if full or (taken and tokens + size > self.policy["max_batch_tokens"]):
                    break
                if not self._enters(server, request):
                    break
                taken[request] = size
                tokens += size
        self._pass_over([*ready, *self.running], taken)
        self.running = [i for i in taken if not server.left[i]]
        self.aside -= set(taken)
        return Batch([(i, n) for i, n in taken.items() if server.left[i]], list(self.running))

    def _order(self, request: int) -> tuple[int, int]:
        """In the waiting list, from its head on."""
        return self.passed.get(request, 0), request

    def _pass_over(self, requests: list[int], taken: dict[int, int]) -> None:
        for request in requests:
            if request not in taken:
                self.passed[request] = self.passed.get(request, 0) + 1
                if request in self.running:
                    self.aside.add(request)

    def _enters(self, server: Stepwise, request: int) -> bool:
        """Takes the room of a prompt and a token when the prompt starts, of the answer when that does."""
        book, prompt = server.ledger, bool(server.left[request])
        whole = book.isl[request] + (1 if prompt else book.osl[request])
        more = whole - server.running.get(request, 0.0)
        if server.held + more > self.room_tokens and server.running:
            return False
        if request in server.running:
            server.hold(request, more)
        else:
            server.enter(request, more)
        return True

    def seconds(self, server: Stepwise, batch: Batch) -> float:
        tokens = sum(n for _, n in batch.prompts) + len(batch.decodes)
        if not batch.prompts:
            return self._between("token_s", tokens)
        return self._between("prompt_s", tokens) * (BESIDE if batch.decodes else 1.0)

    def _between(self, name: str, tokens: float) -> float:
        """Linear between the table's entries, the end segments extended."""
        x, y = self.table["tokens"], self.table[name]
        k = next((k for k in range(1, len(x) - 1) if x[k] >= tokens), len(x) - 1)
        return y[k - 1] + (y[k] - y[k - 1]) * (tokens - x[k - 1]) / (x[k] - x[k - 1])

    def after(self, server: Stepwise, batch: Batch) -> None:
        """Tokens of a prompt that is done have been passed over by nobody; who has ended is forgotten."""
        for request, _ in batch.prompts:
            self.passed.pop(request, None)
        self.running = [i for i in self.running if i in server.running]


class Pending:
    """Both phases of a request to the replica with the fewest pending tokens: its prompt until that is done,
    and one until its end."""

    def __init__(self, view: View, chosen: Chosen) -> None:
        self.view, self.chosen = view, chosen
        self.servers = [(name, s) for name, pool in view.pools.items() for s in pool.servers]
        self.prompts: dict[int, list[int]] = {id(s): [] for _, s in self.servers}
        self.tokens: dict[int, list[int]] = {id(s): [] for _, s in self.servers}
        self.now_s = 0.0

    def first(self, request: int) -> tuple[Way, Machine] | None:
        self.now_s = float(self.view.load.requests.arrival_s[request])
        one, two = self.choose(request)
        self.chosen[request] = one[1], two[1]
        self.prompts[id(one[1])].append(request)
        self.tokens[id(two[1])].append(request)
        return Way(1.0, one[0], None if two[1] is one[1] else two[0]), one[1]

    def choose(self, request: int) -> tuple[tuple[str, Machine], tuple[str, Machine]]:
        """Group and server of its prompt, and of its tokens."""
        least = min(self.servers, key=lambda each: self.pending(*each) + len(self.unended(*each)))
        return least, least

    def second(self, request: int, way: Way) -> Machine | None:
        return self.chosen[request][1]

    def pending(self, name: str, server: Machine) -> int:
        """Tokens of prompts that are not done: those of the step in progress, too."""
        book = self.view.pools[name].ledger
        own = [i for i in self.prompts[id(server)] if not book.first_s[i] <= self.now_s]
        self.prompts[id(server)] = own
        return sum(book.isl[i] for i in own)

    def unended(self, name: str, server: Machine) -> list[int]:
        """Requests whose tokens are made there."""
        ended = self.view.pools[name].ledger.end_s
        own = self.tokens[id(server)] = [i for i in self.tokens[id(server)] if not ended[i] <= self.now_s]
        return own


class Helping(Pending):
    """Prompts to prompt replicas while their queues are short, tokens to token replicas while they have room;
    else one of the others helps out."""

    def __init__(self, view: View, chosen: Chosen, policy: dict[str, Any], room: dict[str, float]) -> None:
        super().__init__(view, chosen)
        self.policy, self.room = policy, room

    def choose(self, request: int) -> tuple[tuple[str, Machine], tuple[str, Machine]]:
        isl, osl = (int(x[request]) for x in (self.view.load.requests.isl, self.view.load.requests.osl))
        prompt = self._found("prompt", self.pending, lambda n, s: self._short(n, s, isl))
        tokens = self._found("token", self.kept, lambda n, s: self.kept(n, s) + isl + osl <= self.room[n])
        return prompt, tokens

    def _found(self, phase: str, load: Any, fits: Any) -> tuple[str, Machine]:
        """The least loaded of those for the phase, else of the others; where none fits, of all."""
        own = [each for each in self.servers if each[0] == phase]
        for some in (own, [each for each in self.servers if each[0] != phase]):
            least = min(some, key=lambda each: load(*each), default=None)
            if least is not None and fits(*least):
                return least
        return min(self.servers, key=lambda each: load(*each))

    def _short(self, name: str, server: Machine, isl: int) -> bool:
        most = self.policy["prompt_queue_tokens"]
        return not server.queue or self.pending(name, server) + isl <= most

    def kept(self, name: str, server: Machine) -> float:
        """Tokens of room promised to requests that have not ended."""
        r = self.view.load.requests
        return float(sum(r.isl[i] + r.osl[i] for i in self.unended(name, server)))


def replayed(problem: dict[str, Any]) -> Fleet:
    """Groups of replicas by role."""
    policy, per_token = problem["policy"], problem["kv_bytes_per_token"]
    requests = Requests(*np.array(problem["requests"], dtype=float).T)
    chosen: Chosen = {}
    room = {
        each["role"]: (each["memory_bytes"] - problem["weights_bytes"]) / per_token
        for each in problem["replicas"]
    }

    def group(each: dict[str, Any]) -> Group:
        def machine(ledger: Ledger, _: int) -> Replica:
            table = problem["step_time_tables"][each["device"]]
            found = Replica(Aside(policy, room[each["role"]], table), ledger)
            found.chosen = chosen
            return found

        return Group(each["role"], "mixed", each["count"], NO_COSTS, Settings(), machine=machine)

    def router(view: View) -> Pending:
        if policy["kind"] == "mixed_replicas":
            return Pending(view, chosen)
        return Helping(view, chosen, policy, room)

    groups = [group(each) for each in problem["replicas"]]
    names = [g.id for g in groups]
    wire = Wire(policy["transfer_bytes_per_s"], policy["transfer_bytes_per_s"], 0.0)
    wires = {(a, b): wire for a in names for b in names if a != b}
    sent = dict.fromkeys(names, (requests.isl + 1) * per_token)
    load = Load(requests, np.zeros(len(requests), dtype=np.int64), {})
    site = Site(groups, [[]], wires, sent, first_waits=False)
    return Fleet(site, load, Rules(router, transfers=Beside))


def measured(fleet: Fleet, out: Outcome) -> dict[str, Floats]:
    """Seconds; between tokens: all that comes after the first over all tokens."""
    return {
        "ttft_s": out.ttft_s,
        "tbt_s": (out.end_s - out.first_s) / out.osl,
        "e2e_s": out.end_s - out.arrival_s,
    }
