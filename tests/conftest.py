"""Shared by all tests: hypothesis profiles, golden files, short timings, compilers that remember, tiers."""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import compiling, efforts, short_timings, since, tiers

GOLDEN = Path(__file__).parent / "golden"

# Many tests start Python; without bytecode each start compiles all of polydl, a second of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The tests share the processors: threads that spin until others come would keep those from coming.
os.environ["OMP_WAIT_POLICY"] = "passive"
# Whether somebody has calibrated this machine, or optimized something on it, changes nothing in a test; nor does what
# another test keeps (`own_data`).
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="polydl-tests-data-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)

# `default` finds the same examples on every run, so that a failure in CI is a failure everywhere;
# `fuzz` looks for new ones.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def own_data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's data folder of its own for each test, made when something is kept in it."""
    whole = Path(os.environ["XDG_DATA_HOME"])
    monkeypatch.setenv("XDG_DATA_HOME", str(whole / hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden/")
    parser.addoption("--avx2", action="store_true", help="as on a machine that has no wider vectors than AVX2")
    parser.addoption("--since", metavar="REV", help="only tests that what changed since a commit may reach")
    tiers.add_options(parser)


_NARROW = """\
import dataclasses, importlib
detect = importlib.import_module("polydl.target.detect")  # polydl.target has a function of that name
_read = detect.read_processor
def _narrow(*given):
    found = _read(*given)
    return dataclasses.replace(found, flags=frozenset(f for f in found.flags if not f.startswith(("avx512", "amx"))))
detect.read_processor = _narrow
"""
"""Run by every Python that a test starts."""


def pytest_configure(config: pytest.Config) -> None:
    """With --avx2, hide what /proc/cpuinfo says of AVX-512, here and in every process that tests start, and keep the
    compilers to AVX2."""
    config.pluginmanager.register(tiers.Tiers(config))
    if not config.getoption("--avx2"):
        return
    folder = Path(tempfile.mkdtemp(prefix="polydl-avx2-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    (folder / "sitecustomize.py").write_text(_NARROW, encoding="utf-8")
    for name in ("cc", "gcc", "clang"):
        compiler = shutil.which(name)
        if compiler is not None:
            (folder / name).write_text(f'#!/bin/sh\nexec {compiler} "$@" -mno-avx512f\n', encoding="utf-8")
            (folder / name).chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    exec(_NARROW, {})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --since, leave the modules that changed files reach."""
    revision: str | None = config.getoption("--since")
    modules = None if revision is None else since.reached(since.changed_files(revision))
    if modules is not None:
        reached = {item.nodeid for item in items if item.path.relative_to(since.ROOT).as_posix() in modules}
        tiers.keep(config, items, reached)


def pytest_collection_finish() -> None:
    """What is imported stays: Python's collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        compiling.trim()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Timings are short, and what is known is not compiled again, except where time is what is tested."""
    if any(item.iter_markers("timing")) or any(item.iter_markers("usual_timings")):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        short_timings.apply(patch)
        few = any(item.iter_markers("few_sizes"))
        compiling.apply(patch, quick=few)
        if few:
            efforts.apply(patch)
        return (yield)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: assert that `text` equals tests/golden/<name>, or write it with --update-golden."""
    update: bool = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {name}: run pytest --update-golden and read what it wrote"
        assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return check
