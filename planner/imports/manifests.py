"""Manifests of orchestrators → servers: a reader each, by what the document says of itself.

Forms as read in Dynamo's operator types (v1alpha1, v1beta1), KServe's LLMInferenceService (v1alpha1,
v1alpha2), the llm-d ModelService chart 0.4.12, ray 2.60.0's LLMConfig, Kubernetes' workloads,
LeaderWorkerSet, Compose, and TensorRT-LLM's LLM arguments. GPUs are counted as the orchestrator counts them
(Dynamo's operator, llm-d's chart): replicas x nodes x the limit of the container.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from planner.errors import InputError
from planner.imports.commands import of_container
from planner.imports.deployment import Deployment, Group, Role, Server
from planner.imports.limits import MOST_OF_A_KIND
from planner.imports.servers import server

Doc = Mapping[str, Any]
Files = Mapping[str, str]
Reader = Callable[[Doc, Files], Iterator[Group]]
ALONE = "tensorrt-llm"
GPU_KEYS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "gpu.intel.com/i915", "gpu")


def read(documents: Sequence[Any], name: str = "", files: Mapping[str, str] | None = None) -> Deployment:
    """All servers of the documents; none where none is known. `files` lie beside them, and so does what
    ConfigMaps hold."""
    known, beside = [x for x in documents if isinstance(x, dict)], dict(files or {})
    for document in known:
        if document.get("kind") == "ConfigMap" and isinstance(held := document.get("data"), dict):
            beside |= {str(k): str(v) for k, v in held.items()}
    found: list[tuple[str, Group]] = []
    for kind, (matches, reader) in READERS.items():
        if not (found and kind == ALONE):  # a file of arguments beside manifests is one that these name
            found += [(kind, g) for x in known if matches(x) for g in _groups(kind, reader, x, beside, name)]
    groups = _whole([g for _, g in found])
    warnings = tuple(w for g in groups for w in _doubts(g))
    facts = next((dict(g.facts) for g in groups if "gpus_max" in g.facts), {})
    return Deployment(found[0][0] if found else "", tuple(groups), warnings, facts)


def _groups(kind: str, reader: Reader, doc: Doc, files: Files, name: str) -> list[Group]:
    """The groups of one document. Raises InputError where a part of it is of another kind than its form has:
    text for named fields, a word for a number."""
    try:
        return list(reader(doc, files))
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        told = doc.get("metadata") or {}
        own = f" `{told['name']}`" if isinstance(told, dict) and told.get("name") else ""
        message = f"the {kind} manifest{own} has a part that is not of its form: {error}"
        raise InputError(message, name or "the text") from None


def _whole(groups: Sequence[Group]) -> list[Group]:
    """Groups without those that are further nodes of another's server, which is then counted whole."""
    tails = {g.server.together for g in groups if g.server.secondary}
    heads = [g for g in groups if not g.server.secondary]
    return [replace(g, gpus=None) if g.server.together in tails else g for g in heads] or list(groups)


def _doubts(g: Group) -> Iterator[str]:
    """Where the command and what stands around it contradict each other."""
    s = g.server
    if g.gpus and g.gpus != s.gpus:
        yield f"the manifest gives a server {g.gpus} GPUs, its command takes {s.gpus}"


def env_of(container: Doc) -> dict[str, str]:
    """Plain values of a container's environment."""
    told = container.get("env") or container.get("environment") or []
    if isinstance(told, dict):
        return {str(k): str(v) for k, v in told.items()}
    pairs = [
        x if isinstance(x, dict) else dict(zip(("name", "value"), str(x).partition("=")[::2], strict=True))
        for x in told
    ]
    return {str(x["name"]): str(x["value"]) for x in pairs if "name" in x and "value" in x}


def words_of(container: Doc) -> list[str]:
    """Command and arguments; a single string is split as a shell would."""
    found: list[str] = []
    for part in (container.get("entrypoint"), container.get("command"), container.get("args")):
        found += shlex.split(part) if isinstance(part, str) else [str(x) for x in part or []]
    return found


ALL = -1
"""Devices of a Compose service, as Docker counts all that there are."""


def whole_count(value: Any) -> int:
    """A number of things. Raises ValueError where it is none that a cluster has."""
    if abs(found := int(value)) > MOST_OF_A_KIND:
        raise ValueError(f"{str(value)[:20]}… is more than {MOST_OF_A_KIND:,}")
    if found < 0:
        raise ValueError(f"{found} of a thing are fewer than none")
    return found


def gpus_of(container: Doc) -> int | None:
    """The container's limit of GPUs."""
    resources = container.get("resources") or {}
    for part in ("limits", "requests"):
        for key in GPU_KEYS:
            if (said := (resources.get(part) or {}).get(key)) is not None:
                return whole_count(said)
    return None


