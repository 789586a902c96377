"""`meshwright export`: all files or none, whose folder it may write into, plans of several models."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.cli import export as command
from planner.cli.app import run
from planner.errors import InputError
from planner.plans.schema.several import Demand, Several, Total
from tests.reports.samples import MIXED, ONE_NODE

FILES = {"README.md": "me\n", "start.sh": "#!/bin/sh\n", "node/h-0.sh": "true\n", "node/h-0.yaml": "a: 1\n"}
BOTH = Several(
    meshwright_version="0",
    models=[Demand(model="org/small", part=0.5), Demand(model="large", part=0.5)],
    plans=[ONE_NODE, MIXED],
    total=Total(rps=12.3456, out_tok_per_s=100.0, gpus=1024),
    proof=ONE_NODE.proof,
)


def test_export_writes_through_no_link_in_the_folder(
    exported: SimpleNamespace, tmp_path: Path, capsys
) -> None:
    """Of several models each has a folder of its own, which may be there already as a link to elsewhere."""
    exported.read = BOTH
    out, elsewhere = tmp_path / "serve", tmp_path / "elsewhere"
    for place in (out / "org", elsewhere):
        place.mkdir(parents=True)
    for link in (out / "large", out / "org" / "small"):
        link.symlink_to(elsewhere)
        assert run(["export", "plans.json", "--to", "k8s", "-o", str(out), "--force"]) == 2
        assert f"`{link.relative_to(out)}` in" in capsys.readouterr().err
        assert list(elsewhere.iterdir()) == []
        link.unlink()
    assert run(["export", "plans.json", "--to", "k8s", "-o", str(out), "--force"]) == 0
    (out / "README.md").unlink()
    (out / "README.md").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("mine")
    assert run(["export", "plans.json", "--to", "k8s", "-o", str(out), "--force"]) == 0

    assert (tmp_path / "mine").read_text() == "mine"
    assert not (out / "README.md").is_symlink()


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the exporters: `files` are what they make of any plan, `asked` of which they were."""
    fake = SimpleNamespace(files=dict(FILES), asked=[], read=ONE_NODE)

    def export(plan: Any, to: str, label: str | None = None) -> dict[str, str]:
        fake.asked.append((plan, to))
        return dict(fake.files)

    monkeypatch.setattr("planner.exporters.export", export)
    monkeypatch.setattr("planner.plans.verified.read_sound_any", lambda path: fake.read)
    return fake


def under(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_files_stand_in_their_folders_and_scripts_can_be_run(
    exported: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "folders" / "serve"
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(out)]) == 0

    assert exported.asked == [(ONE_NODE, "vllm")]
    assert under(out) == FILES
    assert {name: (out / name).stat().st_mode & 0o777 for name in FILES} == {
        "README.md": 0o644, "start.sh": 0o755, "node/h-0.sh": 0o755, "node/h-0.yaml": 0o644,
    }  # fmt: skip
    assert capsys.readouterr().out == f"4 files in {out}; begin with README.md\n"
    assert [p.name for p in out.parent.iterdir()] == ["serve"]


def test_an_empty_folder_is_filled(exported: SimpleNamespace, tmp_path: Path) -> None:
    out = tmp_path / "serve"
    out.mkdir()
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(out)]) == 0

    assert under(out) == FILES
    assert [p.name for p in tmp_path.iterdir()] == ["serve"]


@pytest.mark.parametrize(("force", "code"), [([], 2), (["--force"], 0)])
def test_what_is_there_is_written_over_only_where_told_and_the_rest_stays(
    exported: SimpleNamespace, tmp_path: Path, force: list[str], code: int, capsys
) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "h-0.yaml").write_text("old")
    (tmp_path / "mine").write_text("mine")
    before = under(tmp_path)
    assert run(["export", "plan.json", "--to", "k8s", "-o", str(tmp_path), *force]) == code

    assert under(tmp_path) == (before if code else {**FILES, "mine": "mine"})
    assert ("is not empty" in capsys.readouterr().err) == bool(code)


