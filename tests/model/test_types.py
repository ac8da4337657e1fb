"""The table of element types against the C compiler, NumPy, torch and brute force."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from polydl.base.errors import InputError
from polydl.base.resources import header_flags
from polydl.model.types import (
    BF16,
    BF16_BITS,
    BOOL,
    CHAR,
    F16,
    F32,
    F64,
    I8,
    I32,
    LONG_DOUBLE,
    TYPES,
    U8,
    U16,
    U64,
    ElementType,
    Kind,
    common,
    element_type,
    float_literal,
    promoted,
    spelled,
)
from tests.compiling import run_compiler, run_program

REAL = [t for t in TYPES if t.kind is not Kind.COMPLEX and t.name != BF16.name]
"""Types that every C compiler of today computes with."""


def compiled(folder: Path, expressions: Sequence[str]) -> list[int]:
    """The values of C expressions of type long."""
    source, binary = folder / "values.c", folder / "values"
    lines = "\n".join(f'    printf("%ld\\n", (long)({e}));' for e in expressions)
    source.write_text(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <math.h>\n#include <sys/types.h>\n"
        f"#include <stdbool.h>\nint main(void)\n{{\n{lines}\n    return 0;\n}}\n"
    )
    run_compiler(["cc", "-w", str(source), "-o", str(binary)])
    out = run_program([str(binary)]).stdout
    return [int(line) for line in out.split()]


def generic(expression: str) -> str:
    """A C expression for the index in REAL of an expression's type."""
    return f"_Generic(({expression}), {', '.join(f'{t.c}: {i}' for i, t in enumerate(REAL))})"


def test_sizes_and_signs_are_the_compilers(tmp_path: Path) -> None:
    rows = [t for t in TYPES if t.name != BF16.name]
    assert compiled(tmp_path, [f"sizeof({t.c})" for t in rows]) == [t.bytes for t in rows]
    integers = [t for t in TYPES if t.is_int and t is not CHAR]
    assert compiled(tmp_path, [f"({t.c})-1 < 0" for t in integers]) == [not t.unsigned for t in integers]
    largest = [t for t in integers if t.unsigned and t is not BOOL]
    assert compiled(tmp_path, [f"({t.c})-1 == {t.maximum}u" for t in largest]) == [1] * len(largest)


def test_typedefs_are_the_compilers(tmp_path: Path) -> None:
    typedefs = [(name, t) for t in REAL for name in t.also]
    found = compiled(tmp_path, [generic(f"({name})0") for name, _ in typedefs])
    assert [(name, REAL[i].name) for (name, _), i in zip(typedefs, found, strict=True)] == [
        (name, t.name) for name, t in typedefs
    ]


def test_significands_are_the_compilers(tmp_path: Path) -> None:
    macros = {F16: "FLT16", F32: "FLT", F64: "DBL", LONG_DOUBLE: "LDBL"}
    assert compiled(tmp_path, [f"__{m}_MANT_DIG__" for m in macros.values()]) == [t.significand for t in macros]
    assert compiled(tmp_path, [f"__{m}_MAX_EXP__ - 1" for m in macros.values()]) == [t.exponent for t in macros]


def test_conversions_are_the_compilers(tmp_path: Path) -> None:
    pairs = list(itertools.product(REAL, REAL))
    found = compiled(tmp_path, [generic(f"({a.c})0 + ({b.c})0") for a, b in pairs])
    assert [REAL[i].name for i in found] == [common(a, b).name for a, b in pairs]
    assert [REAL[i].name for i in compiled(tmp_path, [generic(f"+({t.c})0") for t in REAL])] == [
        promoted(t).name for t in REAL
    ]


@pytest.mark.parametrize("text", ["1.0", "1e3", ".5f", "0x1p3", "0x1.8p3f", "2.5L", "7", "0x1f", "12u", "3L", "'a'"])
def test_literals_are_the_compilers(text: str, tmp_path: Path) -> None:
    (found,) = compiled(tmp_path, [generic(text)])
    literal = None if text == "'a'" else float_literal(text)
    assert literal is (REAL[found] if REAL[found].is_float else None)


def test_numpy_has_the_same_types() -> None:
    for t in TYPES:
        if t.numpy is None:
            continue
        dtype = np.dtype(t.numpy)
        assert dtype.itemsize == t.bytes
        assert dtype.kind == {Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.FLOAT: "f", Kind.COMPLEX: "c"}[t.kind] or (
            t is BOOL and dtype.kind == "b"
        )
        if t.rounds:
            assert np.finfo(dtype).eps / 2 == t.roundoff
            assert np.finfo(dtype).maxexp - 1 == t.exponent


