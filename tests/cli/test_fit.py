"""`meshwright fit`: lines and tables of rows made by hand, the largest of each family, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from cluster_configs.reading import from_gpus
from planner.cli import fit as command
from planner.cli import fit_tables
from planner.cli.app import run
from planner.designs.shape import Precisions
from planner.errors import Infeasible, InputError
from planner.fit.families import Largest
from planner.fit.fits import ClassFit, Fit, Row
from planner.fit.grid import Cell, Grid, Most
from planner.fit.speeds import Speed

GIB = 2**30
TP2 = Row(
    gpus=2, tp=2, pp=1, attn_dp=1, moe_tp=1, ep=1,
    weights_bytes=65.7 * GIB, activation_bytes=1.5 * GIB, reserve_bytes=2.5 * GIB, capacity_bytes=80 * GIB,
    kv_bytes=10.3 * GIB, max_context=131_072, concurrency=1234, missing_bytes=0.0,
)  # fmt: skip
TP1 = replace(
    TP2, gpus=1, tp=1, kv_bytes=-54.0 * GIB, max_context=0, concurrency=0, missing_bytes=64.04 * GIB
)
"""Of the same model: too large for one GPU by 64 GiB."""

PART = ClassFit("h", "h100-sxm", 2, "vllm", None, (TP1, TP2))
LENGTHS = "(7,936 tokens in, 256 out)"
QUICK = Speed(readers=1, isl=7936, osl=256, replicas=4, tok_per_s=45.678, ttft_s=0.1234)
FOUND = Fit(
    model="m-70b",
    context=8192,
    max_context=131_072,
    params=70_550_000_000,
    checkpoint_bytes=141.1e9,
    kv_bytes=2.684e9,
    precision=Precisions("bf16", "bf16", "bf16", "bf16"),
    classes=(PART,),
    changes=(),
)


def printed(part: RenderableType, width: int = 120) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(part)
    return [" ".join(x.split()) for x in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


MOST = {
    "max_context": Most(131_072, 1, "tp2", "h100-sxm", "the model"),
    "max_users": Most(4936, 4, "tp2", "h100-sxm", "memory"),
}


def test_the_most_is_a_line_with_its_number_first(capsys: pytest.CaptureFixture[str]) -> None:
    command.direct(MOST, 8192, as_json=False)

    assert capsys.readouterr().out.splitlines() == [
        "131,072 tokens of one user: tp2 on h100-sxm, limited by the model",
        "4,936 users of 8,192 tokens: 4 x tp2 on h100-sxm, limited by memory",
    ]


def test_the_most_as_json_has_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    command.direct({"max_users": MOST["max_users"]}, 8192, as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "max_users": {"value": 4936, "count": 4, "layout": "tp2", "device": "h100-sxm", "limit": "memory"}
    }


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        (FOUND.precision, "bf16, KV cache bf16"),
        (Precisions("fp8", "fp8", "fp8", "bf16"), None),
        (Precisions("bf16", "bf16", "mxfp4", "fp8"), None),
    ],
)
def test_a_model_is_its_size_in_the_checkpoint_and_here(precision: Precisions, said: str | None) -> None:
    p = precision
    said = said or f"{p.gemm}{'' if p.experts == p.gemm else f', experts {p.experts}'}, KV cache {p.kv}"

    assert printed(fit_tables.headline(replace(FOUND, precision=p)), 200) == [
        f"m-70b 70.5 B parameters, checkpoint 141.1 GB; here in {said}: 2.68 GB for 8,192 tokens"
    ]


@pytest.mark.parametrize(
    ("speed", "said"),
    [
        (
            QUICK,
            f"One reader gets 45.7 tokens a second, the first after 0.123 s {LENGTHS}, on tp2",
        ),
        (
            replace(QUICK, tok_per_s=1234.5, ttft_s=999.7),
            f"One reader gets 1,234 tokens a second, the first after 1,000 s {LENGTHS}, on tp2",
        ),
        (
            replace(QUICK, readers=1200),
            "Each of 1,200 readers at once gets 45.7 tokens a second, the first after 0.123 s"
            f" {LENGTHS}, on 4 x tp2",
        ),
        (
            replace(QUICK, readers=2, replicas=1),
            f"Each of 2 readers at once gets 45.7 tokens a second, the first after 0.123 s {LENGTHS}, on tp2",
        ),
    ],
)
def test_readers_get_what_the_quickest_gives(speed: Speed, said: str) -> None:
    """Other replicas are named only where other readers are on them."""
    told = fit_tables.quickest(PART, {TP2: speed, replace(TP2, pp=2): replace(speed, tok_per_s=1.0)})

    assert printed(told, 200) == [f"{said} of h100-sxm with vllm"]


def test_a_row_is_in_gib_a_gpu_and_says_how_much_it_lacks() -> None:
    assert fit_tables.cells(TP2) == ["2", "tp2", "65.7", "4.0", "10.3", "131,072", "1,234"]
    assert fit_tables.cells(TP1) == ["1", "tp1", "65.7", "4.0", "-54.0", "-", "no: 64.0 GiB short"]
    short = replace(TP2, max_context=4000, concurrency=0, missing_bytes=0.04 * GIB)
    assert fit_tables.cells(short)[-2:] == ["4,000", "no: 0.0 GiB short"]


def test_a_class_has_its_table_with_readers_where_they_were_asked_for() -> None:
    plain, timed = (printed(fit_tables.table(PART, 8192, speeds)) for speeds in ({}, {TP2: QUICK}))

    assert plain == [
        "2 x h100-sxm (80 GiB each), vllm",
        "GPUs parallelism weights buffers KV room longest users at 8,192",
        "1 tp1 65.7 4.0 -54.0 - no: 64.0 GiB short",
        "2 tp2 65.7 4.0 10.3 131,072 1,234",
        "GiB per GPU; buffers = activations and the engine's reserve",
    ]
    assert [x.split()[-1] for x in timed[1:4]] == ["tok/s", "-", "45.7"]
    assert " ".join(timed[4:]).endswith("reserve; tok/s: tokens a second of each reader")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            replace(PART, engine=None, reason="no engine runs on it", rows=()),
            "2 x h100-sxm cannot serve it: no engine runs on it",
        ),
        (replace(PART, rows=()), "2 x h100-sxm vllm has no valid parallelism for it"),
    ],
)
def test_a_class_that_cannot_serve_it_says_why(part: ClassFit, said: str) -> None:
    assert printed(fit_tables.table(part, 8192, {})) == [said]


def test_cells_are_milliseconds_and_what_they_wait_for_or_what_is_missing() -> None:
    made = Grid(
        TP2,
        (
            (Cell(2048, 1, 0.01234, "weights", 0.0), Cell(2048, 64, 1.5, "KV cache", 0.0)),
            (Cell(131_072, 1, 0.02, "overhead", 0.0), Cell(131_072, 64, None, "memory", 1234.5 * GIB)),
        ),
    )

    shown = printed(fit_tables.cell_table(made, PART))
    at = shown.index("context 1 user 64 users")

    assert " ".join(shown[:at]) == "One replica, tp2 (2 x h100-sxm): ms a token, and what it waits for"
    assert shown[at + 1 : at + 3] == ["2,048 12.3 weights 1,500 KV cache", "131,072 20 overhead +1,234.5 GiB"]
    assert shown[at + 3].startswith("decoding, all users at that context;")


ONE = Largest("m", "m-70b", 70, 8192, "h", "h100-sxm", "vllm", TP2, QUICK)


@pytest.mark.parametrize(
    ("gpus", "one", "row"),
    [
        ("2xH100", ONE, "m-70b 2 tp2 vllm 131,072 1,234 45.7"),
        ("2xH100,1xL4", ONE, "m-70b 2 h100-sxm tp2 vllm 131,072 1,234 45.7"),
        (
            "2xH100",
            replace(ONE, speed=replace(QUICK, tok_per_s=1234.5)),
            "m-70b 2 tp2 vllm 131,072 1,234 1,234",
        ),
    ],
)
def test_the_largest_of_a_family_is_a_row(
    gpus: str, one: Largest, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fit_tables.show_largest([one], from_gpus(gpus), as_json=False)
    shown = [" ".join(x.split()) for x in capsys.readouterr().out.splitlines()]

    assert shown[1] == row
    assert "tok/s: tokens a second of one reader alone, once the first has come." in shown
    assert any("several classes" in x for x in shown) == ("," in gpus)


def test_readers_and_their_context_are_told_below_families(capsys: pytest.CaptureFixture[str]) -> None:
    many = replace(QUICK, readers=1200)
    fit_tables.show_largest(
        [replace(ONE, context=4096, speed=many), replace(ONE, speed=many)], from_gpus("2xH100"), as_json=False
    )
    shown = capsys.readouterr().out

    assert "users: of 8,192 tokens at once" in shown
    assert "tok/s: tokens a second of each of 1,200 readers at once" in shown


@pytest.mark.parametrize("isl", [0, -5, 10**9])
def test_a_context_that_no_model_takes_is_refused(isl: int) -> None:
    with pytest.raises(InputError, match="the models known take 1 to") as error:
        fit_tables.largest(from_gpus("1xH100"), (isl, None, None, "any"), 1)

    assert error.value.where == "--isl"


def test_where_no_family_fits_the_readers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.fit.families.largest_of_each", lambda *_: [])
    for readers, said in ((1, "for 1 reader\n"), (1200, "for 1,200 readers\n")):
        with pytest.raises(Infeasible, match=said):
            fit_tables.largest(from_gpus("1xH100"), (None, None, None, "any"), readers)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give either CLUSTER.yaml or --gpus"),
        (["c.yaml", "--gpus", "1xH100"], "give either CLUSTER.yaml or --gpus"),
        (["--gpus", "1xH100", "--users", "0"], "0 readers: at least 1"),
        (["--gpus", "1xH100", "--max-users"], "are of one model: give --model"),
        (["--gpus", "1xH100", "--max-context"], "are of one model: give --model"),
    ],
)
def test_questions_that_are_none_are_refused(words: list[str], says: str, capsys) -> None:
    assert run(["fit", *words]) == 2
    assert says in capsys.readouterr().err
