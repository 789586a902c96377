"""Why a plan does not use other designs: the best fleet of such replicas alone, beside the best of all.

The plan's own question is asked again, from the plan alone. Candidates of the designs asked for are made
anew, as most of them were dominated by others and are gone from the plan's own. Where there is none, the
reason is looked for in this order: no engine starts such a design here, it has no room, it is too slow by
itself; what is left is the mix of requests, or the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device
from model_zoo.schema import ModelCard
from planner.beside.rivals import Rivals
from planner.candidates.candidate import Candidate, Design
from planner.candidates.deadline import late
from planner.candidates.setup import Made
from planner.engines import NAMES
from planner.errors import Infeasible, InputError, nearest, squash
from planner.inputs.options import Options
from planner.inputs.workload import Workload
from planner.objectives import named
from planner.plans.found import Found
from planner.plans.schema import Alternative, Plan
from planner.question.asked import Asked
from planner.question.posed import ask_of, pose
from planner.replicas.again import anew
from planner.replicas.alike import ROLES
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from planner.why.infeasible import quickest
from solvers.linear import Limits


@dataclass(frozen=True)
class Solved:
    """A question with its candidates and best fleet."""

    asked: Asked
    pool: Pool
    question: Question
    best: Found


def solved(asked: Asked, limits: Limits) -> Solved:
    """The best fleet there is. Raises Infeasible, OutOfTime, KeyboardInterrupt."""
    posed, pool, question = pose(asked)
    best = find(question, pool, limits)
    if best.solution.objective is None:
        if not best.solution.unbroken().refuted or pool.late:
            raise late()
        raise Infeasible("no fleet does what the plan says it does", hint="see `meshwright plan`")
    return Solved(posed, best.pool, question, best)


def why_not(s: Solved, specs: Sequence[Spec], limits: Limits) -> list[Alternative]:
    """A line for each: what the best fleet of such replicas alone gives, or why there is none."""
    found = []
    for spec in specs:
        rivals = Rivals.within(s.question, s.best, limits)
        pool = _alone(s, spec)
        rivals.show(rivals.of(pool), f"only {spec.text}", _never(s, spec))
        found += rivals.shown
    return found


def _alone(s: Solved, spec: Spec) -> Pool:
    """Candidates that are as asked for: the plan's own, and of its designs those made anew."""
    devices = {n.id: n.device.name for n in s.asked.cluster.classes}
    levels = {key.level for key in s.pool.made} - {0}
    designs = list({d for made in s.pool.plain for d in _designs(made) if spec.design(d)})
    again = s.pool
    if designs:
        own = {k: m for k, m in s.pool.made.items() if spec.engine in (None, k.engine)}
        fresh = anew(
            replace(s.pool, made=own), s.asked.cluster.classes, ask_of(s.asked), ROLES, levels, designs
        )
        again = replace(fresh, made={**s.pool.made, **fresh.made})
    known = {c.id: c for c in (*s.pool.candidates, *again.candidates)}
    kept = tuple(c for c in known.values() if spec.candidate(c, devices.get(c.node_class, "")))
    return replace(again, candidates=kept)


def _designs(made: Made) -> list[Design]:
    """All designs of a setup, those without room, too."""
    d = made.setup.designs
    names = ("tp", "pp", "attn_dp", "moe_tp", "ep")
    sizes = zip(*(getattr(d, n).tolist() for n in (*names, "redundant", "cp")), strict=True)
    return (
        [Design(**dict(zip(names, row[:5], strict=True)), redundant=row[5], cp=row[6]) for row in sizes]
        if not made.setup.model.stagings
        else []
    )


def _never(s: Solved, spec: Spec) -> str:
    """Why there is no fleet of such replicas."""
    here = [
        (made, rows)
        for made in s.pool.plain
        if made.node is not None
        and spec.engine in (None, made.key.engine)
        and spec.device in (None, squash(made.node.device.name))
        and len(rows := [i for i, d in enumerate(_designs(made)) if spec.design(d)])
    ]
    if not here:
        return "no engine starts such a design on these nodes, by its own rules or for the GPUs of a node"
    if all(m.setup.designs.gpus[rows].min() > m.setup.model.most_gpus for m, rows in here):
        return "one such replica takes more GPUs than there are of one class"
    fits = [
        (made, own)
        for made, rows in here
        if len(own := np.intersect1d(made.setup.fitting, np.array(rows, dtype=np.int64)))
    ]
    if not fits:
        return "the weights and one request find no room in it"
    slow = _too_slow(fits)
    return slow or "not with the whole mix of requests, or not at the rate"


