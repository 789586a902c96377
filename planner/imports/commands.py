"""Commands that start servers: which words of one are the engine's program, and what stands around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planner.imports.deployment import Server
from planner.imports.servers import server
from planner.imports.shell import Command, script

PROGRAMS: dict[tuple[str, ...], tuple[str, str]] = {
    ("vllm", "serve"): ("vllm", ""),
    ("-m", "vllm.entrypoints.openai.api_server"): ("vllm", ""),
    ("-m", "sglang.launch_server"): ("sglang", ""),
    ("sglang", "serve"): ("sglang", ""),
    ("-m", "dynamo.vllm"): ("vllm", "dynamo-vllm"),
    ("-m", "dynamo.sglang"): ("sglang", "dynamo-sglang"),
    ("-m", "dynamo.trtllm"): ("trtllm", "dynamo-trtllm"),
    ("trtllm-serve",): ("trtllm", ""),
    ("llama-server",): ("llama.cpp", ""),
    ("llama.cpp-server",): ("llama.cpp", ""),
}
"""How an engine's server is called: the engine, and the table of further flags."""

IMAGES = {
    "vllm-openai": "vllm",
    "llm-d": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "trtllm",
    "llama.cpp": "llama.cpp",
}
"""Images whose entry point is the server, by a part of their names."""


def servers(text: str, files: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Every server that shell text starts."""
    told = script(text)
    for command in told.commands:
        found = of_command(command, {**(files or {}), **told.files})
        if found is not None:
            yield found


def of_command(command: Command, files: Mapping[str, str] | None = None) -> Server | None:
    """The server of one command, behind `docker run`, `srun`, `mpirun` and the like, too."""
    words = list(command.argv)
    if (
        len(words) > 2
        and words[0].rsplit("/", 1)[-1] in ("bash", "sh")
        and words[1].startswith("-")
        and "c" in words[1]
    ):
        inner = [of_command(c, files) for c in script(" ".join(words[2:3])).commands]
        return next((s for s in inner if s is not None), None)
    env = {**command.env, **_told(words)}
    for i in range(len(words)):
        for names, (engine, beside) in PROGRAMS.items():
            own = (words[i].rsplit("/", 1)[-1], *words[i + 1 : i + len(names)])
            if own == names and words[i + len(names) :][:1] != ["disaggregated"]:
                return server(engine, words[i + len(names) :], env, files, beside)
    return _of_image(words, env, files)


def _told(words: Sequence[str]) -> dict[str, str]:
    """Environment by `-e NAME=VALUE`, `--env NAME=VALUE`, `env NAME=VALUE`, and GPUs by `--gpus`."""
    found = {}
    for before, word in zip(["", *words], words, strict=False):
        name, equals, value = word.removeprefix("--env=").partition("=")
        if (
            equals
            and name.isidentifier()
            and (before in ("-e", "--env", "env") or word.startswith("--env=") or not before)
        ):
            found[name] = value
        if before == "--gpus" and "device=" in word:
            found.setdefault("CUDA_VISIBLE_DEVICES", word.partition("device=")[2].strip("'\""))
    return found


def _of_image(words: Sequence[str], env: Mapping[str, str], files: Mapping[str, str] | None) -> Server | None:
    """A container whose image starts the server by itself."""
    if not words or words[0].rsplit("/", 1)[-1] not in ("docker", "podman", "nerdctl"):
        return None
    for i, word in enumerate(words[1:], 1):
        engine = image_engine(word)
        if engine and not word.startswith("-"):
            return server(engine, words[i + 1 :], env, files)
    return None


def image_engine(image: str) -> str | None:
    """The engine that an image starts."""
    return next((engine for part, engine in IMAGES.items() if part in image.lower()), None)


def of_container(
    argv: Sequence[str], env: Mapping[str, str], image: str, files: Mapping[str, str] | None = None
) -> Server | None:
    """The server of a container: its command, or its image with arguments."""
    found = of_command(Command(tuple(argv), dict(env)), files)
    engine = image_engine(image)
    if (
        found is None
        and engine
        and argv
        and not any(w.endswith(("frontend", "router", "proxy")) for w in argv)
    ):
        found = server(engine, list(argv), env, files)
    return found
