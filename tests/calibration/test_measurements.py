"""`read_measurements`: every form of file, and every line that is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from planner.calibration.measurements import Measurement, Refused, read_measurements
from planner.errors import InputError

BENCH = Path(__file__).parent / "bench"
OPTIONS = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "tp": "1"}
HEADER = "model,device,tp,isl,osl,concurrency,measured_ttft_ms,measured_tpot_ms"
ROW = "llama-3.1-8b,h100-sxm,1,1000,200,16,58.4,7.21"


def one(path: Path, **options: str) -> Measurement:
    (found,), refused = read_measurements([path], OPTIONS | options)
    assert refused == []
    return found


def refusal(path: Path, **options: str) -> str:
    """The reason why the only measurement of a file is refused."""
    with pytest.raises(InputError) as caught:
        read_measurements([path], OPTIONS | options)
    return str(caught.value)


def changed(tmp_path: Path, name: str, **fields: object) -> Path:
    """The golden JSON (or the first line of a JSONL) with some fields changed."""
    data = json.loads(
        (BENCH / name).read_text().splitlines()[0] if name.endswith("l") else (BENCH / name).read_text()
    )
    path = tmp_path / name
    path.write_text(json.dumps(data | fields))
    return path


@pytest.mark.parametrize(
    ("name", "model", "load", "ttft", "tpot"),
    [
        ("vllm.json", "meta-llama/Llama-3.1-8B-Instruct", ("1000", "200", "16"), 58.412, 7.214),
        ("benchmark_serving.json", "Llama-3.1-8B-Instruct", ("1000", "200", "8"), 44.9, 6.771),
        ("genai_perf.csv", "llama-3.1-8b", ("1000", "200", "15.5076"), 1058.4, 7.21),  # 6.22/s x 2493.19 ms
        ("genai_perf.json", "llama-3.1-8b-instruct", ("1000", "200", "16"), 1058.4, 7.21),
        ("aiperf.csv", "llama-3.1-8b", ("1000", "200", "31.032"), 83.6, 8.41),  # 17.66/s x 1757.19 ms
        ("aiperf.json", "llama-3.1-8b-instruct", ("1000", "200", "32"), 83.6, 8.41),
        ("llm_d_0_2.yaml", "meta-llama/Llama-3.1-8B-Instruct", ("1000", "200", "10.7456"), 31.2, 4.8),
    ],
)
def test_each_form_tells_model_load_and_latencies(
    name: str, model: str, load: tuple[str, str, str], ttft: float, tpot: float
) -> None:
    found = one(BENCH / name)

    assert found.cells["model"] == model
    assert (found.cells["isl"], found.cells["osl"], found.cells["concurrency"]) == load
    assert (found.ttft_ms, found.tpot_ms) == (pytest.approx(ttft), pytest.approx(tpot))
    assert found.where == str(BENCH / name)


def test_our_csv_is_read_line_by_line() -> None:
    used, refused = read_measurements([BENCH / "ours.csv"], {})

    assert refused == []
    assert used[1] == Measurement(
        cells={
            **{"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "precision": "fp8"},
            **{"tp": "1", "isl": "1000", "osl": "200", "concurrency": "16"},
        },
        ttft_ms=41.2,
        tpot_ms=4.92,
        where=f"{BENCH / 'ours.csv'}:3",
    )
    assert (used[3].ttft_ms, used[3].tpot_ms) == (None, 18.6)


def test_a_cell_of_the_table_wins_over_an_option_and_blanks_are_filled(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER},engine\n{ROW},\n")
    found = one(path, engine="sglang", tp="8", kv_precision="fp8")

    assert (found.cells["engine"], found.cells["tp"], found.cells["kv_precision"]) == ("sglang", "1", "fp8")


def test_appended_results_of_vllm_are_told_apart_by_line() -> None:
    path = BENCH / "vllm.jsonl"
    used, refused = read_measurements([path], {})

    assert [m.where for m in used] == [f"{path}:1", f"{path}:2"]
    assert used[1].note == "open loop at 4 requests/s: 5.58 in flight by Little's law"
    assert refused == [
        Refused(
            f"{path}:3",
            "all requests were sent at once: neither a closed loop nor a rate;"
            " run it again with a maximum concurrency",
        ),
        Refused(f"{path}:4", "20 of 320 requests failed"),
    ]


def test_a_json_list_is_read_like_lines(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    lines = (BENCH / "vllm.jsonl").read_text().splitlines()
    path.write_text(f"[{','.join([*lines, '7'])}]")
    used, refused = read_measurements([path], {})

    assert [m.where for m in used] == [f"{path}: entry 1", f"{path}: entry 2"]
    assert [r.where for r in refused] == [f"{path}: entry {i}" for i in (3, 4, 5)]
    assert "no benchmark result that is known, but 7" in refused[2].reason


def test_metadata_of_a_vllm_run_are_columns() -> None:
    found = one(BENCH / "vllm.json", device="l4", tp="4")

    assert (found.cells["device"], found.cells["tp"]) == ("h100-sxm", "1")


def test_the_tag_of_an_sglang_run_holds_columns(tmp_path: Path) -> None:
    path = changed(tmp_path, "sglang.jsonl", tag="nightly device=b200 precision=fp8 isl=7 room=3")
    found = one(path, model="")

    assert (found.cells["device"], found.cells["precision"]) == ("b200-sxm", "fp8")
    assert (found.cells["isl"], found.cells["tp"]) == ("1000", "1")


def test_the_arguments_of_an_sglang_server_are_columns() -> None:
    used, refused = read_measurements([BENCH / "sglang.jsonl"], {"device": "h200", "tp": "1"})

    assert used[0].cells == {
        **{
            "model": "deepseek-ai/DeepSeek-V3",
            "device": "h200-sxm",
            "engine": "sglang",
            "engine_version": "0.5.4",
        },
        **{
            "tp": "1",
            "pp": "1",
            "attn_dp": "8",
            "ep": "8",
            "isl": "1000",
            "osl": "200",
            "concurrency": "128",
            "lengths": "alike",
        },
    }
    assert "does not say the `model`" in refused[0].reason  # older versions did not save them


def test_gpu_telemetry_names_the_device() -> None:
    del (options := dict(OPTIONS))["device"]
    for name in ("aiperf.csv", "aiperf.json"):
        (found,), _ = read_measurements([BENCH / name], options)

        assert found.cells["device"] == "h100-sxm"


def test_replicas_share_the_load_of_a_report() -> None:
    """64 requests in flight on two equal replicas of four GPUs."""
    (found,), _ = read_measurements([BENCH / "llm_d_0_1.yaml"], {})

    assert found.cells["concurrency"] == "32"
    assert (found.cells["tp"], found.cells["engine"], found.cells["device"]) == ("4", "vllm", "h100-sxm")
    assert (found.ttft_ms, found.tpot_ms) == (189.1, 19.7)


@pytest.mark.parametrize("name", ["llm_d_0_1.yaml", "llm_d_0_2.yaml"])
def test_a_report_says_the_same_as_json(tmp_path: Path, name: str) -> None:
    path = tmp_path / "report.json"
    data = YAML(typ="safe").load(BENCH / name)
    path.write_text(json.dumps(data, default=str))
    (as_json,), _ = read_measurements([path], {})
    (as_yaml,), _ = read_measurements([BENCH / name], {})

    assert (as_json.cells, as_json.ttft_ms, as_json.note) == (as_yaml.cells, as_yaml.ttft_ms, as_yaml.note)


def test_data_parallel_ranks_are_attention_dp_of_experts_and_replicas_of_dense_models(tmp_path: Path) -> None:
    text = (BENCH / "llm_d_0_1.yaml").read_text().replace("dp: 1", "dp: 2")
    dense, moe = tmp_path / "dense.yaml", tmp_path / "moe.yaml"
    dense.write_text(text)
    moe.write_text(text.replace("meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-235B-A22B"))

    assert one(dense, model="").cells["concurrency"] == "16"
    (found,), _ = read_measurements([moe], {})
    assert (found.cells["concurrency"], found.cells["attn_dp"]) == ("32", "2")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "qwen3-8b"}, "measured `meta-llama/Llama-3.1-8B-Instruct`, not `qwen3-8b`"),
        ({"model": "meta-llama/Llama-3.1-8B"}, None),
        ({"model": ""}, None),
    ],
)
def test_a_model_is_what_file_and_option_agree_on(options: dict[str, str], reason: str | None) -> None:
    if reason:
        assert reason in refusal(BENCH / "vllm.json", **options)
    else:
        assert one(BENCH / "vllm.json", **options).cells["model"] == "meta-llama/Llama-3.1-8B-Instruct"


def test_a_served_name_of_its_own_needs_the_option(tmp_path: Path) -> None:
    path = changed(tmp_path, "vllm.json", model_id="my-chat-model")

    assert one(path).cells["model"] == "llama-3.1-8b"
    assert "unknown model `my-chat-model`" in refusal(path, model="")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ROW.replace("58.4", "fast"), '`measured_ttft_ms` must be a number, got text "fast"'),
        (ROW.replace("7.21", "nan"), "`measured_tpot_ms` must be a finite number"),
        (ROW.replace("7.21", "0"), "`measured_tpot_ms` must be greater than 0"),
        (ROW.replace("58.4", "-3"), "`measured_ttft_ms` must be greater than 0"),
        (ROW.replace("58.4,7.21", ","), "neither a TTFT nor a TPOT"),
        (ROW.replace("7.21", "0.012"), "TPOT of 0.012 ms: is it in seconds?"),
        (ROW.replace("58.4", "0.0584"), "TTFT of 0.0584 ms: is it in seconds?"),
        (ROW.replace("58.4", "3600001"), "TTFT of 3,600 s: is it in another unit than ms?"),
        (ROW.replace("7.21", "2.2"), "a step takes h100-sxm at least"),
        (ROW.replace("58.4", "9"), "a prompt of 1000 tokens takes h100-sxm at least"),
        (ROW.replace("200,16", "1,16"), "a TPOT of requests that have one token"),
        (
            ROW.replace("llama-3.1-8b", "llama-3.1-9b"),
            "unknown model `llama-3.1-9b`; did you mean llama-3.1-8b",
        ),
        (ROW.replace("h100-sxm", "h100-sxn"), "unknown GPU `h100-sxn`; did you mean `h100-sxm`"),
        (ROW.replace("sxm,1,", "sxm,3,"), "tp 3 does not divide"),
        (ROW.replace("1000,200", "1000.5,200"), "`isl` must be a whole number"),
        (ROW.replace("200,16", "200,many"), "`concurrency` must be a number"),
        (ROW + ",7", "the line has 9 cells, the header 8"),
        (ROW, "the same as "),
    ],
)
def test_a_nonsense_line_is_refused_by_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\n{ROW}\n\n{line}\n")
    used, refused = read_measurements([path], {})

    assert len(used) == 1
    assert refused[0].where == f"{path}:4"
    assert reason in refused[0].reason


def test_the_same_again_with_other_figures_is_a_repeat_not_a_duplicate(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\n{ROW}\n{ROW.replace('7.21', '7.26')}\n")

    assert len(read_measurements([path], {})[0]) == 2


def test_a_file_given_twice_is_refused_the_second_time() -> None:
    used, refused = read_measurements([BENCH / "vllm.json"] * 2, {})

    assert (len(used), refused[0].reason) == (1, f"the same as {BENCH / 'vllm.json'}")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"completed": 0, "failed": 160}, "no request was completed"),
        ({"failed": 9}, "9 of 169 requests failed"),
        ({"mean_ttft_ms": 0.0}, "TTFT of 0 ms: was the run streamed?"),
        ({"mean_tpot_ms": float("nan")}, "`mean_tpot_ms` must be a number, got NaN"),
        ({"mean_ttft_ms": "58 ms"}, '`mean_ttft_ms` must be a number, got text "58 ms"'),
        ({"mean_tpot_ms": 0.007214}, "Little's law finds"),
        ({"duration": 100.0}, "Little's law finds 2.39 requests in flight, not 16"),
        ({"spec_decode_acceptance_length": 2.4}, "speculative decoding"),
        ({"max_concurrency": None}, "all requests were sent at once"),
        (
            {"max_concurrency": None, "request_rate": 40.0},
            "no steady state: 40 requests/s were sent, 10.4 completed",
        ),
        ({"total_input_tokens": None}, "does not say the `isl`"),
        ({"device": "h100-sxm-40gb"}, "no such GPU with 40 GB"),
    ],
)
def test_a_run_that_cannot_be_used_says_why(tmp_path: Path, fields: dict[str, object], reason: str) -> None:
    assert reason in refusal(changed(tmp_path, "vllm.json", **fields), device="")


def test_drafted_and_accepted_tokens_of_a_vllm_run_are_columns(tmp_path: Path) -> None:
    """3 tokens were drafted 1000 times, 1400 of them accepted."""
    counts = {"num_drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 1400, "acceptance_length": 2.4}
    found = one(changed(tmp_path, "vllm.json", **{f"spec_decode_{k}": v for k, v in counts.items()}))

    assert (found.cells["draft_tokens"], found.cells["accepted_tokens"]) == ("3", "1.4")


def test_a_median_or_a_mean_of_gaps_stands_in_for_a_mean(tmp_path: Path) -> None:
    path = changed(tmp_path, "vllm.json", mean_ttft_ms=None, mean_tpot_ms=None, median_tpot_ms=None)
    found = one(path)

    assert (found.ttft_ms, found.tpot_ms) == (52.571, 7.214)
    assert found.note == "TTFT is a median; TPOT is a mean of gaps"


def test_a_crowd_at_the_start_says_nothing_of_ttft(tmp_path: Path) -> None:
    totals = {"total_input_tokens": 16_000, "total_output_tokens": 3_200}
    found = one(changed(tmp_path, "vllm.json", num_prompts=16, completed=16, duration=1.6, **totals))

    assert found.ttft_ms is None
    assert found.tpot_ms == 7.214
    assert "TTFT left out" in found.note


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dataset_name": "generated-shared-prefix"}, "its prompts share prefixes"),
        ({"accept_length": 2.1}, "speculative decoding"),
        ({"server_info": {"prefill": [{}], "decode": [{}]}}, "prefill and decode ran on different GPUs"),
        (
            {"server_info": {"disaggregation_mode": "decode"}},
            "prefill and decode ran on different GPUs",
        ),
        ({"server_info": {"tp_size": 2.5}}, "`tp_size` must be a whole number"),
        ({"errors": ["", "timeout"] * 640}, "640 of 1920 requests failed"),
    ],
)
def test_an_sglang_run_that_cannot_be_used_says_why(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    assert reason in refusal(changed(tmp_path, "sglang.jsonl", **fields), model="", device="h200")


def test_shared_prefixes_are_read_once_the_share_found_is_given(tmp_path: Path) -> None:
    path = changed(tmp_path, "sglang.jsonl", dataset_name="generated-shared-prefix")

    assert one(path, model="", device="h200", prefix_hit="0.8").cells["prefix_hit"] == "0.8"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "    - replica\n    - replica",
            "    - prefill\n    - decode",
            "prefill and decode ran on different GPUs",
        ),
        ("count: 4", "count: 8", "replicas of different kinds"),
        ("units: ms\n", "units: min\n", "`request_latency` is in `min`"),
        ("total: 640", "total: 640\n    failures: 64", "64 of 640 requests failed"),
    ],
)
def test_a_report_that_cannot_be_used_says_why(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "report.yaml"
    path.write_text((BENCH / "llm_d_0_1.yaml").read_text().replace(old, new, 1))

    assert reason in refusal(path, model="")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "b": 2}', "the fields a, b"),
        ("[]", "an empty list"),
        ("a: 1\n", "the fields a"),
        ("time,tokens\n1,2\n", 'text "time,tokens 1,2"'),
        ("12", "12"),
    ],
)
def test_an_unknown_form_is_told_what_is_accepted(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "what.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_measurements([path], OPTIONS)

    assert f"it holds {found}" in caught.value.message
    assert "vllm bench serve" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (f"{HEADER}\n", "no measurements", "accepted"),
        (
            f"{HEADER.replace('concurrency', 'concurency')}\n{ROW}\n",
            "unknown column `concurency`",
            "`concurrency`",
        ),
        (f"{HEADER.replace('measured_t', 't')}\n{ROW}\n", "column `measured_tpot_ms` is missing", "tpot_ms"),
        (f"{HEADER}\n{ROW}\n".replace(",", ";"), "is missing", "commas"),
        ('{"completed": 1,', "not valid JSON", "accepted"),
        ("[" * 100_000, "not JSON that can be read", ""),
        ('{"completed": ' + "9" * 5000 + "}", "not JSON that can be read", ""),
        ("a: [1\n", "not valid YAML", "accepted"),
        ('Metric,avg\n"x', "not a valid CSV line", ""),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = tmp_path / "bench.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_measurements([path], OPTIONS)

    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_when_nothing_is_left_the_first_reasons_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([HEADER, *[ROW.replace("h100-sxm", f"h{i}") for i in range(7)]]))
    with pytest.raises(InputError) as caught:
        read_measurements([path], {})

    assert caught.value.message == "none of 7 measurements can be used"
    assert f"{path}:2: unknown GPU `h0`" in (caught.value.hint or "")
    assert "and 2 more" in (caught.value.hint or "")


def test_no_such_file() -> None:
    with pytest.raises(InputError, match="no such file"):
        read_measurements([BENCH / "vlm.json"], {})


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
NAMES = ["vllm.json", "sglang.jsonl", "genai_perf.json", "aiperf.json"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(NAMES), data=st.data())
def test_any_value_in_any_field_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    fields = json.loads(
        (BENCH / name).read_text().splitlines()[0] if name.endswith("l") else (BENCH / name).read_text()
    )
    key = data.draw(st.sampled_from(sorted(fields)))
    (tmp_path / name).write_text(json.dumps(fields | {key: data.draw(ANY)}))

    with suppress(InputError):
        read_measurements([tmp_path / name], {"device": "h200", "tp": "1", "engine": "vllm"})


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=60) | st.text(alphabet='Metric,"\n{}[]:-. 1avg', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_an_input_error(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "any").write_bytes(body)

    with suppress(InputError):
        read_measurements([tmp_path / "any"], OPTIONS)
