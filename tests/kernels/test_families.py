"""The table of families: every member is there, its row is asked in its order, and functions compute their meanings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.kernels import families
from polydl.kernels.contraction_blocks import Block, Contractions, price
from polydl.kernels.copy import CopyPiece, Packing
from polydl.kernels.family import Cycles, Family, Function
from polydl.kernels.innermost import (
    VECTOR,
    Argument,
    Innermost,
    OfRows,
    RowFunction,
    RowOptions,
    printed,
    stated,
)
from polydl.kernels.microkernel import isa_prologue
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.kernels.packing import PackLoop, pack_prologue
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.kernels.rows import GeneralRow, row_prologue
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.emit import generate
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.model.time import map_from_affs
from polydl.model.types import F32, F64
from polydl.options import Options
from polydl.target.isa import ISAS
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import scop

TABLE = (*families.INNERMOST, *families.NESTS, *families.COPIES)
MEMBERS = [name for name, _ in inspect.getmembers(Family, inspect.isfunction) if not name.startswith("_")]
SIZE, MIDDLE = 20_000, 6_000
"""Elements of the arrays that functions are tried on, and where in them their operands begin."""


@pytest.mark.parametrize("family", TABLE, ids=lambda family: family.name)
def test_every_family_has_each_member(family: Any) -> None:
    assert sorted(MEMBERS) == ["cycles", "emit", "layouts", "matches", "meaning", "shapes"]
    for name in MEMBERS:
        wanted = inspect.signature(getattr(Family, name)).parameters
        assert [*inspect.signature(getattr(type(family), name)).parameters] == [*wanted], name
    assert family.name and [other.name for other in TABLE].count(family.name) == 1


# What functions compute


def differences(
    folder: Path, before: Sequence[str], made: Function, text: str, meaning: str, sizes: Mapping[str, int]
) -> int:
    """Elements in which a function's arrays differ from its meaning's: both are run on the same small integers. All
    where it changes none."""
    declared, first, second, compared = [], [], [], []
    for parameter in made.signature.split(", "):
        kind, name = re.fullmatch(r"(.*?)(\w+)", parameter).groups()  # type: ignore[union-attr]
        if not kind.endswith("*"):
            value = str(sizes[name]) if "ptrdiff_t" in kind else "3"
            first, second = [*first, value], [*second, value]
            continue
        element = kind.replace("const ", "").strip(" *")
        declared.append(f"static {element} one_{name}[{SIZE}], two_{name}[{SIZE}];")
        declared.append(f"static void fill_{name}(void)")
        values = f"one_{name}[i] = two_{name}[i] = (int)((i + {len(declared)}u) * 2654435761u >> 20) % 9 - 4"
        declared.append(f"{{ for (int i = 0; i < {SIZE}; i++) {values}; }}")
        first, second = [*first, f"one_{name} + {MIDDLE}"], [*second, f"two_{name} + {MIDDLE}"]
        compared.append(name)
    source = "\n".join([
        "#include <math.h>", "#include <stdio.h>", *before, text,
        f"static void meant({made.signature})\n{{\n{meaning}\n}}", *declared,
        "int main(void)\n{\n    int wrong = 0, changed = 0;",
        *(f"    fill_{name}();" for name in compared),
        f"    {made.name}({', '.join(first)});",
        *(f"    for (int i = 0; i < {SIZE}; i++) changed += one_{name}[i] != two_{name}[i];" for name in compared),
        f"    meant({', '.join(second)});",
        *(f"    for (int i = 0; i < {SIZE}; i++) wrong += one_{name}[i] != two_{name}[i];" for name in compared),
        '    printf("%d %d\\n", wrong, changed);\n    return 0;\n}',
    ])  # fmt: skip
    (folder / "program.c").write_text(source)
    command = ["cc", "-O1", "-march=native", "-ffp-contract=off", "program.c", "-lm", "-o", "program"]
    run_compiler(command, folder)
    wrong, changed = map(int, run_program([folder / "program"], check=False).stdout.split())
    return wrong if changed else SIZE


HEAD = "void f(int s, {t} d[restrict 90][40], {t} e[90][40], const {t} a[90][40], const {t} b[90][40], {t} m[1])"
ROWS = {
    "chain": "d[i][j] = a[i][j] * b[i][j] + 2; e[i][j] = d[i][j] - a[i][j] * m[0];",
    "choice": "d[i][j] = a[i][j] < b[i][j] ? -a[i][j] : b[i][j] / 2;",
    "again": "d[i][j] += a[i][j]; d[i][j] *= b[i][j];",
    "sum": "m[0] += a[i][j] * b[i][j];",
    "largest": "m[0] = m[0] < a[i][j] ? a[i][j] : m[0];",
    "least": "m[0] = fmin@(m[0], a[i][j] + b[i][j]);",
    "largest of three": "d[i][j] = fmax@(fmax@(a[i][j], b[i][j]), e[i][j]);",
}


def rows(folder: Path, body: str, element: str, options: RowOptions) -> Innermost:
    """The two loops around a body as one row. Raises NotVectorised."""
    code = body.replace("@", "f" if element == "float" else "")
    loops = f"for (int i = 0; i < 90; i++) for (int j = 0; j < 40; j++) {{ {code} }}"
    found = scop(folder, f"#include <math.h>\n{HEAD.format(t=element)}\n{{\n{loops}\n}}\n")
    body_of = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
    return printed(found.arrays, frozenset(), RowLoops((0, 1), (40,)), body_of, options)


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("body", ROWS)
def test_rows_compute_their_meaning(body: str, element: str, tmp_path: Path) -> None:
    piece = rows(tmp_path, ROWS[body], element, RowOptions())
    taken = [(family, use) for family in families.INNERMOST for use in family.matches(piece)]
    assert taken
    for family, use in taken:
        for target in ISAS:
            assert tuple(family.shapes(use, target)) == (VECTOR,)
            assert not family.layouts(use, VECTOR)
            assert family.cycles(use, VECTOR, target).step > 0
        made = family.emit(use, VECTOR)
        args, meaning = (tmp_path, made.prologue, made, made.text), family.meaning(use, VECTOR)
        for n in (90 * 40, 13):
            assert differences(*args, meaning, {"n": n}) == 0
        less = meaning.replace("j < n", "j + 1 < n")
        assert any(differences(*args, less, {"n": n}) for n in (13, 1, 2)), "one column less is not seen"


def test_no_function_runs_what_is_no_row(tmp_path: Path) -> None:
    for body in ("d[i][j] = a[i][39 - j];", "m[0] = a[i][j] - m[0];", "d[i][j] = a[i][j] * i;"):
        assert families.row_function(rows(tmp_path, body, "float", RowOptions())) is None, body
    fixed = rows(tmp_path, ROWS["sum"], "float", RowOptions(reassociate=False))
    assert families.row_function(fixed) is None
    for body in ("d[i][j] = d[89 - i][j];", "d[i][39 - j] = d[i][j];", "d[i][j] = a[i][j]; e[i][j] = d[89 - i][j];"):
        with pytest.raises(NotVectorised):
            rows(tmp_path, body, "float", RowOptions())


CONTRACTIONS = [
    (MicrokernelSpec(F32, 6, 32, 64, 40, (Reduction(3, 9, 99), Reduction(12, 1, 41))), 5, 27),
    (MicrokernelSpec(F64, 4, 16, 70, 20, (Reduction(30, 2, 21),), beta=0, alpha=True), 4, 16),
    (MicrokernelSpec(F32, 8, 16, 12, 17, (Reduction(12, 1, 16),), negate=True), 7, 3),
]


def product(folder: Path, b: str = "B[k][j]") -> Nest:
    loops = "for (int i = 0; i < 60; i++) for (int j = 0; j < 70; j++) for (int k = 0; k < 80; k++)"
    head = "void f(float C[restrict 60][70], const float A[60][80], const float B[80][80])"
    found = scop(folder, f"{head}\n{{\n{loops} C[i][j] += A[i][k] * {b};\n}}\n")
    (nest,) = nests(found, dependences(found, reads=False))
    return nest


@pytest.mark.parametrize("number", range(len(CONTRACTIONS)))
def test_contractions_compute_their_meaning(number: int, tmp_path: Path) -> None:
    spec, m, n = CONTRACTIONS[number]
    family = Contractions()
    use = replace(family.matches(product(tmp_path))[0], spec=spec)
    block = Block(spec.m, spec.n)
    made = family.emit(use, block)
    meaning = family.meaning(use, block)
    args = (tmp_path, [isa_prologue(spec.dtype)], made, made.text)
    assert differences(*args, meaning, {"m": m, "n": n}) == 0
    assert differences(*args, meaning.replace("j < n", "j + 1 < n"), {"m": m, "n": n}) > 0
    with pytest.raises(ValueError, match="epilogue"):
        family.meaning(replace(use, spec=replace(spec, epilogue=("polydl_acc = polydl_acc;",))), block)


COPIES = [
    (CopyPiece(F32, 1, (PackLoop(20, 50),)), 16, 37),
    (CopyPiece(F32, 90, (PackLoop(3, 30), PackLoop(25, 1))), 6, 20),
    (CopyPiece(F64, 7, (PackLoop(5, -3),)), 8, 8),
]


@pytest.mark.parametrize("number", range(len(COPIES)))
def test_copies_are_their_meaning(number: int, tmp_path: Path) -> None:
    copy, block, width = COPIES[number]
    family = Packing()
    (use,) = family.matches(copy)
    made = family.emit(use, block)
    args = (tmp_path, [isa_prologue(copy.element), pack_prologue(copy.element)], made, made.text)
    assert differences(*args, family.meaning(use, block), {"width": width}) == 0
    other = replace(copy, loops=(*copy.loops[:-1], replace(copy.loops[-1], stride=2)))
    assert differences(*args, family.meaning(other, block), {"width": width}) > 0


# Roles, shapes, layouts, cycles


def test_a_product_has_its_roles(tmp_path: Path) -> None:
    family = Contractions()
    (use,) = family.matches(product(tmp_path))
    assert (use.rows, use.columns, use.reductions) == ("i", "j", ("k",))
    assert (use.left.array, use.right.array, use.output.array) == ("A", "B", "C")
    assert (use.row_extent, use.column_extent, use.reduction_extents) == (60, 70, (80,))
    assert not family.layouts(use, Block(6, 32))
    (transposed,) = family.matches(product(tmp_path, "B[j][k]"))
    assert family.layouts(transposed, Block(6, 32))["B"].strides == (32, 1)


def test_no_kernel_is_made_for_what_is_no_contraction(tmp_path: Path) -> None:
    found = scop(tmp_path, "void f(float a[restrict 9], const float b[9]) { for (int i = 0; i < 9; i++) a[i] = b[i]; }")
    (nest,) = nests(found, dependences(found, reads=False))
    assert not Contractions().matches(nest)
    assert not Packing().matches(CopyPiece(F32, 1, (PackLoop(2, 2),) * 7))


@pytest.mark.parametrize("target", ISAS, ids=lambda target: target.name)
def test_shapes_come_in_the_order_of_their_price(target: Any, tmp_path: Path) -> None:
    family = Contractions()
    (use,) = family.matches(product(tmp_path))
    blocks = family.shapes(use, target)
    prices = [price(use, block, target) for block in blocks]
    assert prices == sorted(prices)
    assert len({block.n for block in blocks}) == len(blocks)
    best, narrow = (family.cycles(use, block, target) for block in (blocks[0], Block(1, 1)))
    assert best.step < narrow.step
    assert best.stores >= narrow.stores


# The table is what everybody asks


@dataclass(frozen=True)
class Halves(OfRows):
    """`d[i] = a[i] * 0.5f`, as something that is easily told from the general row."""

    price: float = 0.0
    name = "halves"

    def matches(self, piece: Innermost) -> Sequence[int]:
        return [0] if len(piece.statements) == 1 and piece.moves == ((1, 1),) else []

    def cycles(self, use: int, shape: int, isa: Any) -> Cycles:
        return Cycles(self.price)

    def emit(self, use: int, shape: int) -> RowFunction:
        signature = "const ptrdiff_t n, const float *a, float *d"
        body = "    for (ptrdiff_t j = 0; j < n; j++) d[j] = a[j] * 0.5f;\n"
        text = stated("polydl_halves", signature, self.meaning(use, shape), body)
        return RowFunction(
            "polydl_halves", text, signature, row_prologue(F32), (Argument(0, 0, True), Argument(0, 1, True))
        )

    def meaning(self, use: int, shape: int) -> str:
        return "for (ptrdiff_t j = 0; j < n; j++) d[j] = a[j] * 0.5f;"


HALF = """void f(float d[restrict 4000], const float a[restrict 4000])
{ for (int i = 0; i < 4000; i++) d[i] = a[i] * 0.5f; }
"""


def texts_and_seconds(found: Scop) -> tuple[str, float]:
    """The first variant in rows: its C, and its predicted seconds."""
    options = Options(machine="epyc-zen5", threads=1)
    ranking = pipeline.with_fused(pipeline.rank(found, options=options), options)
    variant = next(v for v in ranking.variants if any(part.rows is not None for part in v.parts if part.loops))
    made = generate(variant.program, variant.tree)
    return "\n".join([*made.prologue, made.region]), variant.score


def test_the_first_family_that_matches_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = scop(tmp_path, HALF)
    general, seconds = texts_and_seconds(found)
    assert "polydl_row_f32_" in general and "polydl_halves" not in general
    for cycles in (0.0, 1e6):
        monkeypatch.setattr(families, "INNERMOST", (Halves(cycles), GeneralRow()))
        own, other = texts_and_seconds(found)
        assert "polydl_halves(" in own and "polydl_row_f32_" not in own
        assert (other > seconds) == (cycles > 0)
    monkeypatch.setattr(families, "INNERMOST", (GeneralRow(), Halves()))
    assert texts_and_seconds(found) == (general, seconds)
