"""Numbers and replicas in words: what is shown is never further from the figure than its digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.plans.schema import Band
from planner.reports import words as say
from planner.reports.figures import Figure, figures
from planner.reports.words import short
from tests.reports.page.samples import ALL, plan_of
from tests.reports.samples import replica


@given(st.floats(1e-6, 1e12), st.integers(1, 5))
def test_a_number_is_shown_to_its_digits_and_whole_units_are_never_lost(x, digits):
    shown = float(say.number(x, digits).replace(",", ""))

    assert shown == pytest.approx(x, rel=0.51 * 10 ** (1 - digits), abs=0 if x < 1 else 0.51)
    assert abs(shown - x) <= 0.51 or x < 1
    assert float(say.number(-x, digits).replace(",", "")) == -shown


@given(st.floats(0.001, 1e6))
def test_dollars_lose_at_most_half_a_cent_and_half_a_dollar_from_a_thousand_on(usd):
    shown = float(say.money(usd).strip("$").replace(",", ""))

    assert say.money(usd).startswith("$")
    assert ("." in say.money(usd)) == (usd < 1000)
    assert abs(shown - usd) <= (0.5001 if usd >= 1000 else 0.0051)


@given(st.floats(0.0, 1.0))
def test_a_share_in_percent_is_at_most_half_a_percent_off_and_below_ten_a_twentieth(share):
    text = say.percent(share)

    assert text.endswith(" %")
    assert abs(float(text[:-2]) - 100 * share) <= (0.5001 if 100 * share > 9.95 else 0.0501)


@given(st.floats(0.0, 1.0))
def test_a_chance_is_never_certain(chance):
    assert say.odds(chance) not in ("0 %", "100 %")
    assert say.odds(1.0) == "over 99 %"
    assert say.odds(0.0) == "under 1 %"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (say.milliseconds(9_999), "9,999 ms"),
        (say.milliseconds(10_000), "10.0 s"),
        (say.power(999.0), "999 W"),
        (say.power(1000.0), "1.00 kW"),
        (say.rate(1, "gpus"), "1 GPU"),
        (say.rate(12, "GPUs"), "12 GPUs"),
        (say.rate(24, "USD/h"), "$24.00/h"),
        (say.rate(24, "usd per hour"), "$24.00/h"),
        (say.rate(1500, "W"), "1.50 kW"),
        (say.rate(3.456, "req/s"), "3.46 req/s"),
        (say.amount(0.02, "$"), "$0.020"),
        (say.amount(31, "$/h"), "$31.00/h"),
        (say.amount(700, "W"), "700 W"),
    ],
)
def test_amounts_are_in_the_units_that_people_use(said, words):
    assert said == words


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"tp": 1}, "tp1"),
        ({"tp": 4}, "tp4"),
        ({"tp": 4, "moe_tp": 4}, "tp4"),
        ({"tp": 4, "pp": 2}, "tp4 pp2"),
        ({"tp": 1, "attn_dp": 8, "ep": 8}, "dp8 ep8"),
        ({"tp": 2, "cp": 2}, "tp2 cp2"),
        ({"tp": 1, "ep": 4, "moe_tp": 2}, "ep4 moe-tp2"),
        ({"tp": 1, "ep": 8, "redundant_experts": 32}, "ep8 +32 experts"),
    ],
)
def test_a_layout_leaves_ones_out(sizes, words):
    alone = replica().model_copy(
        update={"tp": 1, "pp": 1, "attn_dp": 1, "ep": 1, "moe_tp": 1, "cp": 1, "stages": []}
    )
    found = say.layout(alone.model_copy(update=sizes))

    assert found.removeprefix("tp1 ") == words


@pytest.mark.parametrize("name", ALL)
def test_every_replica_has_hardware_layout_and_precision_in_one_word_each(name):
    for r in plan_of(name).replicas:
        text = short(r)
        count, gpus, *rest = text.split(" ")

        assert count == f"{r.count}x"
        assert sum(int(part.split("×")[0]) for part in gpus.split("+")) == sum(s.gpus for s in r.stages)
        assert rest[1:3] == [r.role, r.engine]
        assert rest[-1] == f"b{r.max_batch}"
        assert len(rest) == 5


def test_precisions_that_differ_from_the_weights_are_named():
    r = replica()
    same = r.precision.model_copy(update={"weights": "fp8", "experts": "fp8", "kv": "fp8"})
    unlike = same.model_copy(update={"experts": "mxfp4", "kv": "bf16"})

    assert say.precision(r.model_copy(update={"precision": same})) == "fp8"
    assert say.precision(r.model_copy(update={"precision": unlike})) == "fp8, experts mxfp4, KV bf16"


@pytest.mark.parametrize("engine", list(say.STEP_TOKENS))
def test_the_tokens_of_a_step_are_told_with_the_engines_own_option(engine):
    r = replica().model_copy(update={"engine": engine, "max_batched_tokens": 4096})

    assert "4096" in say.chunks(r)
    assert say.chunks(r).startswith("--")
    assert say.chunks(r.model_copy(update={"max_batched_tokens": 0})) == ""


@pytest.mark.parametrize("name", ALL)
def test_figures_are_those_of_the_plan_with_its_limits(name):
    plan = plan_of(name)
    found = {f.label.split(",")[0]: f for f in figures(plan)}
    p, slo = plan.predicted, plan.problem.workload.get("slo", {})

    assert found["requests"].band == p.rps
    assert found["time to first token"].limit == slo.get("ttft_ms")
    assert found["time per output token"].kept == p.chance_tpot
    assert ("cost" in found) == (p.usd_per_hour is not None)
    assert found["time to first token"].more is False


def test_a_band_without_width_and_a_limit_that_is_none_are_not_told():
    flat = Figure("x", Band(value=2.0, low=2.0, high=2.0), "ms")
    wide = Figure("x", Band(value=2.0, low=1.0, high=3.0), "ms", limit=4.0)

    assert (flat.edges, flat.limited) == ("", "")
    assert (wide.edges, wide.limited, wide.shown) == ("1.00 – 3.00", "4.00 ms", "2.00 ms")
