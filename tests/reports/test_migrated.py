"""A migration in lines: every part that there is, and none that there is not."""

from dataclasses import replace

from planner.migration.schema import Migration, Port, Row, Servers, Serving, Sources
from planner.reports.migrated import MOST_ROWS, migrated

ROW = Row(("h-0",), 1, Sources(far=2e9))
SMALL = Migration(
    servers=Servers(kept=1, restarted=0, stopped=2, started=3),
    held_bytes=0.0,
    taken=Sources(far=2e9),
    rows=(ROW,),
    slowest=Port("the NICs into h-0", 0.04),
    reloaded=Port("the storage of h-0", 1.0),
    serving=Serving(2.5, 0.25, 0.0),
    dropped_requests=0.0,
    dropped_kv_bytes=0.0,
)


def lines(**parts):
    return list(migrated(replace(SMALL, **parts)))


def test_what_there_is_none_of_is_not_told():
    assert lines() == [
        "Migration: servers 1 untouched, 2 stopped, 3 started",
        "served meanwhile: 2.50 requests/s, 25 % of before",
        "to load: 2.00 GB over NICs",
        "seconds to load at least: 0.040, by the NICs into h-0",
        "seconds where every server that starts reads all its weights from its node's storage: 1.0, "
        "by the storage of h-0",
        "  h-0: 1 GPU takes 2.00 GB over NICs",
    ]


def test_where_every_server_goes_on_that_is_all():
    assert lines(servers=Servers(4, 0, 0, 0)) == ["Migration: every server goes on as it is"]


def test_what_is_lost_and_what_is_not_told_apart_is_told():
    told = lines(
        servers=Servers(0, 1, 0, 0), dropped_requests=12.0, dropped_kv_bytes=3e9, gone=("h-7",), whole=("r1",)
    )

    assert "Migration: servers 1 restarted with other settings on the same GPUs" in told
    assert "served meanwhile: nothing" in told
    assert "in flight on servers that stop or start again: about 12.0 requests with 3.00 GB of cache" in told
    assert "gone with all that they held: h-7" in told
    assert "counted as a whole, not matrix by matrix: r1" in told


def test_of_many_nodes_the_first_are_listed():
    racks = Row(("g-0", "g-1"), 2, Sources(near=1e9, storage=1e9))
    told = lines(rows=(racks, *[ROW] * (MOST_ROWS + 4)))

    assert told[-1] == "  and 5 more nodes"
    assert "  g-0 to g-1: 2 GPUs take 2.00 GB: 1.00 GB over scale-up links, 1.00 GB from storage" in told
