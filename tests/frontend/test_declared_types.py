"""Types that a file declares are what compilers take them for: what is written is called beside the source."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.model.types import I32, U8, U32, ElementType
from tests.frontend.reading import scop


@pytest.mark.parametrize(
    ("declared", "name", "element"),
    [
        ("enum e { A, B, C };", "enum e", U32),
        ("enum e { A = -1, B };", "enum e", I32),
        ("typedef enum { A, B = 7 } e;", "e", U32),
        ("enum { LEAST = -3 }; enum e { A = LEAST + 1 };", "enum e", I32),
        ("typedef unsigned char off_t;", "off_t", U8),
        ("#include <stdint.h>\n", "uint8_t", U8),
    ],
)
def test_elements(tmp_path: Path, declared: str, name: str, element: ElementType) -> None:
    text = f"{declared}\nvoid f({name} a[restrict 9]) {{ for (int i = 0; i < 9; i++) a[i] = 1; }}"
    assert scop(tmp_path, text).arrays["a"].element is element


@pytest.mark.parametrize(
    "source",
    [
        """
enum e { A, B, C };
void f(int n, const enum e *restrict k, float *restrict a)
{
    for (int i = 0; i < n; i++)
        a[i] = k[i] - 1 < 0 ? 1.0f : 2.0f;
}
""",
        """
typedef short int_fast16_t;
typedef unsigned char off_t;
void f(int n, const int *restrict b, int *restrict a)
{
    for (int i = 0; i < n; i++)
        a[i] = (off_t)b[i] + (int_fast16_t)(b[i] % 90 * 3);
}
""",
    ],
    ids=["an enumeration without negative constants", "names of standard types for others"],
)
def test_what_is_computed(source: str) -> None:
    found = polydl.optimize(source, run=False, sizes={"n": 100}, space="small", budget=2)
    assert found.checked.calls > 10 and not found.checked.faults