def started(container: Doc, files: Files, further: Mapping[str, str] | None = None) -> Server | None:
    """The server that a container starts."""
    env = {**env_of(container), **(further or {})}
    return of_container(words_of(container), env, str(container.get("image", "")), files)


def _as(s: Server, role: str | None) -> Server:
    roles: dict[str, Role] = {"prefill": "prefill", "decode": "decode"}
    return replace(s, role=roles[role]) if role in roles else s


def _dynamo(doc: Doc, files: Files) -> Iterator[Group]:
    spec = doc["spec"]
    parts = spec.get("components") or [{"name": n, **c} for n, c in (spec.get("services") or {}).items()]
    for part in parts:
        pod = (part.get("podTemplate") or {}).get("spec") or {}
        extra = (part.get("extraPodSpec") or {}).get("mainContainer") or {}
        containers = pod.get("containers") or [
            {**extra, "env": [*(part.get("envs") or []), *(extra.get("env") or [])]}
        ]
        main = next((c for c in containers if c.get("name") == "main"), containers[0])
        s = started(main, files)
        if s is None:
            continue
        role = str(
            part.get("type") or part.get("subComponentType") or part.get("componentType") or ""
        ).lower()
        if role not in ("prefill", "decode"):
            role = next((r for r in ("prefill", "decode") if r in str(part.get("name", "")).lower()), "")
        nodes = whole_count((part.get("multinode") or {}).get("nodeCount") or 1)
        each = gpus_of(main) or gpus_of(part) or 0
        s = _as(s, role) if s.role == "mixed" else s
        yield Group(s, whole_count(part.get("replicas", 1)), gpus=each * nodes or None)


def _kserve(doc: Doc, files: Files) -> Iterator[Group]:
    spec = doc["spec"]
    model = spec.get("model") or {}
    name = model.get("name") or str(model.get("uri", "")).removeprefix("hf://")
    for role, part in (("decode" if "prefill" in spec else "", spec), ("prefill", spec.get("prefill") or {})):
        if not part:
            continue
        containers = (part.get("template") or {}).get("containers") or [{}]
        main = next((c for c in containers if c.get("name") == "main"), containers[0])
        sizes, env = part.get("parallelism") or {}, env_of(main)
        argv = [name, *words_of(main)[2 if words_of(main)[:2] == ["vllm", "serve"] else 0 :]]
        for key, flag in _KSERVE.items():
            if key in sizes and sizes[key] is not False:
                argv += [flag] + ([] if sizes[key] is True else [str(sizes[key])])
        argv += shlex.split(env.get("VLLM_ADDITIONAL_ARGS", ""))
        s = _as(server("vllm", argv, env), role)
        ranks = whole_count(sizes.get("data") or 1)
        workers = ranks // max(whole_count(sizes.get("dataLocal") or ranks), 1)
        each, pods = (
            gpus_of(main),
            workers * whole_count(sizes.get("pipeline") or 1) if "worker" in part else 1,
        )
        yield Group(s, whole_count(part.get("replicas", 1)), gpus=each * pods if each else None)


_KSERVE: Final = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
    "expert": "--enable-expert-parallel",
}


def _llmd(doc: Doc, files: Files) -> Iterator[Group]:
    model = str((doc.get("modelArtifacts") or {}).get("name", ""))
    usual = (doc.get("accelerator") or {}).get("type")
    parts = [doc.get(role) or {} for role in ("prefill", "decode")]
    pair = all(part and part.get("create") is not False for part in parts)
    for role in ("prefill", "decode"):
        part = doc.get(role) or {}
        if not part or part.get("create") is False:
            continue
        sizes = part.get("parallelism") or {}
        main = (part.get("containers") or [{}])[0]
        tp, data = whole_count(sizes.get("tensor") or 1), whole_count(sizes.get("data") or 1)
        words = words_of(main)
        own = (
            ["--tensor-parallel-size", str(tp), "--data-parallel-size", str(data)]
            if "modelCommand" in main
            else []
        )
        s = (
            server("vllm", [model, *words, *own], env_of(main))
            if main.get("modelCommand") != "custom"
            else started(main, files)
        )
        if s is not None:
            kind = (part.get("accelerator") or {}).get("type") or usual
            facts = {"accelerator": kind} if kind else {}
            yield Group(_as(s, role if pair else ""), whole_count(part.get("replicas", 1)), facts=facts)


