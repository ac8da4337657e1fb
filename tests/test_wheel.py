"""The wheel is complete: installed into a fresh environment, the command works from another folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy so that nothing is left in the checkout."""
    source = tmp_path_factory.mktemp("source") / "polydl"
    source.mkdir()
    for name in ("polydl", "templates", "trained_models", "experiments/kernels"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/refused.md"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of a new virtual environment that holds the wheel and borrows the dependencies of the running one.

    The borrowed folder comes last on the path and its .pth files are not read, so that polydl itself, however it
    is installed in the running environment, can only come from the wheel.
    """
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    (site,) = home.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def files_under(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}


def test_wheel_holds_every_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (("polydl", "polydl"), ("templates", "polydl/templates")):
        wanted = {f"{inside}/{name}" for name in files_under(ROOT / folder)}
        assert wanted, f"{folder} is empty"
        assert wanted <= names
    assert {f"polydl/trained_models/{name}" for name in files_under(ROOT / "trained_models")} <= names
    assert "polydl/docs/refused.md" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "experiments/", "examples/")) for name in names)


def test_wheel_requires_nothing_heavy_or_copyleft(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert required
    assert not any("torch" in line or "barvinok" in line for line in required)


def test_folders_are_found_inside_the_package(fresh: Path, tmp_path: Path) -> None:
    program = (
        "import polydl, json; from polydl.base import resources as r;"
        "print(json.dumps([polydl.__file__, str(r.templates()), str(r.trained_models())]))"
    )
    done = run([str(fresh / "python"), "-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    home = fresh.parent.resolve()
    for path in json.loads(done.stdout):
        assert Path(path).resolve().is_relative_to(home)


def test_command_runs_from_another_folder(fresh: Path, tmp_path: Path) -> None:
    """Through the ranking to the written C file: uses the templates, runs nothing."""
    shutil.copy(ROOT / "examples" / "matmul.c", tmp_path)
    helped = run([str(fresh / "polydl"), "--help"], tmp_path)
    assert helped.returncode == 0, helped.stderr
    assert "optimize" in helped.stdout
    optimize = [str(fresh / "polydl"), "optimize", "matmul.c", "--no-run", "-o", "out.c"]
    sizes = ["-D", "M=64", "-D", "N=64", "-D", "K=64"]
    done = run([*optimize, *sizes], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "matmul" in (tmp_path / "out.c").read_text(encoding="utf-8")


def test_what_people_try_first_works(fresh: Path, tmp_path: Path) -> None:
    """An example, what the learned rankers know, why something is refused, a completion script."""
    command = str(fresh / "polydl")
    started = run([command, "init"], tmp_path)
    assert started.returncode == 0, started.stderr
    header = Path(run([command, "include"], tmp_path).stdout.strip()) / "polydl.h"
    assert header.is_file()
    assert header.resolve().is_relative_to(fresh.parent.resolve())
    ranked = run(
        [command, "rank", "example.c", "--ranker", "dnn", "--machine", "epyc-zen5", "--threads", "2"], tmp_path
    )
    assert (ranked.returncode, ranked.stderr) == (0, "")
    explained = run([command, "why", "depends-on-data"], tmp_path)
    assert "read through an index" in explained.stdout
    checked = run([command, "doctor", "--json"], tmp_path)
    assert {c["name"]: c["status"] for c in json.loads(checked.stdout)["checks"]}["ranker dnn"] == "ok"