def _too_slow(fits: Sequence[tuple[Made, np.ndarray]]) -> str:
    """By which limit even a lone request is too late on the quickest of these designs; nothing where none
    is."""
    best: tuple[float, str] | None = None
    for made, rows in fits:
        s = made.setup
        ttft, tpot = quickest(s, rows)
        over = np.maximum(ttft / s.promise.ttft_s, tpot / s.promise.tpot_s)
        i = int(np.argmin(over))
        names = (("TTFT", ttft[i], s.promise.ttft_s), ("TPOT", tpot[i], s.promise.tpot_s))
        late = [f"{n} {1e3 * x:.4g} ms, the limit is {1e3 * most:g} ms" for n, x, most in names if x > most]
        said = f"one request alone already has {' and '.join(late)}" if late else ""
        if best is None or over[i] < best[0]:
            best = float(over[i]), said
    return best[1] if best else ""


def asked_again(plan: Plan) -> Asked:
    """What a plan was asked for; of one that a replay sized what it was sized for. Raises InputError where it
    has replicas of another kind: chains, or from a table of measured ones."""
    p = plan.problem
    if plan.chains or not p.model:
        kind = "chains of nodes" if plan.chains else "measured replicas"
        raise InputError(f"other designs are not solved beside {kind}", "--why-not", "leave it out")
    cluster = Cluster.model_validate(p.cluster)
    devices = {name: Device.model_validate(form) for name, form in p.devices.items()}
    options = Options.model_validate(p.options)
    return Asked(
        cluster=resolve(cluster, devices=devices),
        card=ModelCard.model_validate(p.model),
        workload=_sized(plan, Workload.model_validate(p.workload)),
        options=options,
        objective=named(str(options.objective)),
        defaulted=list(p.defaulted),
        warnings=[],
        model_id=p.model_id,
    )


def _sized(plan: Plan, workload: Workload) -> Workload:
    told = plan.replayed
    if told is None:
        return workload
    limits = {"ttft_ms": told.ttft_ms, "tpot_ms": told.tpot_ms, "e2e_ms": None}
    slo = workload.slo.model_copy(update=limits)
    return workload.model_copy(update={"rate_rps": told.sized_rps, "slo": slo})


SIZES: Final[Mapping[str, str]] = {
    **{"tp": "tp", "pp": "pp", "dp": "attn_dp", "attn_dp": "attn_dp"},
    **{"ep": "ep", "moe_tp": "moe_tp", "cp": "cp"},
}
"""Words for the sizes of a design."""

PHASES: Final = ("mixed", "split")
"""Whether servers do both phases, or only one each."""

WORDS: Final = (*SIZES, "engine", "role", "device")
MOST = 4096
"""GPUs of a size at most."""


@dataclass(frozen=True)
class Spec:
    """Sizes by name, and where they are told an engine, a role and a device; `text` as it was written."""

    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    engine: str | None = None
    role: str | None = None
    device: str | None = None

    def design(self, d: Design) -> bool:
        """Whether a design has these sizes, in all of its stages."""
        return all(getattr(d, name) == size for name, size in self.sizes.items())

    def candidate(self, c: Candidate, device: str) -> bool:
        """Whether a candidate on a `device` is so."""
        split = c.role != "mixed"
        return (
            self.design(c.design)
            and self.engine in (None, c.engine)
            and self.role in (None, "split" if split else "mixed")
            and self.device in (None, squash(device))
        )


def parse(text: str) -> Spec:
    """A design in words. Raises InputError, with the nearest spelling.

    >>> spec = parse("tp=8, engine=vllm")
    >>> dict(spec.sizes), spec.engine
    ({'tp': 8}, 'vllm')
    """
    sizes, told = dict[str, int](), dict[str, str]()
    for part in text.replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals or not value or name not in WORDS:
            close = ", ".join(f"`{w}`" for w in nearest(name, WORDS, 3))
            raise InputError(
                f"`{part[:60]}` is not NAME=VALUE of a design",
                "--why-not",
                f"nearest: {close}; as in --why-not 'tp=8 engine=vllm'",
            )
        if SIZES.get(name, name) in sizes or name in told:
            raise InputError(f"`{name}` is given twice", "--why-not", "write --why-not once for each design")
        if name in SIZES:
            sizes[SIZES[name]] = _size(part, value)
        else:
            told[name] = _word(name, value)
    if not sizes and not told:
        raise InputError("name a design", "--why-not", "as in --why-not 'tp=8 engine=vllm'")
    return Spec(" ".join(text.replace(",", " ").split()), sizes, **told)


def _size(part: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= MOST or len(value) > 9:
        raise InputError(f"`{part[:60]}`: a size is a whole number from 1 to {MOST:,}", "--why-not")
    return int(value)


def _word(name: str, value: str) -> str:
    """An engine or role that is known; of a device any spelling."""
    if name == "device":
        return squash(value)
    known = NAMES if name == "engine" else PHASES
    if value not in known:
        hint = f"did you mean `{nearest(value[:60], known, 1)[0]}`? {name}s: {', '.join(known)}"
        raise InputError(f"unknown {name} `{value[:60]}`", "--why-not", hint)
    return value
