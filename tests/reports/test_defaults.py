"""What a plan rests on that nobody asked for: figures of links and prices, by device."""

from planner import plan
from planner.reports.defaults import assumed


def test_links_and_prices_of_nodes_that_nobody_told_are_told():
    text = assumed(plan(None, "llama-3.1-8b", gpus="1xH100,1xL40S", rate=1.0, explain=False).problem)[-1]

    assert (
        "h100-sxm 450 GB/s between the GPUs of a node, 50 GB/s a GPU beyond it (infiniband), $2.40/h" in text
    )
    assert "l40s 32 GB/s" in text
    assert text.count("names the source") == 1


def test_what_the_file_tells_is_not_assumed(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("nodes: [{device: l40s, gpus_per_node: 1, intra_gb_per_s: 20, price_usd_per_hour: 1}]\n")
    text = assumed(plan(str(path), "llama-3.1-8b", rate=1.0, explain=False).problem)[-1]

    assert "between the GPUs" not in text
    assert "$" not in text
    assert "a GPU beyond it" in text