def _ray(doc: Doc, files: Files) -> Iterator[Group]:
    for application in doc.get("applications") or [doc]:
        args = application.get("args") or application
        own = [("", x) for x in args.get("llm_configs") or []]
        own += [(role, args[f"{role}_config"]) for role in ("prefill", "decode") if f"{role}_config" in args]
        for role, config in own:
            kwargs = config.get("engine_kwargs") or {}
            loading = config.get("model_loading_config") or {}
            argv = [str(loading.get("model_source") or loading.get("model_id"))]
            for key, value in kwargs.items():
                argv += _flag(key, value)
            s = _as(server("vllm", argv, {}), role)
            counts = config.get("deployment_config") or {}
            grows = counts.get("autoscaling_config") or {}
            least = whole_count(counts.get("num_replicas") or grows.get("min_replicas") or 1)
            facts: dict[str, Any] = {}
            if kind := config.get("accelerator_type"):
                facts["accelerator"] = kind
            if most := grows.get("max_replicas"):
                facts |= {"replicas": [least, whole_count(most)], "gpus_max": whole_count(most) * s.gpus}
            yield Group(
                replace(s, facts={**s.facts, **({"accelerator": kind} if kind else {})}), least, facts=facts
            )


def _flag(key: str, value: object) -> list[str]:
    import json

    name = "--" + key.replace("_", "-")
    if isinstance(value, bool):
        return [name] if value else ["--no-" + name[2:]]
    return [name, json.dumps(value) if isinstance(value, dict | list) else str(value)]


def _workload(doc: Doc, files: Files) -> Iterator[Group]:
    """Pods, Deployments, StatefulSets, Jobs and LeaderWorkerSets."""
    spec = doc.get("spec") or {}
    leader = spec.get("leaderWorkerTemplate") or {}
    template = (
        (leader.get("leaderTemplate") or leader.get("workerTemplate")) if leader else spec.get("template")
    )
    pod = (template or {}).get("spec") or (spec if "containers" in spec else {})
    name, labels = (
        str((doc.get("metadata") or {}).get("name", "")),
        (doc.get("metadata") or {}).get("labels") or {},
    )
    for container in pod.get("containers") or []:
        s = started(container, files)
        if s is not None:
            role = next((r for r in ("prefill", "decode") if r in f"{name} {labels}".lower()), "")
            each = gpus_of(container)
            s = _as(s, role) if s.role == "mixed" and s.facts.get("kv_connector") else s
            yield Group(
                s,
                whole_count(spec.get("replicas") or 1),
                gpus=each * whole_count(leader.get("size") or 1) if each else None,
            )


def _compose(doc: Doc, files: Files) -> Iterator[Group]:
    for name, service in doc["services"].items():
        deploy = service.get("deploy") or {}
        devices = (((deploy.get("resources") or {}).get("reservations") or {}).get("devices")) or []
        ids = [str(i) for d in devices for i in d.get("device_ids") or []]
        count = len(ids) or next(
            (
                whole_count(d["count"])
                for d in devices
                if isinstance(d.get("count"), int) and d["count"] != ALL
            ),
            None,
        )
        s = started(service, files, {"CUDA_VISIBLE_DEVICES": ",".join(ids)} if ids else None)
        if s is not None:
            role = next((r for r in ("prefill", "decode") if r in name.lower()), "")
            yield Group(
                _as(s, role) if s.role == "mixed" else s, whole_count(deploy.get("replicas") or 1), gpus=count
            )


def _llm_args(doc: Doc, files: Files) -> Iterator[Group]:
    import json

    s = server("trtllm", ["--config", "this.yaml"], {}, {"this.yaml": json.dumps(doc)})
    yield Group(replace(s, facts={**s.facts, "model": s.facts["model"] or "(given on the command line)"}))


def _kind(*kinds: str) -> Callable[[Doc], bool]:
    return lambda doc: str(doc.get("kind")) in kinds


READERS: Final[dict[str, tuple[Callable[[Doc], bool], Reader]]] = {
    "dynamo": (_kind("DynamoGraphDeployment"), _dynamo),
    "kserve": (_kind("LLMInferenceService"), _kserve),
    "kubernetes": (
        _kind("Pod", "Deployment", "StatefulSet", "Job", "ReplicaSet", "LeaderWorkerSet"),
        _workload,
    ),
    "llm-d": (lambda doc: "modelArtifacts" in doc and ("decode" in doc or "prefill" in doc), _llmd),
    "ray-serve": (lambda doc: "applications" in doc or "llm_configs" in doc or "prefill_config" in doc, _ray),
    "compose": (lambda doc: isinstance(doc.get("services"), dict), _compose),
    "tensorrt-llm": (
        lambda doc: "tensor_parallel_size" in doc or "moe_expert_parallel_size" in doc,
        _llm_args,
    ),
}
"""What a document is told by, and its reader."""
