"""Result files of serving benchmarks by hand: which form a file has, and what each of its fields becomes."""

import json

import pytest

from planner.calibration.fields import Fields
from planner.calibration.formats import perf, runs, sglang, vllm
from planner.calibration.formats.engines import mean_of
from planner.errors import InputError

VLLM = {
    "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B",
    "completed": 100,
    "num_prompts": 104,
    "duration": 50.0,
    "total_input_tokens": 100_000,
    "total_output_tokens": 25_600,
    "mean_ttft_ms": 120.0,
    "median_ttft_ms": 110.0,
    "mean_tpot_ms": 15.0,
    "max_concurrency": 8,
    "request_rate": "inf",
}
SGLANG = {
    **VLLM,
    "backend": "sglang",
    "mean_e2e_latency_ms": 4000.0,
    "dataset_name": "random",
    "random_range_ratio": 1.0,
    "server_info": {
        "tp_size": 8,
        "dp_size": 2,
        "enable_dp_attention": True,
        "model_path": "m",
        "version": "0.5",
    },
}


def changed(data: dict, **values: object) -> dict:
    """`data` with other values; None: left out."""
    return {k: v for k, v in {**data, **values}.items() if v is not None}


def only(data: dict):
    """What the only run of a file is read as."""
    ((_, found),) = runs(json.dumps(data), "a.json")
    if isinstance(found, InputError):
        raise found
    return found


def test_a_run_of_vllm_is_per_request_and_per_second():
    run = only(VLLM)

    assert (run.isl, run.osl, run.rps) == (1000.0, 256.0, 2.0)
    assert (run.ttft_ms, run.tpot_ms, run.notes) == (120.0, 15.0, ())
    assert (run.completed, run.failed, run.cap) == (100.0, 4.0, 8.0)
    assert run.told["model"] == VLLM["model_id"]
    assert run.guessed == {"engine": "vllm"}
    assert run.asked_rps == float("inf")


def test_failed_requests_are_told_or_those_that_did_not_complete():
    assert only(changed(VLLM, failed=2)).failed == 2.0
    assert only(changed(VLLM, num_prompts=None)).failed == 0.0


def test_a_concurrency_that_is_not_told_has_no_limit():
    assert only(changed(VLLM, max_concurrency=None)).cap == float("inf")


def test_a_trace_has_no_rate_that_was_asked_for():
    assert only(changed(VLLM, request_rate="trace")).asked_rps is None
    assert only(changed(VLLM, request_rate=3)).asked_rps == 3.0


def test_what_whoever_ran_it_wrote_beside_the_results_is_told_but_not_the_load():
    run = only(changed(VLLM, device="h100-sxm", tp=2, isl=5))

    assert run.told | {"device": "h100-sxm", "tp": "2"} == run.told
    assert "isl" not in run.told


def test_without_a_mean_the_median_or_the_gaps_stand_in_and_that_is_said():
    assert only(changed(VLLM, mean_ttft_ms=None)).notes == ("TTFT is a median",)
    gaps = only(changed(VLLM, mean_tpot_ms=None, mean_itl_ms=16.0))
    assert (gaps.tpot_ms, gaps.notes) == (16.0, ("TPOT is a mean of gaps",))
    assert mean_of("TPOT", None, None, None) == (None, ())
    assert mean_of("TPOT", None, 3.0, 4.0) == (3.0, ("TPOT is a median",))


def test_drafts_are_tokens_a_step_and_gaps_between_chunks_are_no_tpot():
    drafted = changed(
        VLLM,
        mean_tpot_ms=None,
        mean_itl_ms=30.0,
        spec_decode_acceptance_length=2.5,
        spec_decode_num_drafts=200,
        spec_decode_draft_tokens=600,
        spec_decode_accepted_tokens=300,
    )
    run = only(drafted)

    assert (run.told["draft_tokens"], run.told["accepted_tokens"]) == ("3", "1.5")
    assert run.tpot_ms is None
    with pytest.raises(InputError, match="how many tokens were drafted"):
        only(changed(drafted, spec_decode_num_drafts=None))


def test_a_run_of_sglang_says_its_server():
    """tp counts all ranks of a stage there: 8 with 2 attention-dp ranks are tp 4."""
    run = only(SGLANG)

    assert run.told | {"engine": "sglang", "tp": "4", "attn_dp": "2", "pp": "1"} == run.told
    assert run.guessed["lengths"] == "alike"
    assert run.latency_ms == 4000.0
    assert run.replicas == 1


def test_copies_of_a_server_without_attention_dp_are_replicas():
    info = {"tp_size": 4, "dp_size": 2}
    run = only(changed(SGLANG, server_info=info))

    assert (run.told["tp"], run.told["attn_dp"], run.replicas) == ("4", "1", 2)


def test_lengths_that_vary_are_not_alike_and_shared_prefixes_are_said():
    assert "lengths" not in only(changed(SGLANG, random_range_ratio=0.5)).guessed
    assert not only(SGLANG).shares_prefix
    assert only(changed(SGLANG, dataset_name="generated-shared-prefix")).shares_prefix


def test_errors_of_details_are_failed_requests():
    assert only(changed(SGLANG, errors=["", "timeout", "", "reset"])).failed == 2.0
    assert only(SGLANG).failed == 0.0


