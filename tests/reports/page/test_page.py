"""The page as people and their tools read it: every kind of plan, its own matter, its form, no way for markup
to come in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise

import pytest

from planner.cli.app import run
from planner.plans.schema import Alternative, Plan, PlanWarning, Price
from planner.reports import defaults, proven, terminal
from planner.reports.page.html import html
from planner.reports.started import starting
from tests.reports.page.samples import ALL, HERE, Tag, page_of, plan_of, tree

OWN_MATTER = {
    "chains": "Node by node, each with its layers",
    "replayed": "In the replay",
    "survive": "If nodes are lost",
    "long-prompts": "A prompt of 100,000 tokens by itself",
    "kept": "118 GB of KV cache kept between requests in host memory",
    "cxl-768gb": "CXL memory",
    "gh200-480gb": "of 126 layers in host memory",
    "one-4090-128gb": "in host memory",
    "drafts": "tokens accepted",
    "gb200-nvl72": "KV cache moves",
    "unlike-stages": "pp2",
    "profile": "measured",
    "spot-cloud": "spot",
    "percentile": "for 95 of 100 requests",
    "melange-cloud": "What fewer kinds would give",
    "three-zones": "Zone north",
    "ten-thousand": "10,000 GPUs",
}
"""What the page of a plan must speak of, beside what all pages do."""


@pytest.mark.parametrize("name", ALL)
def test_every_kind_of_plan_has_a_page_with_its_own_matter(name):
    page = tree(page_of(name))
    titles = [h.text for h in page.all("h2")]

    assert OWN_MATTER.get(name, "What runs where") in page.text
    for title in ("What runs where", "The way of a request", "What to expect", "Cost and energy"):
        assert title in titles
    assert "How sure it is that nothing better exists" in titles


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_the_terminal_says(name):
    plan, said = plan_of(name), tree(page_of(name)).text.replace("\xa0", " ")

    lines = [
        *defaults.decisive(plan),
        *proven.proof(plan).plain.splitlines(),
        *defaults.assumed(plan.problem),
    ]
    lines += [line for line in terminal.worth(plan) if line.startswith("More of")]
    lines += [w.message for w in plan.warnings] + [a.what for a in plan.alternatives]
    if any(r.launch for r in plan.replicas):
        lines += [line for line in starting(plan) if not line.startswith("#")]
    for line in lines:
        assert line in said


@pytest.mark.parametrize("name", ALL)
def test_its_form_is_one_that_screen_readers_find_their_way_in(name):
    page = tree(page_of(name))
    levels = [int(h.name[1]) for h in page.all("h1", "h2", "h3", "h4")]
    ids = [tag.attributes["id"] for tag in page.all() if "id" in tag.attributes]

    assert [len(list(page.all(mark))) for mark in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert len(ids) == len(set(ids))
    assert all(a.attributes["href"].removeprefix("#") in ids for a in page.all("a"))
    assert all(s.attributes["aria-labelledby"] in ids for s in page.all("section"))
    assert next(page.all("html")).attributes["lang"] == "en"
    for table in page.all("table"):
        assert len(list(table.all("caption"))) == 1
        assert all(th.attributes["scope"] in ("col", "row") for th in table.all("th"))
        assert all(any(row.all("th")) for tbody in table.all("tbody") for row in tbody.all("tr"))
    for drawn in page.all("svg"):  # its words stand beside it
        assert drawn.attributes["aria-hidden"] == "true"
    for bar in page.of("bar"):
        assert bar.of("bar-label")[0].text.strip()


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_fetched_and_only_our_own_script_runs(name):
    page = tree(page_of(name))
    policy = next(m.attributes["content"] for m in page.all("meta") if "http-equiv" in m.attributes)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))

    assert rules["default-src"] == "'none'"
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (own,) = page.all(tag)
        digest = base64.b64encode(hashlib.sha256(own.text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    for tag in page.all():
        assert not [a for a in tag.attributes if a.startswith("on") or a in ("style", "src", "srcset")]
        assert tag.name not in ("iframe", "object", "embed", "form", "base")
    assert "unsafe" not in policy
    assert not re.search(r"url\(|@import", next(page.all("style")).text)


EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title><b>bold",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!-- &lt;i&gt; &amp;",
    "a\x00b\x1b[31m\u202egpj",
)


def bent(plan: Plan, word: str) -> Plan:
    """A plan that says a word wherever it says anything of its own."""
    told = plan.model_dump(by_alias=True)
    told["problem"]["cluster"]["name"] = told["problem"]["model"]["name"] = word
    told["problem"]["cluster"]["nodes"][0]["zone"] = word
    for r in told["replicas"]:
        r["engine"] = word
        if r.get("launch"):
            r["launch"]["argv"].append(word)
            r["launch"]["notes"] = [word]
    told["alternatives"] = [Alternative(what=word, objective=1.0, loss=0.1, why=word).model_dump()]
    told["warnings"] = [PlanWarning(code=word, message=word, reason=word).model_dump(by_alias=True)]
    told["prices"] = [Price(limit=f"gpus {word}", one_more=word, worth=1.0, unit=word).model_dump()]
    told["problem"]["defaulted"], told["proof"]["space"]["what"] = [word], word
    return Plan.model_validate(told)


def shape(tag: Tag) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.name, tuple(sorted(each.attributes))) for each in tag.all()]


@pytest.mark.parametrize("word", EVIL)
@pytest.mark.parametrize("name", ["h100-8", "one-node", "mixed"])
def test_names_stay_text_whatever_they_say(name, word):
    plain, evil = (tree(html([bent(plan_of(name), w)], [w])) for w in ("plain", word))
    compared = html([bent(plan_of(name), word)] * 2, [word, word + "2"])

    assert shape(evil) == shape(plain)
    assert word.split("\x00")[0] in evil.text
    assert len(list(tree(compared).all("script"))) == 1
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202e]", compared)


def test_several_plans_stand_side_by_side_with_what_differs_marked():
    names = ("one-node", "mixed", "simple")
    page = tree(page_of(*names))
    (table,) = (t for t in page.all("table") if "side by side" in next(t.all("caption")).text)
    rows = {
        next(r.all("th")).text.strip(): list(r.all("td")) for b in table.all("tbody") for r in b.all("tr")
    }

    assert [th.text for th in next(table.all("thead")).all("th")] == ["what", *names]
    assert [c.attributes["class"].strip() for c in rows["model"]] == ["", "", ""]
    assert [c.attributes["class"].strip() for c in rows["cluster"]] == ["", "differs", ""]
    assert [t.text for t in rows["requests"][1].of("tag")] == ["best"]
    assert "differs" in rows["cost"][1].text
    assert [h.text for h in page.all("h2")] == ["Side by side", *names]
    assert len(list(page.all("article"))) == 3


def test_the_best_of_each_figure_is_marked_and_measured_against_the_first():
    plan = plan_of("one-node")
    twice = plan.predicted.model_copy(update={"out_tok_per_s": plan.predicted.out_tok_per_s.model_copy()})
    faster = twice.out_tok_per_s.model_copy(update={"value": 2 * plan.predicted.out_tok_per_s.value})
    better = plan.model_copy(update={"predicted": twice.model_copy(update={"out_tok_per_s": faster})})
    page = tree(html([plan, better], ["a", "b"]))
    row = next(r for r in page.all("tr") if "output tokens" in r.text and "cost" not in r.text)

    assert [c.attributes["class"].strip() for c in row.all("td")] == ["", "best"]
    assert "+100\xa0%" in row.text


def test_ten_thousand_gpus_are_few_boxes_and_a_small_file():
    page = page_of("ten-thousand")

    assert len(page) < 400_000
    assert len(tree(page).of("gpu")) < 200


def test_the_same_plan_is_the_same_page():
    assert html([plan_of("lab")], ["lab"]) == page_of("lab")


def test_a_bound_that_says_nothing_is_said_to_say_nothing():
    page = tree(page_of("chains")).text

    assert "not known" in page
    assert "the bound is too loose to say" in page


GOLDEN = HERE / "survive.json"


def test_the_command_writes_a_page_and_says_where(tmp_path, capsys):
    out = tmp_path / "report.html"

    assert run(["report", str(GOLDEN), "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"written to {out}" in told.err
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_names_figures_of_devices_that_the_catalog_has_otherwise(tmp_path):
    plan = json.loads(GOLDEN.read_text())
    plan["problem"]["devices"]["h100-sxm"]["tdp_watts"] = 900.0
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    out = tmp_path / "report.html"

    assert run(["report", str(tmp_path / "plan.json"), "-o", str(out)]) == 0
    assert "device h100-sxm: tdp_watts 900, in the catalog 700" in out.read_text()


@pytest.mark.parametrize(
    ("plans", "out", "said"),
    [
        ([GOLDEN], "report.docx", "is not a name that a report can have"),
        ([GOLDEN], "no-folder/report.html", "cannot write"),
        (["nowhere.json"], "report.html", "nowhere.json"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path, capsys, plans, out, said):
    assert run(["report", *map(str, plans), "-o", str(tmp_path / out)]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_never_written_over(tmp_path, capsys):
    plan = tmp_path / "plan.html"
    text = GOLDEN.read_text(encoding="utf-8")
    plan.write_text(text)

    assert run(["report", str(plan), "-o", str(plan)]) == 2
    assert "is read and written by one command" in capsys.readouterr().err
    assert plan.read_text() == text


def test_a_plan_that_does_not_hold_gets_no_page(tmp_path, capsys):
    told = json.loads(GOLDEN.read_text(encoding="utf-8"))
    told["replicas"][0]["memory"][0]["weights_bytes"] /= 2
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(told))

    assert run(["report", str(plan), "-o", str(tmp_path / "report.html")]) == 2
    assert "this plan does not hold" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()
