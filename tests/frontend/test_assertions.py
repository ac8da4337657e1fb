"""Assertions in loops: those that always hold do nothing, others could end the program in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from tests.frontend.reading import scop

HEAD = "#include <assert.h>\nvoid f(int n, float *restrict y)"


def test_one_that_holds_does_nothing(tmp_path: Path) -> None:
    found = scop(tmp_path, f"{HEAD} {{ for (int i = 0; i < n; i++) {{ assert(i >= 0 && i < n); y[i] = 1; }} }}")
    assert [one.name for one in found.statements] == ["S0"]


@pytest.mark.parametrize("condition", ["i < 64", "y[i] > 0", "i < n - 1"])
def test_others_are_told(tmp_path: Path, condition: str) -> None:
    code = f"{HEAD} {{ for (int i = 0; i < n; i++) {{ assert({condition}); y[i] = 1; }} }}"
    with pytest.raises(InputErrors, match="not shown to hold"):
        scop(tmp_path, code)
    assert scop(tmp_path, code, defines={"NDEBUG": "1"}).statements
