"""`polydl doctor`: every check says what it found and how to mend it; the exit code says whether polydl can be used."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polydl.base import resources
from polydl.cli import doctor_checks as doctor
from polydl.cli.doctor_checks import Check, Status, examine, usable
from tests.cli.running import polydl


def run(folder: Path, *arguments: str, **more: str) -> tuple[int, dict[str, Check]]:
    outcome = polydl(folder, "doctor", "--json", *arguments, **more)
    document: dict[str, Any] = json.loads(outcome.stdout)
    checks = [Check(**{**check, "status": Status(check["status"])}) for check in document["checks"]]
    assert document["usable"] == usable(checks) == (outcome.code == 0)
    assert outcome.code in (0, 1)
    for check in checks:
        assert check.found
        assert bool(check.remedy) == (check.status is not Status.OK), check
    return outcome.code, {check.name: check for check in checks}


def fake(folder: Path, script: str) -> Path:
    """A compiler that is none."""
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_machine_that_runs_these_tests_can_be_used(tmp_path: Path) -> None:
    code, checks = run(tmp_path)
    assert code == 0
    for name in ("compiler", "compiling", "OpenMP", "templates", "header", "result cache"):
        assert checks[name].status is Status.OK
    wanted = {
        "SIMD", "caches", "calibration", "temporary files", "thread pinning", "huge pages", "memory", "CPU quota",
        "load", "ranker dnn", "ranker dnn-paper", "torch", "distributed", "LIBXSMM", "clang", "browser",
    }  # fmt: skip
    assert wanted <= set(checks)
    text = polydl(tmp_path, "doctor")
    assert (text.code, text.stderr) == (0, "")
    assert text.stdout.endswith("polydl can be used here\n")


def test_without_a_compiler_it_cannot(tmp_path: Path) -> None:
    code, checks = run(tmp_path, "--cc", "no-such-compiler")
    assert code == 1
    assert checks["compiler"].status is Status.FAILED
    assert "apt install gcc" in checks["compiler"].remedy
    text = polydl(tmp_path, "doctor", "--cc", "no-such-compiler")
    assert text.code == 1
    assert text.stdout.endswith("polydl cannot be used here: repair what failed\n")


@pytest.mark.parametrize(
    ("script", "name", "found"),
    [
        ("echo 'error: no headers'; exit 1", "compiling", "error: no headers"),
        ('while [ "$1" != -o ]; do shift; done; echo "exit 3" > "$2"; chmod +x "$2"', "running", ""),
        ('case "$*" in *fopenmp*) echo "error: no omp.h"; exit 1;; esac; exec cc "$@"', "OpenMP", "error: no omp.h"),
    ],
)
def test_what_fails_is_named(tmp_path: Path, script: str, name: str, found: str) -> None:
    code, checks = run(tmp_path, "--cc", str(fake(tmp_path, script)))
    assert code == 1
    assert [n for n, check in checks.items() if check.status is Status.FAILED] == [name]
    assert found in checks[name].found


def test_an_old_compiler_is_a_warning(tmp_path: Path) -> None:
    if doctor.detect().simd.isa not in ("avx2", "avx512"):
        pytest.skip("this processor has neither AVX2 nor AVX-512")
    script = 'for a; do shift; case "$a" in -march=*) ;; *) set -- "$@" "$a";; esac; done; exec cc "$@"'
    code, checks = run(tmp_path, "--cc", str(fake(tmp_path, script)))
    assert code == 0
    assert checks["SIMD"].status is Status.WARNING


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, checks = run(tmp_path, POLYDL_CACHE=str(tmp_path / "file" / "kept"))
    assert code == 0
    assert checks["result cache"].status is Status.WARNING
    assert "POLYDL_CACHE" in checks["result cache"].remedy


def test_a_machine_that_was_not_measured_is_a_warning(tmp_path: Path) -> None:
    _, checks = run(tmp_path, XDG_DATA_HOME=str(tmp_path))
    assert checks["calibration"].status is Status.WARNING
    assert "polydl machine --calibrate" in checks["calibration"].remedy


def named(checks: Sequence[Check], name: str) -> Check:
    (found,) = (check for check in checks if check.name == name)
    return found


def test_limits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    monkeypatch.setattr(doctor, "cgroup_cpus", lambda root: 0.5)
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (1 << 20, 1 << 20))
    checks = [*doctor._permissions(), *doctor._limits()]
    assert named(checks, "thread pinning") == Check(
        "thread pinning", Status.WARNING, "Operation not permitted", named(checks, "thread pinning").remedy
    )
    assert named(checks, "load").found.startswith("1000.0 processes")
    assert named(checks, "CPU quota").found.startswith("0.5 CPUs' worth")
    assert named(checks, "memory").found == "1 MiB (ulimit -v)"
    assert {named(checks, n).status for n in ("load", "CPU quota", "memory")} == {Status.WARNING}


def test_damaged_weights_and_missing_templates_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dnn.safetensors", "dnn-paper.safetensors"):
        (tmp_path / name).write_bytes(b"damaged")
    monkeypatch.setattr(resources, "trained_models", lambda: tmp_path)
    assert {check.status for check in doctor._models()} == {Status.WARNING}

    def gone() -> Path:
        raise FileNotFoundError("polydl was installed without its folder 'templates'")

    monkeypatch.setattr(resources, "templates", gone)
    assert named(examine("no-such-compiler"), "templates").status is Status.FAILED
