"""The examples of polydl as a step in Make and in CMake: built, run, and built again only where something changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import EXAMPLES, environment

FLAGS = "--no-run --machine epyc-zen5 --threads 2"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command `polydl` of the running interpreter."""
    place = tmp_path / "bin" / "polydl"
    place.parent.mkdir()
    place.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m polydl "$@"\n')
    place.chmod(0o755)
    return place


def project(name: str, folder: Path) -> Path:
    """An example in a folder with a space in its name."""
    place = folder / "a project"
    shutil.copytree(EXAMPLES / name, place, ignore=shutil.ignore_patterns("build"))
    return place


def run(arguments: list[str | Path], folder: Path) -> str:
    """Run a tool; what it printed."""
    own = {**environment(), "MAKEFLAGS": ""}
    done = subprocess.run(arguments, cwd=folder, env=own, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plain(folder: Path) -> str:
    """What the program prints without polydl."""
    run(["cc", "-O1", "-Wno-unknown-pragmas", "-o", folder / "plain", "main.c", "kernel.c"], folder)
    return run([folder / "plain"], folder)


def later(path: Path, than: Path) -> None:
    """Make a file newer than another one, whatever the clock's resolution."""
    stamp = than.stat().st_mtime_ns + 2_000_000_000
    os.utime(path, ns=(stamp, stamp))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make(tmp_path: Path, command: Path) -> None:
    place = project("make", tmp_path)
    make: list[str | Path] = ["make", f"POLYDL={command}", f"POLYDL_FLAGS={FLAGS}", "CFLAGS=-O2 -fopenmp"]
    assert "optimize kernel.c" in run(make, place)
    assert run([place / "build" / "program"], place) == plain(place)
    text = (place / "build" / "kernel.c").read_bytes()
    assert "optimize" not in run(make, place)
    later(place / "kernel.h", place / "build" / "kernel.c")
    assert "optimize kernel.c" in run(make, place)
    assert (place / "build" / "kernel.c").read_bytes() == text, "the same input gives the same text"
    (place / "kernel.h").write_text((place / "kernel.h").read_text().replace("192", "96"))
    later(place / "kernel.h", place / "build" / "kernel.c")
    run(make, place)
    assert run([place / "build" / "program"], place) == plain(place)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_cmake(tmp_path: Path, command: Path, generator: str) -> None:
    if shutil.which({"Ninja": "ninja"}.get(generator, "make")) is None:
        pytest.skip(f"the tool of {generator} is not installed")
    place = project("cmake", tmp_path)
    configure: list[str | Path] = ["cmake", "-S", ".", "-B", "build", "-G", generator, f"-DPOLYDL={command}"]
    run([*configure, f"-DPOLYDL_FLAGS={FLAGS}"], place)
    build: list[str | Path] = ["cmake", "--build", "build"]
    assert "polydl optimize kernel.c" in run(build, place)
    assert run([place / "build" / "program"], place) == plain(place)
    assert "polydl optimize" not in run(build, place)
    made = place / "build" / "kernel.polydl.c"
    before = made.stat().st_mtime_ns
    later(place / "kernel.h", made)
    assert "polydl optimize kernel.c" in run(build, place)
    assert made.stat().st_mtime_ns != before