def test_words_of_a_tag_are_columns_and_others_are_not():
    run = only(changed(SGLANG, tag="tuesday device=h100-sxm nodes=3"))

    assert run.told["device"] == "h100-sxm"
    assert "nodes" not in run.told


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"disaggregation_mode": "prefill", "tp_size": 8}, "different GPUs"),
        ({"decode": [], "prefill": []}, "different GPUs"),
        ({"tp_size": 8, "speculative_algorithm": "EAGLE"}, "speculative"),
        ({"tp_size": "eight"}, "must be a number"),
        ({"tp_size": 0.5}, "tp_size"),
    ],
)
def test_what_cannot_be_one_servers_run_is_refused(info, said):
    with pytest.raises(InputError, match=said):
        only(changed(SGLANG, server_info=info))


METRICS = {
    "request_latency": {"unit": "s", "avg": 4.0},
    "time_to_first_token": {"unit": "ms", "avg": 120.0},
    "inter_token_latency": {"unit": "us", "avg": None, "p50": 15_000.0},
    "input_sequence_length": {"avg": 1000.0},
    "output_sequence_length": {"avg": 256.0},
    "request_throughput": {"avg": 2.0},
    "request_count": {"avg": 100.0},
    "input_config": {"model_names": ["m"], "loadgen": {"concurrency": 8, "request_rate": None}},
}


def test_metrics_of_genai_perf_are_milliseconds_whatever_their_unit():
    run = only(METRICS)

    assert (run.latency_ms, run.ttft_ms, run.tpot_ms) == (4000.0, 120.0, 15.0)
    assert run.notes == ("inter_token_latency is a median",)
    assert (run.isl, run.osl, run.rps, run.completed, run.failed) == (1000.0, 256.0, 2.0, 100.0, 0.0)
    assert (run.cap, run.asked_rps, run.told) == (8.0, None, {"model": "m"})


def test_older_versions_keep_metrics_under_records():
    assert only({"records": METRICS, "input_config": METRICS["input_config"]}).ttft_ms == 120.0


def test_a_unit_that_is_unknown_is_an_error():
    with pytest.raises(InputError, match="`fortnights`"):
        only(changed(METRICS, request_latency={"unit": "fortnights", "avg": 1.0}))


def test_the_load_is_that_of_the_one_phase_that_was_measured():
    phases = [{"kind": "warmup", "concurrency": 1}, {"kind": "profiling", "concurrency": 32}]
    config = {"model_names": ["m"], "phases": phases, "loadgen": {"concurrency": 8}}

    assert only(changed(METRICS, input_config=config)).cap == 32.0
    both = {**config, "phases": [*phases, {"kind": "profiling", "concurrency": 64}]}
    assert only(changed(METRICS, input_config=both)).cap == 8.0  # of which phase is open


def test_gpus_of_one_name_are_the_device_and_of_several_none():
    def seen(*names: str):
        gpus = {str(i): {"gpu_name": name} for i, name in enumerate(names)}
        return only({**METRICS, "telemetry_data": {"endpoints": {"a": {"gpus": gpus}}}}).guessed

    assert seen("H100", "H100") == {"device": "H100"}
    assert seen("H100", "L4") == {}


def test_the_csv_of_metrics_says_the_same():
    text = (
        "Metric,avg,min,p50\n"
        "Time to First Token (ms),120.00,1,2\n"
        'Request Latency (ms),"4,000.00",1,2\n'
        "Inter Token Latency (ms),15.0,1,2\n"
        "\n"
        "Metric,Value\n"
        "Request Throughput (per sec),2.0\n"
        "Request Count (count),100\n"
    )
    ((where, run),) = runs(text, "a.csv")

    assert where == "a.csv"
    assert (run.ttft_ms, run.latency_ms, run.tpot_ms, run.rps, run.completed) == (
        120.0,
        4000.0,
        15.0,
        2.0,
        100.0,
    )
    assert run.cap is None


def test_a_form_is_known_by_its_fields():
    assert vllm.matches(Fields(VLLM))
    assert not sglang.matches(Fields(VLLM))
    assert sglang.matches(Fields(SGLANG))
    assert perf.matches(Fields(METRICS))
    assert not perf.matches(Fields(VLLM))


def test_several_runs_of_a_file_are_read_one_by_one_and_what_is_wrong_stands_at_its_place():
    text = json.dumps(VLLM) + "\n" + json.dumps({"a": 1}) + "\n" + json.dumps([SGLANG, VLLM])
    found = runs(text, "b.jsonl")

    assert [where for where, _ in found] == [
        "b.jsonl:1",
        "b.jsonl:2",
        "b.jsonl:3: entry 1",
        "b.jsonl:3: entry 2",
    ]
    assert [isinstance(x, InputError) for _, x in found] == [False, True, False, False]
    assert "the fields a" in str(found[1][1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "an empty list"),
        ('{"a": 1}', "the fields a"),
        ("{}", "no fields"),
        ('{"a": ', "not valid JSON"),
        ("[" * 5000, "not JSON that can be read"),
        ("a: [", "a.json"),
    ],
)
def test_files_that_hold_no_result_are_refused_with_what_they_hold(text, said):
    with pytest.raises(InputError) as caught:
        runs(text, "a.json")

    assert said in f"{caught.value.message} {caught.value.where}"


def test_places_are_lines_where_runs_take_several():
    text = json.dumps(VLLM, indent=1) + "\n" + json.dumps(VLLM)

    assert [where for where, _ in runs(text, "b.json")] == ["b.json:1", f"b.json:{len(VLLM) + 3}"]