def test_a_file_is_no_folder(exported: SimpleNamespace, tmp_path: Path, capsys) -> None:
    (tmp_path / "serve").write_text("x")
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(tmp_path / "serve"), "--force"]) == 2
    assert "serve` is a file" in capsys.readouterr().err

    assert run(["export", "plan.json", "--to", "vllm", "-o", str(tmp_path / "serve" / "below")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert under(tmp_path) == {"serve": "x"}


def test_a_disk_that_is_full_leaves_nothing(
    exported: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    write = Path.write_text

    def full(path: Path, text: str, **how: Any) -> int:
        if path.name == "h-0.yaml":
            raise OSError(28, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(tmp_path / "serve")]) == 2

    assert "no space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_is_taken_away(exported: SimpleNamespace, tmp_path: Path) -> None:
    """No process has the largest number there can be; what one that runs is writing stays."""
    word = "0123456789abcdef"
    dead, alive = (tmp_path / f".serve.{pid}.{word}.part" for pid in (4194305, os.getppid()))
    dead.mkdir()
    (dead / "half").write_text("x")
    alive.mkdir()
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(tmp_path / "serve")]) == 0

    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([alive.name, "serve"])


def test_several_models_have_a_folder_each_and_a_page_before_them(
    exported: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.read, out = BOTH, tmp_path / "serve"
    assert run(["export", "plans.json", "--to", "k8s", "-o", str(out)]) == 0

    assert exported.asked == [(ONE_NODE, "k8s"), (MIXED, "k8s")]
    each = {f"{model}/{name}": told for model in ("org/small", "large") for name, told in FILES.items()}
    assert under(out) == {"README.md": command.several_readme(BOTH, "k8s"), **each}
    assert capsys.readouterr().out.startswith("9 files in ")


def test_a_target_that_cannot_start_one_of_several_models_names_it(
    exported: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    def refused(plan: Any, to: str, label: str) -> dict[str, str]:
        if plan is MIXED:
            raise InputError("r1 runs on trtllm", "--to", "slurm")
        return FILES

    exported.read = BOTH
    monkeypatch.setattr("planner.exporters.export", refused)
    assert run(["export", "plans.json", "--to", "vllm", "-o", str(tmp_path / "serve")]) == 2

    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert lines == ["error: large: r1 runs on trtllm", "at --to", "hint: slurm"]


def test_a_target_that_there_is_not_is_no_models_fault(
    exported: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.read = BOTH
    assert run(["export", "plans.json", "--to", "kubes", "-o", str(tmp_path / "serve")]) == 2

    assert "error: `kubes` is no target" in capsys.readouterr().err


def test_the_page_of_several_models_leads_to_each() -> None:
    assert command.several_readme(BOTH, "k8s").splitlines() == [
        "# 2 models for k8s",
        "",
        "12.35 requests/s on 1,024 GPUs. Each model has a folder,",
        "and all servers have GPUs and ports of their own.",
        "",
        "- [org/small](org/small/README.md)",
        "- [large](large/README.md)",
    ]


@pytest.mark.parametrize("name", ["../r1.sh", "{}/r1.sh", "node/../../r1.sh"])
def test_a_file_that_would_lie_outside_the_folder_is_refused(
    exported: SimpleNamespace, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server's name in a plan that was written by hand."""
    exported.files = {name.format(tmp_path): "x"}
    assert run(["export", "plan.json", "--to", "vllm", "-o", str(tmp_path / "serve")]) == 2

    assert "is no plain name of a file in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["/large", "./large", "large/", "large/../large", "org//large", "..", ".", ""]
)
def test_a_model_whose_folder_would_lie_outside_or_be_anothers_is_refused(
    exported: SimpleNamespace, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `large` and `./large` one would be written over the other."""
    models = [Demand(model=name, part=0.5), Demand(model="large", part=0.5)]
    exported.read = BOTH.model_copy(update={"models": models})
    assert run(["export", "plans.json", "--to", "k8s", "-o", str(tmp_path / "serve")]) == 2

    assert "is no plain name of a file in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_mount_takes_the_files(
    exported: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a volume or tmpfs: nothing can be moved onto it from outside, nor it be replaced."""
    mount = tmp_path / "mount"
    mount.mkdir()
    replace = os.replace

    def within(old: Any, new: Any, **how: Any) -> None:
        if mount not in Path(old).parents or mount not in Path(new).parents:
            raise OSError(18, "Invalid cross-device link")
        replace(old, new, **how)

    monkeypatch.setattr(os, "replace", within)
    monkeypatch.setattr(os, "rename", within)
    assert run(["export", "plan.json", "--to", "k8s", "-o", str(mount)]) == 0

    assert under(mount) == FILES
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mount"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_folder_is_written_through(
    exported: SimpleNamespace, tmp_path: Path, there: bool
) -> None:
    link, folder = tmp_path / "link", tmp_path / "folder"
    link.symlink_to(folder)
    if there:
        folder.mkdir()
    assert run(["export", "plan.json", "--to", "k8s", "-o", str(link)]) == 0

    assert link.is_symlink()
    assert under(folder) == FILES
