"""What a plan rests on that nobody asked for: figures of links and prices, by device."""

from planner import plan
from planner.plans.schema import Assumption, Problem
from planner.reports import words as say
from planner.reports.defaults import assumed, decisive


def test_links_and_prices_of_nodes_that_nobody_told_are_told():
    text = assumed(plan(None, "llama-3.1-8b", gpus="1xH100,1xL40S", rate=1.0, explain=False).problem)[-1]

    assert (
        "h100-sxm 450 GB/s between the GPUs of a node, 50 GB/s a GPU beyond it (infiniband), $2.40/h" in text
    )
    assert "l40s 32 GB/s" in text
    assert text.count("names the source") == 1


def test_cards_that_are_counted_into_several_nodes_are_told_so():
    """Nine cards are two boxes in a line, as eight are the most that is usual: their owner wants to know."""
    text = assumed(plan(None, "llama-3.1-8b", gpus="9xrtx-3090", rate=0.5, explain=False).problem)[-1]

    assert "rtx-3090 in nodes of 8 GPUs: 32 GB/s" in text
    assert "rtx-3090 in nodes of 1 GPU: 32 GB/s" in text


def test_what_the_file_tells_is_not_assumed(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("nodes: [{device: l40s, gpus_per_node: 1, intra_gb_per_s: 20, price_usd_per_hour: 1}]\n")
    text = assumed(plan(str(path), "llama-3.1-8b", rate=1.0, explain=False).problem)[-1]

    assert "between the GPUs" not in text
    assert "$" not in text
    assert "a GPU beyond it" in text


def test_what_an_assumption_decides_is_told_in_the_plans_unit():
    made = plan(None, "llama-3.1-8b", gpus="1xH100", explain=False)
    slower = Assumption(name="x", what="links at half their rate", objective=9.0, loss=0.25)
    none = Assumption(name="y", what="links at a tenth", objective=None, loss=None)
    own = say.rate(made.proof.own, made.proof.unit)
    told, nothing = decisive(made.model_copy(update={"assumptions": [slower, none]}))

    assert told.startswith(
        "With links at half their rate these kinds of replica would be 25 % worse: 9.00 req/s"
    )
    assert told.endswith(f"in place of {own}.")
    assert nothing == "With links at a tenth these kinds of replica could not serve this within the limits."
    assert decisive(made) == []


def test_nodes_with_unlike_gpus_are_told_by_their_warning_alone():
    nodes = [
        {"name": "pc", "gpus": [{"device": "l4"}], "intra_gb_per_s": 4.0},
        {"device": "l40s", "intra_gb_per_s": 32.0},
    ]
    problem = Problem(
        cluster={"nodes": nodes}, devices={}, model={}, workload={}, options={},
        defaulted=["cluster.nodes.intra_gb_per_s"],
    )  # fmt: skip

    (told,) = assumed(problem)
    assert told.endswith("usual for the devices: l40s 32 GB/s between the GPUs of a node")
