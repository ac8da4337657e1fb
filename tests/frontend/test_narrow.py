"""_Float16, __bf16 and polydl_bf16 in C: what is read, what C does not do with them, what the output says."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.base.errors import InputError, InputErrors
from polydl.base.resources import header_flags
from polydl.model.expr import Binary, Convert, Expr, Load, operands
from polydl.model.scop import Assignment
from polydl.model.types import BF16, BF16_BITS, F16, F32, F64, I32, ElementType
from tests.compiling import run_compiler

HEAD = "#include <polydl.h>\nstatic float half(polydl_bf16 x) {{ return 0.5f * polydl_to_float(x); }}\n"
PROGRAM = HEAD + (
    "void f(int n, float *restrict y, polydl_bf16 *restrict z, const polydl_bf16 *restrict x, "
    "const double *restrict d)\n"
    "{{\n#pragma scop\n    for (int i = 0; i < n; i++)\n        {statement}\n#pragma endscop\n}}\n"
)


def value(statement: str) -> Expr:
    (scop,) = polydl.load(PROGRAM.format(statement=statement), sizes={"n": 8}).scops
    body = scop.statements[0].body
    assert isinstance(body, Assignment)
    return body.value


def error(statement: str) -> InputError:
    with pytest.raises(InputErrors) as raised:
        polydl.load(PROGRAM.format(statement=statement), sizes={"n": 8})
    (found,) = raised.value.errors
    return found


def conversions(of: Expr) -> list[tuple[ElementType, ElementType]]:
    own = [(of.source, of.target)] if isinstance(of, Convert) else []
    return [*own, *(pair for one in operands(of) for pair in conversions(one))]


def test_the_functions_of_the_header_are_conversions() -> None:
    assert value("y[i] = polydl_to_float(x[i]);") == Convert(BF16_BITS, F32, Load(0))
    product = value("z[i] = polydl_to_bf16(polydl_to_float(x[i]) * 2.0f);")
    assert isinstance(product, Convert)
    assert conversions(product) == [(F32, BF16_BITS), (BF16_BITS, F32)]
    assert isinstance(product.operand, Binary)


def test_what_they_are_given_is_a_float_first() -> None:
    """As the prototype says: a double is rounded twice."""
    assert value("z[i] = polydl_to_bf16(d[i]);") == Convert(F32, BF16_BITS, Convert(F64, F32, Load(0)))
    assert conversions(value("z[i] = polydl_to_bf16(3);")) == [(F32, BF16_BITS), (I32, F32)]


def test_copies_and_choices_need_no_conversion() -> None:
    assert value("z[i] = x[i];") == Load(0)
    assert conversions(value("z[i] = y[i] > 0 ? x[i] : polydl_to_bf16(0.0f);")) == [(F32, BF16_BITS)]


def test_functions_of_the_file_may_convert() -> None:
    assert "half" in str(value("y[i] = half(x[i]);"))


@pytest.mark.parametrize(
    ("statement", "at", "hint"),
    [
        ("y[i] = x[i] * x[i];", "x[i] * x[i]", "polydl_to_float(x) is a float"),
        ("y[i] = -x[i];", "x[i]", "polydl_to_float(x) is a float"),
        ("y[i] = (float)x[i];", "(float)x[i]", "polydl_to_float(x) is a float"),
        ("y[i] = x[i];", "y[i]", "polydl_to_float(x) is a float"),
        ("y[i] += x[i];", "y[i]", "polydl_to_float(x) is a float"),
        ("z[i] = 1.0f;", "z[i]", "store polydl_to_bf16(value)"),
        ("z[i] += x[i];", "z[i]", "polydl_to_float(x) is a float"),
        ("z[i] = (polydl_bf16)1.0f;", "(polydl_bf16)", "polydl_to_float(x) is a float"),
        ("y[i] = x[i] ? 1.0f : 0.0f;", "x[i] ?", "polydl_to_float(x) is a float"),
        ("y[i] = y[i] > 0 ? x[i] : 1.0f;", "y[i] > 0", "polydl_to_float(x) is a float"),
        ("y[i] = fabsf(x[i]);", "fabsf", "polydl_to_float(x) is a float"),
        ("y[i] = polydl_to_float(1.0f);", "polydl_to_float(1", "(polydl_to_bf16 makes one)"),
        ("if (x[i] > y[i]) y[i] = 1;", "x[i] > y", "polydl_to_float(x) is a float"),
    ],
)
def test_what_c_does_not_do_with_it(statement: str, at: str, hint: str) -> None:
    """The compiler refuses all of it too; the message says which conversion is missing, and where."""
    found = error(statement)
    assert found.span is not None
    assert found.hint is not None
    assert hint in found.hint
    line = PROGRAM.format(statement=statement).splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith(at)


def test_without_the_header() -> None:
    with pytest.raises(InputErrors, match=r"'polydl_bf16' is declared in polydl.h: #include <polydl.h>"):
        polydl.load("void f(polydl_bf16 x[8])\n{\n#pragma scop\n    x[1] = x[0];\n#pragma endscop\n}\n")


def compiler(folder: Path, script: str) -> str:
    path = folder / "cc"
    path.write_text(f'#!/bin/sh\ncase "$*" in *-fsyntax-only*) {script};; esac\nexec cc "$@"\n')
    path.chmod(0o755)
    return str(path)


NATIVE = """void f({t} *restrict y, const {t} *restrict x)
{{
#pragma scop
    for (int i = 0; i < 8; i++)
        y[i] = ({t})((float)x[i] * 2.0f) + x[i];
#pragma endscop
}}
"""


@pytest.mark.parametrize("element", [BF16, F16])
def test_types_that_only_some_compilers_have(element: ElementType, tmp_path: Path) -> None:
    text = NATIVE.format(t=element)
    with_it, without = tmp_path / "with", tmp_path / "without"
    for folder in (with_it, without):
        folder.mkdir()
    (scop,) = polydl.load(text, cc=compiler(with_it, "exit 0")).scops
    assert {array.element for array in scop.arrays.values()} == {element}
    body = scop.statements[0].body
    assert isinstance(body, Assignment)
    assert conversions(body.value) == [(F32, element), (element, F32)]
    with pytest.raises(InputErrors) as raised:
        polydl.load(text, cc=compiler(without, "exit 1"))
    first = raised.value.errors[0]
    assert f"has no type '{element}', which the elements of 'y' have" in first.reason
    assert (first.span.line, first.hint is not None) == (1, True)
    assert ("polydl_bf16 of polydl.h" in first.hint) == (element is BF16)


def test_the_output_compiles_with_the_names_as_they_are(tmp_path: Path) -> None:
    """Names of polydl.h are no reason for another prefix of generated names, and stay where there is one."""
    for other in ("", "static const int polydl_mine = 1;\n"):
        text = other + PROGRAM.format(statement="z[i] = polydl_to_bf16(polydl_to_float(x[i]) + d[i] + half(x[i]));")
        out = tmp_path / "out.c"
        polydl.optimize(text, out, sizes={"n": 100}, run=False, space="small")
        written = out.read_text()
        assert "polydl1_bf16" not in written
        assert "polydl1_to" not in written
        warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unknown-pragmas"]
        run_compiler(["cc", *warnings, *header_flags(), "-c", "out.c"], tmp_path)
