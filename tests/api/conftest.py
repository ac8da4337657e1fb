"""A cache of its own for the tests of the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the tests, so that a kernel is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(cache))


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout as the working folder, as the examples in docstrings and documents take for granted."""
    monkeypatch.chdir(ROOT)
    return ROOT
