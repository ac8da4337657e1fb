"""Functions that state in C what they do: their bodies are held against it, and a mistake in either is found."""

from __future__ import annotations

import re

import pytest

from polydl.kernels.innermost import stated
from polydl.prove.as_plain_c import Parsed, with_meanings
from polydl.prove.contracts import Meant, meant_step
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong
from polydl.prove.printed_program import Pointer
from polydl.prove.row_bodies import check_meaning
from polydl.prove.symbolic_values import Load, Operation
from polydl.target.isa import ISAS, Isa
from tests.prove.test_bodies import functions

SIGNATURE = "const ptrdiff_t n, double *D, const double *A, const double *B, const double s"
MEANING = "for (ptrdiff_t j = 0; j < n; j++) D[j] = A[j] < B[j] ? s * A[j + 1] : fmax(B[j], 0.5) + 1;"
BODY = """\
    const polydl_f64 half = polydl_f64_all(0.5), one = polydl_f64_all(1.0), all = polydl_f64_all(s);
    ptrdiff_t j = 0;
    for (; j + 2 * POLYDL_F64_LANES <= n; j += 2 * POLYDL_F64_LANES)
        for (int v = 0; v < 2; v++) {
            const ptrdiff_t at = j + v * POLYDL_F64_LANES;
            const polydl_f64 a = polydl_f64_load(A + at), b = polydl_f64_load(B + at);
            const polydl_f64 then = all * polydl_f64_load(A + at + 1), other = polydl_f64_fmax(b, half) + one;
            polydl_f64_store(D + at, polydl_f64_select(polydl_f64_lt(a, b), then, other));
        }
    for (; j + POLYDL_F64_LANES <= n; j += POLYDL_F64_LANES) {
        const polydl_f64 a = polydl_f64_load(A + j), b = polydl_f64_load(B + j);
        const polydl_f64 then = all * polydl_f64_load(A + j + 1), other = polydl_f64_fmax(b, half) + one;
        polydl_f64_store(D + j, polydl_f64_select(polydl_f64_lt(a, b), then, other));
    }
    for (; j < n; j++) D[j] = A[j] < B[j] ? s * A[j + 1] : fmax(B[j], 0.5) + 1;
"""
NAME = "polydl_choice"
LENGTHS = (0, 1, 7, 64, 1000)


def check(text: str, isa: Isa) -> None:
    read = functions(with_meanings(text), isa)
    for length in LENGTHS:
        check_meaning(read, Meant(NAME), isa, (length,))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_a_body_does_what_is_stated(isa: Isa) -> None:
    check(stated(NAME, SIGNATURE, MEANING, BODY), isa)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load(A + at)", "load(A + j)"),
        ("load(B + j)", "load(B + j + 1)"),
        ("j += 2 * POLYDL_F64_LANES", "j += POLYDL_F64_LANES"),
        ("(; j + POLYDL_F64_LANES <= n;", "(; j <= n;"),
        ("(; j < n;", "(; j + 1 < n;"),
        ("v < 2", "v < 1"),
        ("lt(a, b), then", "le(a, b), then"),
        ("then, other));\n    }", "other, then));\n    }"),
        ("fmax(b, half)", "max(b, half)"),
        ("polydl_f64_all(0.5)", "polydl_f64_all(0.25)"),
        ("all * polydl_f64_load(A + j + 1)", "all + polydl_f64_load(A + j + 1)"),
        ("D[j] = A[j] < B[j] ? s", "D[j] = A[j] > B[j] ? s"),
        ("    ptrdiff_t j = 0;\n", "    ptrdiff_t j = 0;\n    D[0] = A[0];\n"),
        ("    ptrdiff_t j = 0;\n", "    ptrdiff_t j = 0;\n    const polydl_f64 more = polydl_f64_load(A + n);\n"),
        ("store(D + j,", "store(B + j,"),
        ("other = polydl_f64_fmax", "other = polydl_f64_unknown"),
    ],
)
def test_a_mistake_in_a_body_is_found(old: str, new: str) -> None:
    changed = BODY.replace(old, new, 1)
    assert changed != BODY
    found = []
    for isa in ISAS:
        try:
            check(stated(NAME, SIGNATURE, MEANING, changed), isa)
        except (Wrong, Unreadable) as error:
            found.append(str(error))
    assert found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("j < n", "j <= n"),
        ("j = 0", "j = 1"),
        ("j++", "j += 2"),
        ("A[j + 1]", "A[j]"),
        ("D[j]", "D[j + 1]"),
        ("D[j] =", "D[j] +="),
        ("0.5", "0.75"),
        ("D[j] =", "D[j] = D[0] ="),
        ("+ 1;", "+ 1, A = B;"),
    ],
)
def test_a_mistake_in_a_meaning_is_found(old: str, new: str) -> None:
    changed = MEANING.replace(old, new, 1)
    assert changed != MEANING
    for isa in ISAS:
        with pytest.raises((Wrong, Unreadable)):
            check(stated(NAME, SIGNATURE, changed, BODY), isa)


def test_a_call_is_what_its_meaning_says() -> None:
    """Of the parameters in their order: `D[j] = A[j] + B[j]`, called with other arrays from their middles on."""
    text = stated("polydl_plus", "const ptrdiff_t n, double *D, const double *A", "for (ptrdiff_t j = 0; j < n; j++) "
                  "D[j] = A[2 * j] + A[j];", "")  # fmt: skip
    parsed = Parsed(None, functions(with_meanings(text), ISAS[0]), {}, {})
    column, five = Affine((("i1", 1),)), Affine((), 5)
    (line,) = meant_step(
        parsed, Meant("polydl_plus"), {"D": Pointer("x", ZERO), "A": Pointer("y", five)}, (column,), {}
    ).lines
    assert line.target == Pointer("x", column)
    assert line.value == Operation(
        "+", (Load(Pointer("y", five.plus(column, 2))), Load(Pointer("y", five.plus(column))))
    )


def test_sums_are_not_taken_for_rows() -> None:
    text = stated("polydl_add", "const ptrdiff_t n, double *s, const double *A", "for (ptrdiff_t j = 0; j < n; j++) "
                  "*s += A[j];", "")  # fmt: skip
    parsed = Parsed(None, functions(with_meanings(text), ISAS[0]), {}, {})
    with pytest.raises(Unreadable, match="is a sum"):
        meant_step(parsed, Meant("polydl_add"), {"s": Pointer("s", ZERO), "A": Pointer("A", ZERO)}, (ZERO,), {})


def test_only_what_stands_right_above_a_function_is_its_meaning() -> None:
    text = stated(NAME, SIGNATURE, MEANING, BODY)
    assert f"{NAME}_meaning" in with_meanings(text)
    assert with_meanings(text).count("\n") == text.count("\n")
    assert re.sub(r"\n(?=static)", "\n\n", text) == with_meanings(re.sub(r"\n(?=static)", "\n\n", text))
