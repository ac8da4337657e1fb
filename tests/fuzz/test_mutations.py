"""Changes that keep the meaning of C's text; `python -m tests.fuzz.mutated` makes many of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutated import Counted, judged, read
from tests.fuzz.mutations import MUTATIONS, mutants

TEXT = """#define N 8

void f(int n, float *restrict a, const float *restrict b)
{
    float s = 0;
    int k = 1;
    for (int i = 0; i < n; i++) {
        a[i] = b[i] + k;
        s += a[i];
    }
    a[0] = s;
}
"""
EXPECTED = {
    "rename": "other_",
    "declare": "unused_",
    "to_while": "{ int i = 0; while (i < n) {",
    "block": "{ a[",
    "through_pointer": "(*(",
    "step": "i += 1)",
    "reorder": "int k = 1;\n    float s = 0;",
    "outline": "static void outlined_",
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_change_is_made_and_right(name: str, tmp_path: Path) -> None:
    changed = MUTATIONS[name](TEXT, Random(1))
    assert changed is not None and EXPECTED[name] in changed
    original, done = read(TEXT, "seed", tmp_path), Counted()
    assert original
    judged(original, "TEXT", name, changed, tmp_path, done)
    assert done.same.total() + done.other.total() == 1, changed
    assert not done.faults


def test_another_meaning_is_told(tmp_path: Path) -> None:
    original, done = read(TEXT, "seed", tmp_path), Counted()
    assert original
    judged(original, "TEXT", "no mutation", TEXT.replace("+ k", "- k"), tmp_path, done)
    assert done.other.total() == 1


def test_several_changes_at_once() -> None:
    found = list(mutants(TEXT, Random(2), 30))
    assert len(found) > 20
    assert any(" " in what for what, _ in found)
