"""The examples in docstrings and in docs/python.md do what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.few_sizes

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize(
    "name",
    ["polydl.pipeline", "polydl.search.loading", "polydl.results", "polydl.native.compile", "polydl.model.build"],
)
def test_docstrings(name: str, root: Path) -> None:
    done = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert done.attempted > 0 and done.failed == 0


def test_the_document(root: Path) -> None:
    done = doctest.testfile(str(root / "docs" / "python.md"), module_relative=False, optionflags=FLAGS)
    assert done.attempted > 10 and done.failed == 0
