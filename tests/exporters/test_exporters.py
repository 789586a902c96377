"""Traps of single targets, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from ruamel.yaml import YAML

from planner import api
from planner.cli.app import main, run
from planner.errors import InputError
from planner.exporters import export
from planner.plans.text import text as told
from tests.exporters.samples import made, replica

PAIR = (replica("p1", "vllm", "prefill", tp=4), replica("d1", "vllm", "decode", tp=4))


def documents(text: str):
    return list(YAML(typ="safe").load_all(text))


def test_dynamos_components_are_a_list_with_roles_and_no_dp_in_the_counts():
    p = made(replica("r1", "sglang", tp=1, attn_dp=16, ep=16, count=2))
    (doc,) = documents(export(p, "dynamo")["deployment.yaml"])
    frontend, worker = doc["spec"]["components"]

    assert (frontend["type"], worker["type"], worker["replicas"]) == ("frontend", "worker", 2)
    assert worker["multinode"] == {"nodeCount": 2}
    main_ = worker["podTemplate"]["spec"]["containers"][0]
    assert main_["name"] == "main"
    assert main_["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    (pair,) = documents(export(made(*PAIR), "dynamo")["deployment.yaml"])
    assert [c["type"] for c in pair["spec"]["components"]] == ["frontend", "prefill", "decode"]


def test_kserves_pipeline_has_a_field_and_experts_are_a_switch():
    (doc,) = documents(export(made(replica("r1", "vllm", tp=2, pp=2, ep=2)), "kserve")["r1.yaml"])

    assert doc["spec"]["parallelism"] == {"tensor": 2, "pipeline": 2, "data": 1, "expert": True}
    assert "prefill" in documents(export(made(*PAIR), "kserve")["pair.yaml"])[0]["spec"]


def test_llm_ds_chart_has_no_pipeline_and_says_so():
    with pytest.raises(InputError, match="has a pipeline"):
        export(made(replica("r1", "vllm", pp=2)), "llm-d")


def test_compose_reserves_gpus_by_number():
    files = export(made(replica("r1", "vllm", count=2, tp=2)), "compose")
    services = documents(files["compose-h200-sxm-0.yaml"])[0]["services"]

    ids = [s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for s in services.values()]
    assert ids == [["0", "1"], ["2", "3"]]


@pytest.mark.parametrize("to", ["vllm", "slurm"])
def test_scripts_are_shell(to):
    for name, text in export(made(*PAIR), to).items():
        if name.endswith((".sh", ".sbatch")):
            assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
            if found := which("shellcheck") or which("shellcheck", path=str(Path(sys.executable).parent)):
                done = subprocess.run([found, "-"], input=text, text=True, capture_output=True, check=False)
                assert done.returncode == 0, done.stdout


def test_another_engine_is_refused_with_its_name():
    with pytest.raises(InputError, match="starts sglang, p1 runs on vllm"):
        export(made(*PAIR), "sglang")


def test_an_unknown_target_has_the_nearest():
    with pytest.raises(InputError) as error:
        export(made(*PAIR), "kserv")
    assert "`kserve`" in error.value.hint


def test_the_page_says_what_runs_and_what_was_assumed():
    page = export(made(*PAIR), "vllm")["README.md"]

    assert "- 1 x p1: prefill, vllm >=0.23,<0.34, 4 x h200-sxm each" in page
    assert "100 % to p1 then d1" in page
    assert "## Assumed" in page


def test_a_plan_that_does_not_hold_is_not_exported(tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(made(*PAIR).model_dump_json(by_alias=True))

    assert run(["export", str(plan), "--to", "vllm", "-o", str(tmp_path / "new")]) == 2
    assert "this plan does not hold: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_with_files_is_left_alone(tmp_path, capsys, monkeypatch):
    plan = tmp_path / "plan.json"
    plan.write_text(told(api.plan(None, "qwen3-0.6b", gpus="1xL4", engine="vllm", explain=False)))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    for words, code in (
        (["-o", str(out)], 2),
        (["-o", str(tmp_path / "new")], None),
        (["-o", str(out), "--force"], None),
    ):
        monkeypatch.setattr("sys.argv", ["meshwright", "export", str(plan), "--to", "vllm", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code in (code, 0)
    assert (out / "mine").read_text() == "x"
    assert (tmp_path / "new" / "README.md").exists()


SCHEMAS = Path(__file__).resolve().parents[3] / "shared" / "engines" / "schemas"


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="published schemas are not here")
@pytest.mark.parametrize(
    ("to", "name", "part"),
    [
        ("kserve", "kserve_llminferenceservice_v1alpha2.json", "spec"),
        ("llm-d", "llmd_modelservice_values.schema.json", "schema"),
    ],
)
def test_manifests_keep_the_published_schema(to, name, part):
    from jsonschema import Draft7Validator

    schema = Draft7Validator(json.loads((SCHEMAS / name).read_text())[part])
    wide = made(replica("r1", "vllm", attn_dp=16, ep=16, count=2))
    for plan in (made(*PAIR), wide, made(replica("r1", "vllm", tp=8))):
        for file, text in export(plan, to).items():
            for doc in documents(text) if file.endswith(".yaml") else ():
                found = doc["spec"] if part == "spec" else doc
                assert [e.message for e in schema.iter_errors(found)] == []


def test_slurm_tells_llama_cpp_the_nodes_of_the_job_and_kubernetes_refuses():
    p = made(replica("r1", "llama.cpp", pp=16))
    text = export(p, "slurm")["r1-0.sbatch"]

    assert 'RPC_HOSTS="$(scontrol show hostnames' in text
    assert '--rpc "$RPC_HOSTS"' in text
    assert text.count("srun --nodes=1") == 2
    with pytest.raises(InputError, match="nothing tells"):
        export(p, "k8s")
