"""Which words of a command are a server, whatever stands before them."""

import pytest

from planner.imports.commands import image_engine, of_command, of_container, servers
from planner.imports.shell import Command, script

MODEL = "meta-llama/Llama-3.1-8B"


def one(text: str):
    """The only server that the text starts."""
    (found,) = servers(text)
    return found


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (f"vllm serve {MODEL} --tensor-parallel-size 4", "vllm"),
        (f"/opt/venv/bin/vllm serve {MODEL} -tp 4", "vllm"),
        (f"python3 -m vllm.entrypoints.openai.api_server --model {MODEL} -tp 4", "vllm"),
        (f"python -m sglang.launch_server --model-path {MODEL} --tp 4", "sglang"),
        (f"trtllm-serve {MODEL} --tp_size 4", "trtllm"),
        (f"numactl --cpunodebind 0 vllm serve {MODEL} -tp 4", "vllm"),
        (f"srun --nodes 1 vllm serve {MODEL} -tp 4", "vllm"),
        (f"bash -c 'vllm serve {MODEL} -tp 4'", "vllm"),
        (f"docker run --gpus all vllm/vllm-openai:latest --model {MODEL} -tp 4", "vllm"),
        (f"podman run lmsysorg/sglang:latest --model-path {MODEL} --tp 4", "sglang"),
        (f"docker run img python3 -m sglang.launch_server --model-path {MODEL} --tp 4", "sglang"),
    ],
)
def test_a_server_is_found_behind_what_starts_it(text, engine):
    found = one(text)

    assert found.engine == engine
    assert found.facts["model"] == MODEL
    assert found.facts["tp"] == 4


@pytest.mark.parametrize(
    "text",
    [
        "ls -l",
        "vllm bench serve --model x",
        "docker run nginx:latest",
        "python3 -m http.server",
        "echo vllm",
        "trtllm-serve disaggregated -c config.yaml",
        "docker ps",
    ],
)
def test_what_starts_no_server_is_none(text):
    assert list(servers(text)) == []


def test_a_script_may_start_several():
    text = f"vllm serve {MODEL} -tp 1 &\nvllm serve {MODEL} -tp 2\n"

    assert [s.facts["tp"] for s in servers(text)] == [1, 2]


def test_environment_is_that_of_the_shell_of_docker_and_of_env():
    before = one(f"VLLM_USE_V1=1 vllm serve {MODEL}")
    told = one(f"docker run -e A=1 --env B=2 --env=C=3 vllm/vllm-openai --model {MODEL}")

    assert before.env["VLLM_USE_V1"] == "1"
    assert {k: told.env[k] for k in "ABC"} == {"A": "1", "B": "2", "C": "3"}


def test_a_command_may_begin_with_its_environment():
    found = of_command(Command(("A=1", "vllm", "serve", MODEL), {}))

    assert found is not None
    assert found.env["A"] == "1"


def test_flags_of_the_form_name_value_are_no_environment():
    found = one(f"docker run --name=x -e A=1 vllm/vllm-openai --model {MODEL} --seed=1")

    assert set(found.env) == {"A"}


def test_gpus_of_docker_are_the_visible_devices():
    found = one(f"docker run --gpus '\"device=2,3\"' vllm/vllm-openai --model {MODEL} -tp 2")

    assert found.env["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        ("vllm/vllm-openai:v0.9", "vllm"),
        ("ghcr.io/llm-d/llm-d-cuda:0.3", "vllm"),
        ("LMSYSORG/SGLang", "sglang"),
        ("nvcr.io/nvidia/tensorrt-llm/release", "trtllm"),
        ("ghcr.io/ggml-org/llama.cpp:server", "llama.cpp"),
        ("nginx", None),
    ],
)
def test_an_image_is_of_an_engine_by_its_name(image, engine):
    assert image_engine(image) == engine


def test_a_container_is_its_command_or_its_image_with_arguments():
    by_command = of_container(["vllm", "serve", MODEL, "-tp", "2"], {}, "private/image")
    by_image = of_container(["--model", MODEL, "-tp", "2"], {"A": "1"}, "vllm/vllm-openai")

    assert by_command is not None
    assert by_command.facts["tp"] == 2
    assert by_image is not None
    assert by_image.facts["tp"] == 2
    assert by_image.env["A"] == "1"
    assert of_container(["--model", MODEL], {}, "nginx") is None
    assert of_container([], {}, "vllm/vllm-openai") is None
    assert of_container(["python3", "-m", "dynamo.frontend"], {}, "llm-d/llm-d-cuda") is None


def test_words_inside_sh_are_read_as_a_script_of_their_own():
    inner = Command(("sh", "-ec", f"cd /tmp && exec vllm serve {MODEL} -tp 8"), {})
    found = of_command(inner)

    assert found is not None
    assert found.facts["tp"] == 8
    assert of_command(Command(("sh", "run.sh"), {})) is None
    assert len(script("a; b").commands) == 2
