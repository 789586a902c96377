"""Runs of static batches on older hardware: what a row means, and figures that a fit finds again."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import older_hardware as older
from benchmarks.older_runs import DEVICES, RUNS, grouped, model, read, unusable
from planner.predict.predictions import predict_rows

ROW = {
    "hardware": "H100", "framework": "vLLM", "model": "meta-llama/Llama-2-7b-hf", "n_devices": "1",
    "input_len": "512", "output_len": "101", "batch": "8", "effective_batch": "8.0", "tp": "1.0", "pp": "",
    "ep": "", "weight_dtype": "fp16", "kv_dtype": "", "latency_s": "2.0", "faster_than_memory_bandwidth": "0",
}  # fmt: skip
HOST = {"step_us": 1000.0, "sequence_us": 50.0, "message_wait_us": 10.0}


def runs(*rows):
    """Runs that differ from ROW as told."""
    return grouped([ROW | row for row in rows or [{}]])


def took(r, host):
    """Seconds of one run with so much of the engine's own time."""
    return older.seconds(r, "vllm", replace(older.UNCHANGED, host=host))[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"framework": "sambaflow"}, "not offered"),
        ({"faster_than_memory_bandwidth": "1"}, "faster than memory"),
        ({"output_len": "1"}, "no latency"),
        ({"model": "huggyllama/llama-7b", "input_len": "2000"}, "longer than the model's context"),
        ({"model": "nobody/knows"}, "without a card"),
        ({"kv_dtype": "int8"}, "int8 KV cache"),
    ],
)
def test_rows_that_say_nothing_are_left_out_with_a_reason(changes, reason):
    found = unusable(ROW | changes)

    assert reason in found
    assert bool(found) == bool(reason)


def test_a_module_of_two_dies_is_two_devices_to_engines():
    designs = runs({"hardware": "MI250", "n_devices": "2"}).designs

    assert (designs.tp[0], designs.pp[0]) == (4, 1)


def test_llama_cpp_divides_by_layers_and_its_batch_is_of_prompt_tokens():
    r = runs({"framework": "llama.cpp", "n_devices": "4", "batch": "16", "effective_batch": "1"})

    assert (r.designs.tp[0], r.designs.pp[0]) == (1, 4)
    assert r.prompt_tokens == 16
    assert r.batch[0] == 1


@pytest.mark.parametrize(
    ("hardware", "version"), [("H100", "0.6"), ("H100", ""), ("MI300X", "v0.6.3"), ("Gaudi2", "")]
)
def test_a_run_takes_what_predict_says_of_its_row(hardware, version):
    """64 sequences of up to 4096 tokens are 137 GB, more than an H100's 86: some wait."""
    r = runs(
        {
            "hardware": hardware,
            "batch": "64",
            "effective_batch": "64",
            "input_len": "2048",
            "output_len": "2048",
        }
    )
    engine = "vllm-0.6" if version else "vllm"
    row = {"model": "meta-llama/Llama-2-7b-hf", "device": DEVICES[hardware], "engine_version": version,
           "isl": "2048", "osl": "2048", "concurrency": "64"}  # fmt: skip
    (answer,) = predict_rows([row])

    assert older.seconds(r, engine)[0] == pytest.approx(64 * 2048 / answer.out_tok_per_s)


def test_models_of_one_shape_are_held_out_together():
    names = ("meta-llama/Meta-Llama-3-8B", "mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1")
    llama, mistral, mixtral = (replace(runs(), card=model(name)).family for name in names)

    assert llama == mistral != mixtral


def test_an_engines_own_time_counts_once_a_step():
    """100 steps of 8 sequences and one of prompts, where nothing passes beside them: 101 ms a millisecond,
    0.8 ms a microsecond a sequence; 64 all-reduces a step between two GPUs, none alone."""
    one, two = runs(), runs({"n_devices": "2", "tp": "2.0"})
    host = HOST | {"request_us": 0.0}

    assert took(one, host | {"step_us": 2000.0}) - took(one, host) == pytest.approx(0.101, rel=0.02)
    assert took(one, host | {"sequence_us": 51.0}) - took(one, host) == pytest.approx(0.0008, rel=0.02)
    assert took(one, host | {"message_wait_us": 11.0}) == took(one, host)
    assert took(two, host | {"message_wait_us": 11.0}) - took(two, host) == pytest.approx(
        101 * 64e-6, rel=0.1
    )


def test_a_link_takes_a_fixed_time_and_a_share_of_its_rate():
    """A MiB over two at half of 100 GB/s: 20 us and 21 us."""
    curve = dict(older.anchors({"link_us": 20.0, "link_share": 0.5}, 100e9)[2])

    assert curve[256] == pytest.approx(20.0, abs=0.1)
    assert curve[1 << 20] == pytest.approx(41.0, abs=0.1)


def made(subject, figures, *groups):
    """The groups as if they had taken what such figures say."""
    return [replace(g, seconds=older.timed(subject, g, figures)) for g in groups]


def test_a_fit_finds_the_figures_that_made_the_runs():
    known = {"step_us": 1500.0, "sequence_us": 80.0, "message_wait_us": 15.0}
    alone = [{"effective_batch": str(b)} for b in 30 * (1, 16, 64)]
    four = [{"effective_batch": str(b), "n_devices": "4", "tp": "4.0"} for b in 30 * (1, 64)]
    subject = older.SUBJECTS[0]
    found = older.fit(subject, made(subject, known, runs(*alone), runs(*four)))

    assert found == pytest.approx(known, rel=0.1)


def test_what_is_held_out_is_not_fitted_to():
    """Two devices whose runs take 1 and 3 ms a step more: each is predicted with the other's."""
    subject, many = older.SUBJECTS[0], 20 * [{}, {"effective_batch": "64"}]
    groups = [
        *made(subject, HOST | {"step_us": 1000.0}, runs(*many)),
        *made(subject, HOST | {"step_us": 3000.0}, runs(*({"hardware": "GH200"} | row for row in many))),
    ]
    start = HOST | {"step_us": 1700.0}
    h100, gh200 = older.without(subject, groups, lambda g: g.hardware, start)

    assert (h100 > groups[0].seconds).all()
    assert (gh200 < groups[1].seconds).all()
    assert np.isnan(older.without(subject, groups, lambda g: g.family, start)).all()  # one family


@pytest.mark.parametrize("subject", older.SUBJECTS, ids=lambda s: f"{s.engine} {s.hardware[0]}")
def test_files_hold_the_figures_that_were_fitted(subject):
    """Written out and read again, they predict the same."""
    r = runs({"hardware": subject.hardware[0], "framework": subject.framework, "n_devices": "2", "tp": "2.0"})
    figures = older.shipped_figures(subject)

    assert figures.keys() == subject.figures.keys()
    assert older.timed(subject, r, figures) == pytest.approx(older.seconds(r, subject.engine), rel=0.02)


@pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")
def test_the_median_error_is_at_most_25_percent_on_every_device():
    """Of every fourth group of runs."""
    groups, _ = read()
    off = {hardware: [] for hardware in DEVICES}
    for subject in older.SUBJECTS:
        for g in groups[::4]:
            if g.framework == subject.framework and g.hardware in subject.hardware:
                off[g.hardware].extend(g.seconds / older.seconds(g, subject.engine) - 1)

    assert max(np.median(np.abs(errors)) for errors in off.values()) < 0.25
