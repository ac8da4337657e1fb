"""Shared by all tests: hypothesis profiles, golden files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"

# Many tests start Python; without bytecode each start compiles all of polydl, a second of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# `default` finds the same examples on every run, so that a failure in CI is a failure everywhere;
# `fuzz` looks for new ones.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden/")


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