def test_torch_has_the_same_types() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional part")
    for t in TYPES:
        if t.torch is not None and hasattr(torch, t.torch):  # unsigned ones are as new as torch 2.3
            dtype = getattr(torch, t.torch)
            assert dtype.itemsize == t.bytes
            assert (dtype.is_floating_point, dtype.is_complex) == (t.is_float, t.kind is Kind.COMPLEX)
            if t.rounds:
                assert torch.finfo(dtype).eps / 2 == t.roundoff


def every_value(t: ElementType) -> np.ndarray:
    """All finite values of a type of at most 16 bits, or of a wider one those next to its limits, as long doubles."""
    if t.name == BF16.name:
        bits = np.arange(2**16, dtype=np.uint32) << 16
        values = bits.view(np.float32)
    elif t is F16:
        values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    elif t.is_int and t.bytes <= 2:
        low = 0 if t.unsigned else -t.maximum - 1
        values = np.arange(low, t.maximum + 1)
    elif t.is_int:
        near = [t.maximum, t.maximum - 1, t.maximum // 2, 1, 0] + ([] if t.unsigned else [-t.maximum - 1, -t.maximum])
        values = np.array([np.longdouble(v) for v in near])
    else:
        real = np.dtype(t.numpy)
        top = np.finfo(real).max
        values = np.array([top, -top, 1 + np.finfo(real).eps, 0], real)
    return values[np.isfinite(values)].astype(np.longdouble)


def kept(values: np.ndarray, t: ElementType) -> bool:
    """Whether a type has all these values."""
    if t.is_int:
        low = 0 if t.unsigned else -t.maximum - 1
        return bool(((values == np.floor(values)) & (values >= low) & (values <= t.maximum)).all())
    with np.errstate(over="ignore"):
        if t.name == BF16.name:
            single = values.astype(np.float32)
            exact = (single.view(np.uint32) & 0xFFFF) == 0
            return bool((exact & (single == values)).all())
        return bool((values.astype(t.numpy).astype(np.longdouble) == values).all())


@pytest.mark.skipif(LONG_DOUBLE.significand < 64, reason="long double cannot show all values of 64-bit integers")
def test_holds_is_that_no_value_changes() -> None:
    rows = [t for t in TYPES if t.kind is not Kind.COMPLEX]
    for a, b in itertools.product(rows, rows):
        assert a.holds(b) == kept(every_value(b), a), (a, b)
    assert not BF16.holds(F16)
    assert not F16.holds(BF16)
    assert not F32.holds(I32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long unsigned int", U64), ("size_t", U64), ("int unsigned short", U16), ("signed", I32), ("char signed", I8),
        ("char", CHAR), ("uint8_t", U8), ("double long", LONG_DOUBLE), ("_Float16", F16), ("bool", BOOL),
    ],
)  # fmt: skip
def test_spellings(text: str, expected: ElementType) -> None:
    assert spelled(text) is expected


def test_every_order_of_words_is_the_same_type() -> None:
    for t in TYPES:
        for words in itertools.permutations(t.c.split()):
            assert spelled(" ".join(words)) is t


@pytest.mark.parametrize("text", ["", "void", "struct point", "float float", "half", "long long long"])
def test_what_is_no_element_type(text: str) -> None:
    assert spelled(text) is None
    with pytest.raises(InputError, match="is no element type that is known"):
        element_type(text)


def test_sums_are_kept_in_types_that_hold_the_elements() -> None:
    for t in TYPES:
        assert t.accumulator.holds(t)
        assert t.accumulator.accumulator is t.accumulator
    assert (BF16.accumulator, F16.accumulator, I8.accumulator, U8.accumulator) == (F32, F32, I32, I32)


def test_the_type_of_the_header_is_as_large_as_the_table_says(tmp_path: Path) -> None:
    (tmp_path / "size.c").write_text(f"""#include <polydl.h>
#include <stdio.h>
int main(void) {{ printf("%zu\\n", sizeof({BF16_BITS})); return 0; }}""")
    command = ["cc", *header_flags(), str(tmp_path / "size.c"), "-o", str(tmp_path / "size")]
    run_compiler(command)
    out = run_program([str(tmp_path / "size")]).stdout
    assert int(out) == BF16_BITS.bytes
    assert BF16_BITS.holds(BF16)
    assert BF16.holds(BF16_BITS)


def test_rows_stay_the_same_object() -> None:
    for t in TYPES:
        assert pickle.loads(pickle.dumps(t)) is t
        assert deepcopy(t) is t
    assert len({t.c for t in TYPES}) == len(TYPES)
    assert F64 != F32
