"""C's own conversions made explicit: the same types and the same bits as the compiler's; what contractions see."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from polydl.lower.cexpr import of_body
from polydl.lower.cprint import expression
from polydl.lower.ctree import Expr, Int, Text
from polydl.model.contraction import Contraction, contraction
from polydl.model.conversions import converted, explicit
from polydl.model.expr import Binary, Const, Convert, Load
from polydl.model.scop import Assignment, Statement
from polydl.model.types import BF16, BOOL, F32, F64, I8, I16, I32, I64, TYPES, U8, U16, ElementType, Kind
from polydl.target.isa import kernel_contraction
from polydl.target.products import DOT_I16, FMA, Product, inner_product
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import scop

REAL = [t for t in TYPES if t.kind is not Kind.COMPLEX and t.name != BF16.name]
FLOATS = ("float", "double", "long double", "_Float16")


def random_text(rng: random.Random, depth: int) -> str:
    """A C expression over the arrays a0, a1, …, one for each type. Its values are small and nothing in it overflows."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*(f"a{i}[{rng.randrange(4)}]" for i in range(len(REAL))), "2", "3u", "0.5f", "1.25", "7L"])

    def inner() -> str:
        return random_text(rng, depth - 1)

    match rng.randrange(8):
        case 0:
            return f"({rng.choice(FLOATS)})({inner()})"
        case 1:
            return f"-({inner()})"
        case 2:
            return f"!({inner()})"
        case 3:
            return f"({inner()} {rng.choice(['<', '>=', '==', '&&', '||'])} {inner()})"
        case 4:
            return f"({inner()} ? {inner()} : {inner()})"
        case _:
            return f"({inner()} {rng.choice('+-*')} {inner()})"


def test_conversions_are_the_compilers(tmp_path: Path) -> None:
    """Type by type with _Generic, and bit by bit with all conversions written out as casts."""
    rng = random.Random(7)
    texts = [random_text(rng, 3) for _ in range(80)]
    arrays = ", ".join(f"const {t.c} a{i}[4]" for i, t in enumerate(REAL))
    body = "\n".join(f"    y[{k}] = {text};" for k, text in enumerate(texts))
    program = f"void f(double y[{len(texts)}], {arrays})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    found = scop(tmp_path, program)
    assert len(found.statements) == len(texts)
    lines = [f"    {t.c} a{i}[4] = {{1, 2, 3, 1}};" for i, t in enumerate(REAL)]
    for statement, text in zip(found.statements, texts, strict=True):
        value, element = of(found.arrays, statement)

        def load(access: int, statement: Statement = statement) -> Expr:
            one = statement.accesses[access]
            where = one.relation.range()
            return Text(
                f"{one.array}[{0 if where.is_empty() else where.dim_min_val(0)}]"
            )  # what never runs reads nothing

        def unreachable(access: int, subscripts: Sequence[Expr]) -> Expr:
            raise AssertionError("nothing here is read through an index")

        written = expression(of_body(value, load, unreachable, lambda number: Int(number.max_val().to_python()), str))
        lines.append(f"    same({text}, {written}, {REAL.index(element)});")
    types = ", ".join(f"{t.c}: {i}" for i, t in enumerate(REAL))
    # long long and long are one type here, as they have the same values.
    source = f"""#include <stdio.h>
#include <string.h>
#define TYPE(x) _Generic((x), {types})
#define WIDE(i) ((i) == {index("long long")} ? {index("long")} : (i) == {index("unsigned long long")} ? {index("unsigned long")} : (i))
#define MEANT(i, t) ((i) == {index("_Float16")} && (t) == {index("float")} ? (t) : (i)) /* halves are evaluated in float */
#define same(x, y, t) do {{ long double v = (x), w = (y); printf("%d\\n", WIDE(MEANT(TYPE(x), t)) == WIDE(t) && v == w); }} while (0)
int main(void)
{{
{chr(10).join(lines)}
    return 0;
}}
"""  # noqa: E501
    (tmp_path / "same.c").write_text(source)
    run_compiler(["cc", "-w", str(tmp_path / "same.c"), "-o", str(tmp_path / "same")])
    out = run_program([str(tmp_path / "same")]).stdout.split()
    assert [text for text, equal in zip(texts, out, strict=True) if equal != "1"] == []


def index(c: str) -> int:
    return [t.c for t in REAL].index(c)


def of(arrays: object, statement: Statement) -> tuple[object, ElementType]:
    assert isinstance(statement.body, Assignment)
    return explicit(statement.body.value, lambda access: arrays[statement.accesses[access].array].element)  # type: ignore[index]


def test_what_is_written_out() -> None:
    """`2 * A[i]` with a signed char is int; among doubles it is converted once more."""
    value = Binary("+", Load(0), Binary("*", Const("2"), Load(1)))
    product = Binary("*", Const("2"), Convert(I8, I32, Load(1)))
    assert explicit(value, [F64, I8].__getitem__) == (Binary("+", Load(0), Convert(I32, F64, product)), F64)


