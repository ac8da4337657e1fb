"""Triangles of sums become boxes where nobody sees what is computed beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polydl
from polydl.equations.step import Step
from polydl.lower.guarded_pieces import where_all_runs
from polydl.measure import Status
from polydl.model import isl
from polydl.model.scop import Scop, Storage
from polydl.rewrite.canonical import canonical
from polydl.rewrite.scratch_array import is_box
from polydl.rewrite.triangle_padding import Completed
from polydl.target.isa import has_register_blocks

pytestmark = pytest.mark.few_sizes

HEAD = "void f(float A[restrict 70][9], float B[restrict 70][9], float C[restrict 70][70], double D[restrict 70][70])"
SUM = "for (int k = 0; k < 9; k++)"


def scop_of(loops: str, body: str) -> Scop:
    (scop,) = polydl.load(
        f"{HEAD}\n{{\nfloat s; double d;\n#pragma scop\n{loops} {{ {body} }}\n#pragma endscop\n}}"
    ).scops
    return scop


LOWER = "for (int i = 0; i < 70; i++) for (int j = 0; j <= i; j++)"
TRIANGLES = {
    "lower": (LOWER, f"s = 0; {SUM} s += A[i][k] * A[j][k]; C[i][j] = C[j][i] = s;"),
    "upper": (
        "for (int i = 0; i < 70; i++) for (int j = i + 1; j < 70; j++)",
        f"s = 1; {SUM} s += A[i][k] * A[j][k]; C[i][j] = s * s; C[j][i] = s;",
    ),
    "in double": (LOWER, f"d = 0; {SUM} d += (double)A[i][k] * A[j][k]; C[i][j] = C[j][i] = d;"),
    "scaled and mirrored": (
        "for (int i = 0; i < 70; i++) for (int j = i; j < 70; j++)",
        f"s = 0; {SUM} s += A[i][k] * A[j][k]; C[i][j] = s / 9; C[j][i] = C[i][j];",
    ),
}


def completed(scop: Scop) -> list[Step]:
    return [step for step in canonical(scop).steps if isinstance(step.rewrite, Completed)]


@pytest.mark.parametrize("case", list(TRIANGLES))
def test_all_products_are_in_boxes(case: str) -> None:
    found = canonical(scop_of(*TRIANGLES[case]))
    assert not found.refused
    blocks = [s for s in found.scop.statements if has_register_blocks(found.scop, s)]
    assert len(blocks) == 4 and all(map(is_box, blocks))


def test_parameters_may_say_how_long_other_loops_are() -> None:
    head = "void f(int n, float A[restrict n][70][9], float C[restrict n][70][70])"
    body = f"float s = 0; {SUM} s += A[h][i][k] * A[h][j][k]; C[h][i][j] = s / 9; C[h][j][i] = C[h][i][j];"
    text = f"{head}\n{{\n#pragma scop\nfor (int h = 0; h < n; h++) {LOWER} {{ {body} }}\n#pragma endscop\n}}"
    (given,) = polydl.load(text, sizes={"n": 5}).scops
    assert given.symbolic is not None
    narrowed = where_all_runs(given.symbolic)
    assert not narrowed.values.is_empty()
    found = canonical(narrowed.scop)
    assert not found.refused
    blocks = [s for s in found.scop.statements if has_register_blocks(found.scop, s)]
    assert len(blocks) == 4 and all(map(is_box, blocks))
    assert [s.name for s in found.scop.statements] == [s.name for s in canonical(given).scop.statements]


@pytest.mark.parametrize(
    ("loops", "body"),
    [
        # terms that are not there, too few rows, elements that were never read, what others see
        (LOWER, "s = 0; for (int k = 0; k <= i % 3; k++) s += A[i][k] * A[j][k]; C[i][j] = C[j][i] = s;"),
        (LOWER.replace("70", "40"), f"s = 0; {SUM} s += A[i][k] * A[j][k]; C[i][j] = C[j][i] = s;"),
        (LOWER, f"s = 0; {SUM} s += C[i][k] * D[i - j][j]; C[i][j] = C[j][i] = s;"),
        (LOWER, f"{SUM} C[i][j] += A[i][k] * A[j][k];"),
    ],
)
def test_others_stay(loops: str, body: str) -> None:
    assert completed(scop_of(loops, body)) == []


def test_the_check_sees_who_touches_what_is_added() -> None:
    (step,) = completed(scop_of(*TRIANGLES["lower"]))
    assert step.broken() is None
    assert isinstance(step.rewrite, Completed)
    array = step.rewrite.array
    seen = replace(step.before, live_out=step.before.live_out | {array})
    seen = replace(seen, arrays={**seen.arrays, array: replace(seen.arrays[array], storage=Storage.LOCAL)})
    assert step.rewrite.broken(seen, step.after) is not None
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert step.rewrite.broken(step.before, fewer) is not None
    # The first band of the sums, one row short.
    first = next(s for s in step.after.statements if s.depth == 3)
    short = replace(first, domain=isl.between(first.domain, 0, 1, 17))
    short = replace(
        short, accesses=tuple(replace(a, relation=a.relation.intersect_domain(short.domain)) for a in short.accesses)
    )
    after = replace(step.after, statements=tuple(short if s is first else s for s in step.after.statements))
    assert step.rewrite.broken(step.before, after) is not None
    # Somebody reads an element beside the triangle, in the first band.
    *others, reader, last = step.before.statements
    assert reader.accesses[0].array == array
    corner = reader.accesses[0].relation.union(
        isl.Map(f"{{ {reader.name}[i, j] -> {array}[0, 17] : i = 69 and j = 0 }}")
    )
    reading = replace(reader, accesses=(replace(reader.accesses[0], relation=corner), *reader.accesses[1:]))
    before = replace(step.before, statements=(*others, reading, last))
    both = tuple(replace(reading, position=s.position) if s.name == reader.name else s for s in step.after.statements)
    assert step.rewrite.broken(before, replace(step.after, statements=both)) is not None


@pytest.mark.parametrize("case", ["upper", "in double"])
def test_it_computes_the_same(case: str, tmp_path: object) -> None:
    loops, body = TRIANGLES[case]
    text = f"{HEAD}\n{{\nfloat s; double d;\n#pragma scop\n{loops} {{ {body} }}\n#pragma endscop\n}}\n"
    done = polydl.optimize(text, space="small", top_k=3, budget=None)
    (scop,) = done.scops
    assert scop.report is not None
    assert {m.status for m in scop.report.measurements} <= {Status.VERIFIED}
