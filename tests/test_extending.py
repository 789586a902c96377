"""Each example of docs/extending.md does what its section says, by its entry alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_configs.reading import from_gpus
from model_zoo.schema import DenseFfn, MoeFfn
from planner import api, engines, exporters
from planner.fleet import finish
from planner.replicas import generate
from planner.rules.devices import supports
from planner.search.find import find
from planner.simulate import routing
from planner.simulate.answer import Ask, simulate
from planner.studies import sweep
from planner.studies.pools.local import Here
from solvers import fleet
from solvers.linear import Limits
from tests.beside.solved import solved
from tests.candidates.samples import ask
from tests.exporters.samples import made, replica
from tests.solvers.test_fleet import SMALL
from tests.solvers.test_fleet import solved as fleet_of
from tests.studies.fake import CELLS, FAKE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
CLUSTER = from_gpus("1xH100,1xL40S")


def examples() -> dict[str, str]:
    """The Python of each section that has any, by its title."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    code = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    found = {text.split("\n")[0]: code.findall(text) for text in sections}
    return {title: "\n".join(blocks) for title, blocks in found.items() if blocks}


EXAMPLES = examples()


def ran(start: str) -> dict[str, Any]:
    """The names that the example of a section makes, by the beginning of its title."""
    (code,) = [code for title, code in EXAMPLES.items() if title.startswith(start)]
    names: dict[str, Any] = {}
    exec(compile(code, "extending.md", "exec"), names)
    return names


def test_sections_with_an_example_are_those_tested_here() -> None:
    starts = re.findall(r'ran\("([^"]+)"\)', Path(__file__).read_text())

    assert all(any(title.startswith(start) for start in starts) for title in EXAMPLES)


def test_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "WAYS", (ran("A way beside")["half_price"],))
    asked = {"gpus": "2xH100", "model": "llama-3.1-8b", "engine": "vllm", "rate": 1.0, "work_limit": 50}
    cheap = api.plan(None, objective="cost", budget="usd_per_hour=100", **asked)
    fast = api.plan(None, **{**asked, "rate": None})

    assert [a.what for a in cheap.alternatives] == ["nodes at half the price"]
    assert cheap.alternatives[0].objective == pytest.approx(cheap.proof.own / 2, rel=1e-6)
    assert fast.alternatives == []


def test_an_objective() -> None:
    """A node of H100s serves what it takes more than two of L4s to serve."""
    _, question, found = solved("16xH100,64xL4", "llama-3.1-8b", rate=60.0, objective="gpus")
    best = find(replace(question, objective=ran("An objective")["NODES"]), found.pool, Limits(work=1000))

    assert best.solution.nodes == {"h100-sxm": 1}


def test_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = ran("A serving engine")["FORK"]
    monkeypatch.setattr(engines, "ENGINES", (*engines.ENGINES, fork))

    assert engines.named("my-vllm").block_tokens == 32
    assert supports(CLUSTER.classes[0].device, "my-vllm", "bf16") is None


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """26 requests/s are cheapest on an H100 and three L4s; on two replicas they need two H100s."""
    p = replace(SMALL, demand=26.0)
    assert fleet_of(p).replicas == {"h100-tp2": 1, "l4-tp1": 3}
    monkeypatch.setattr(fleet, "ROWS", (*fleet.ROWS, ran("A row")["add"]))

    assert fleet_of(p).replicas == {"h100-tp2": 2}


def test_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "KINDS", (ran("A kind")["KIND"],))
    found = generate.generate(CLUSTER.classes, ask(), links=CLUSTER.links)

    assert {c.key.kind for c in found.candidates} == {"single nodes"}
    assert {c.role for c in found.candidates} == {"mixed"}


def test_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "VARIANTS", (ran("A variant")["half_steps"],))
    keys = [*generate.generate(CLUSTER.classes, ask(), links=CLUSTER.links).made]

    assert keys
    assert {replace(k, chunk=0) for k in keys if k.chunk} == {k for k in keys if not k.chunk}


def test_an_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "EXPORTERS", {"hosts": ran("An exporter")["ENTRY"]})
    files = exporters.export(made(replica("r1", "vllm", tp=8, count=2)), "hosts")

    assert files["hosts.txt"] == "r1-0 h200-sxm-0\nr1-1 h200-sxm-1\n"
    assert "1. Read `hosts.txt`." in files["README.md"]


def test_a_family() -> None:
    layers = ran("A family")["LAYERS"]

    assert [type(layer.ffn) for layer in layers] == [DenseFfn, MoeFfn, MoeFfn, MoeFfn]
    assert layers[1].ffn.experts == 16


def test_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the group to the server where fewest wait, whatever is in work elsewhere."""
    shortest = ran("Routing and rules")["Shortest"]
    servers = [SimpleNamespace(queue=queue, unfinished=held) for queue, held in ((3, 3), (0, 9), (1, 1))]
    monkeypatch.setattr(routing, "ROUTERS", {**routing.ROUTERS, "shortest": shortest})
    plan = api.plan(
        None, "llama-3.1-8b", gpus="2xL40S", engine="vllm", rate=1.0, work_limit=50, explain=False
    )

    assert shortest.choose(None, SimpleNamespace(servers=servers)) is servers[1]
    assert simulate(plan, Ask(requests=100, routing="shortest")).requests == 100


def test_who_plans_a_sweep(tmp_path: Path) -> None:
    latest = ran("Who plans the cells")["Latest"]
    sweep.run(CELLS, tmp_path / "latest", FAKE, latest, lambda *_: None)
    sweep.run(CELLS, tmp_path / "here", FAKE, Here, lambda *_: None)

    assert (tmp_path / "latest").read_bytes() == (tmp_path / "here").read_bytes()