@pytest.mark.parametrize(
    ("source", "target", "exact"),
    [(I8, I32, True), (F32, F64, True), (F64, F32, False), (I32, F32, False), (I16, F32, True), (BF16, F32, True)],
)
def test_what_changes_no_value(source: ElementType, target: ElementType, exact: bool) -> None:
    assert converted(Load(0), source, source) == Load(0)
    found = converted(Load(0), source, target)
    assert isinstance(found, Convert)
    assert found.exact is exact


def product(folder: Path, types: tuple[str, str, str], value: str) -> tuple[Contraction | None, bool]:
    """What `C[i][j] += value` is recognised as, and whether kernels are made for it. A is left, B right."""
    c, a, b = types
    found = scop(
        folder,
        f"void f({c} C[restrict 8][16], const {a} A[restrict 8][4], const {b} B[restrict 4][16])\n"
        "{\n#pragma scop\nfor (int i = 0; i < 8; i++) for (int j = 0; j < 16; j++) for (int k = 0; k < 4; k++)\n"
        f"C[i][j] += {value};\n#pragma endscop\n}}\n",
    )
    (statement,) = found.statements
    return contraction(found, statement), kernel_contraction(found, statement) is not None


@pytest.mark.parametrize(
    ("types", "value"),
    [
        (("float", "float", "float"), "A[i][k] * B[k][j]"),
        (("float", "float", "float"), "(float)A[i][k] * (float)B[k][j]"),
        (("float", "float", "float"), "(float)(A[i][k] * B[k][j])"),
        (("double", "double", "double"), "2 * (double)A[i][k] * 0.5f * B[k][j]"),
        (("float", "float", "float"), "(float)2 * A[i][k] * B[k][j]"),
    ],
)
def test_conversions_that_change_nothing_are_seen_through(
    types: tuple[str, str, str], value: str, tmp_path: Path
) -> None:
    found, kernels = product(tmp_path, types, value)
    assert kernels
    assert found is not None
    assert (found.left.array, found.right.array) == ("A", "B")


@pytest.mark.parametrize(
    ("types", "value", "elements", "multiplied"),
    [
        (("double", "float", "float"), "(double)A[i][k] * B[k][j]", (F64, F32, F32), FMA),
        (("float", "short", "signed char"), "(float)A[i][k] * B[k][j]", (F32, I16, I8), FMA),
        (("int", "signed char", "unsigned char"), "A[i][k] * B[k][j]", (I32, I8, U8), DOT_I16),
        (("int", "short", "short"), "(int)A[i][k] * B[k][j]", (I32, I16, I16), DOT_I16),
        (("int", "unsigned short", "short"), "A[i][k] * B[k][j]", (I32, U16, I16), FMA),
        (("int", "int", "_Bool"), "A[i][k] * B[k][j]", (I32, I32, BOOL), FMA),
        (("long", "int", "int"), "(long)A[i][k] * B[k][j]", (I64, I32, I32), None),
    ],
)
def test_contractions_of_mixed_types(
    types: tuple[str, str, str],
    value: str,
    elements: tuple[ElementType, ...],
    multiplied: Product | None,
    tmp_path: Path,
) -> None:
    """They are contractions of elements of these types, with the inner product that is exact for them, if any."""
    found, kernels = product(tmp_path, types, value)
    assert found is not None
    assert (found.element, found.left.element, found.right.element) == elements
    assert inner_product(found) == multiplied
    assert kernels == (multiplied is not None)
    assert found.copied("j") == ("A", "B")


@pytest.mark.parametrize(
    ("types", "value"),
    [
        (("float", "float", "float"), "(double)A[i][k] * B[k][j]"),  # the product has more digits than are kept
        (("float", "double", "double"), "A[i][k] * B[k][j]"),
        (("float", "double", "float"), "(float)A[i][k] * B[k][j]"),  # each element of A is rounded
        (("double", "float", "float"), "A[i][k] * B[k][j]"),  # the product is rounded to float
        (("double", "float", "float"), "(double)(A[i][k] * B[k][j])"),
        (("float", "float", "float"), "0.5 * A[i][k] * B[k][j]"),  # computed in double
        (("double", "double", "double"), "0.5L * A[i][k] * B[k][j]"),
        (("short", "short", "short"), "A[i][k] * B[k][j]"),  # cut off to 16 bits after each addition
        (("double", "int", "double"), "(float)A[i][k] * B[k][j]"),
    ],
)
def test_rounding_makes_it_something_else(types: tuple[str, str, str], value: str, tmp_path: Path) -> None:
    assert product(tmp_path, types, value) == (None, False)
