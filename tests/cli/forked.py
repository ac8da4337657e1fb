"""Runs of the command line without the start of Python: forks of a process that has polydl imported already.

A run is a process of its own, with its own working folder, environment, files for standard output and error, and exit
code; only Python's start and the imports, more than a second of processor time, are saved. `running.polydl` uses it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import resource
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests import compiling, efforts, short_timings

STARTS = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads at its start, too early for a fork."""

_seconds: list[float] = []


def preload() -> None:
    """Import what commands import. What training and clusters need (torch, Dask) is left to the runs."""
    import polydl

    for module in pkgutil.walk_packages(polydl.__path__, "polydl."):
        if not module.name.startswith(("polydl.__main__", "polydl.learn.train", "polydl.cluster")):
            importlib.import_module(module.name)


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "tests.cli.preloaded"])
    return context


def run(
    arguments: Sequence[str | bytes], folder: Path, environment: Mapping[str, str], timeout: float
) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error of `python -m polydl`. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryDirectory(prefix="polydl-forked-") as name:
        out, err = Path(name, "out"), Path(name, "err")
        given = [os.fsdecode(argument) for argument in arguments]
        brief = short_timings.applied(), efforts.applied()
        process = _server().Process(target=_run, args=(given, folder, dict(environment), out, err, brief))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(given, timeout, out.read_bytes(), err.read_bytes())
        spent = Path(name, "seconds")
        _seconds.append(float(spent.read_text()) if spent.exists() else 0.0)  # none of a run that was killed
        return process.exitcode, out.read_bytes(), err.read_bytes()


def processor_seconds() -> float:
    """Of all runs, which are children of another process than this one."""
    return sum(_seconds)


def _run(
    arguments: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path, brief: tuple[bool, bool]
) -> None:
    """`brief`: whether timings are short, and whether few sizes are looked at, in the test that asks for the run."""
    for number, path, flags in (
        (0, Path(os.devnull), os.O_RDONLY), (1, out, os.O_WRONLY | os.O_CREAT), (2, err, os.O_WRONLY | os.O_CREAT)
    ):  # fmt: skip
        os.dup2(os.open(path, flags), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (as long as the process)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # as TMPDIR says now
    warnings.simplefilter("error")
    short, few = brief
    if short:
        short_timings.apply(pytest.MonkeyPatch())
        compiling.apply(pytest.MonkeyPatch(), quick=few)
    if few:
        efforts.apply(pytest.MonkeyPatch())
    sys.argv = ["polydl", *arguments]
    try:
        runpy.run_module("polydl", run_name="__main__", alter_sys=True)
    finally:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        out.with_name("seconds").write_text(str(sum(usage.ru_utime + usage.ru_stime for usage in usages)))
