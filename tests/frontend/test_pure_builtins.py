"""Functions of the compiler about bits have no effects."""

from __future__ import annotations

import pytest

import polydl


@pytest.mark.parametrize(
    ("call", "element"),
    [
        ("__builtin_popcountll(a[i] ^ b[i])", "int"),
        ("__builtin_bswap32((unsigned)a[i])", "unsigned int"),
        ("__builtin_expect(a[i] > b[i], 0)", "long"),
    ],
)
def test_they_are_read(call: str, element: str) -> None:
    text = "void f(const unsigned long *a, const unsigned long *b, unsigned long *restrict d)\n{\n"
    text += f"    for (int i = 0; i < 100; i++)\n        d[i] = {call};\n}}\n"
    (scop,) = polydl.load(text).scops
    assert element in str(scop.statements[0].body)


def test_what_has_no_value_for_zero_stays_refused() -> None:
    with pytest.raises(polydl.PolyDLError, match="effects of the call of '__builtin_clz' are unknown"):
        polydl.load(
            "void f(const unsigned *a, int *restrict d)\n{\n    for (int i = 0; i < 9; i++)\n"
            "        d[i] = a[i] ? __builtin_clz(a[i]) : 32;\n}\n"
        )
