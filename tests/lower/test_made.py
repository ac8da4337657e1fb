"""Scops that are made in Python, without a file."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import numpy as np
import pytest

import polydl
from polydl.lower.made import made
from polydl.model.expr import Binary, Const, Load
from polydl.model.scop import Access, Assignment, Scop, Statement, Storage
from polydl.rewrite.canonical import canonical
from tests.compiling import run_compiler
from tests.measure.builders import SPAN, access, array


def statement(domain: str, position: tuple[int, ...], target: tuple[str, str], *reads: tuple[str, str]) -> Statement:
    """The target is 0 without reads, else the product of them is added to it."""
    points = isl.Set(domain)
    iterators = tuple(points.get_dim_name(isl.dim_type.set, k) for k in range(points.dim(isl.dim_type.set)))
    accesses = [access(points, *read) for read in reads]
    if reads:
        accesses.append(access(points, *target))
    accesses.append(access(points, *target, write=True))
    last = len(accesses) - 1
    body = Assignment(last, "=", Const("0"))
    if reads:
        body = Assignment(last, "+=", Binary("*", Load(0), Load(1)), last - 1)
    return Statement(points.get_tuple_name(), iterators, points, position, frozenset(), tuple(accesses), body, SPAN)


def two_products() -> Scop:
    """T = A B in an array of the function's own, then D = T C."""
    arrays = [array(name, 48, 48) for name in "ABCD"]
    arrays.append(array("T", 48, 48, storage=Storage.REGION, declaration="float T[48][48]"))
    box, cube = "0 <= i, j < 48", "0 <= i, j, k < 48"
    return made(
        "two_products",
        arrays,
        [
            statement(f"{{ Z[i, j] : {box} }}", (0, 0, 0), ("T", "i, j")),
            statement(f"{{ P[i, j, k] : {cube} }}", (1, 0, 0, 0), ("T", "i, j"), ("A", "i, k"), ("B", "k, j")),
            statement(f"{{ Y[i, j] : {box} }}", (2, 0, 0), ("D", "i, j")),
            statement(f"{{ Q[i, j, k] : {cube} }}", (3, 0, 0, 0), ("D", "i, j"), ("T", "i, k"), ("C", "k, j")),
        ],
    )  # fmt: skip


def test_its_source_reads_back_as_the_same_program() -> None:
    scop = two_products()
    (again,) = polydl.load(scop.source.text).scops
    sizes = [str(s.domain.count_val()) for s in scop.statements]
    assert [str(s.domain.count_val()) for s in again.statements] == sizes
    assert again.live_out == scop.live_out == frozenset("ABCD")
    assert set(again.arrays) == set(scop.arrays)


def test_it_is_ranked_and_written_like_one_that_was_read(tmp_path: Path) -> None:
    found = polydl.rank(two_products(), "small", "epyc-zen3", threads=2)
    assert len(found.variants) > 10
    assert [s.name for s in canonical(two_products()).scop.statements] == ["Z", "P", "Y", "Q"]
    assert any(structure.kernel for structure in found.variants[0].structures)
    path = tmp_path / "out.c"
    path.write_text(found.variants[0].code())
    run_compiler(["cc", "-O1", "-fopenmp", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-c", str(path)], tmp_path)


def test_it_computes_what_it_says(tmp_path: Path) -> None:
    """Measured through its own source: the original is the loops as they were made."""
    path = tmp_path / "two.c"
    path.write_text(two_products().source.text)
    done = polydl.optimize(path, space="small", top_k=2, threads=2, budget=None)
    (one,) = done.scops
    assert one.report is not None
    assert [m.verified for m in one.report.measurements] == [True] * len(one.report.measurements)


@pytest.mark.parametrize("n", [5, 30])
def test_sizes_may_stay_open(n: int) -> None:
    points = isl.Set("[n] -> { S[i] : 0 <= i < n }")
    read, write = (isl.Map(f"[n] -> {{ S[i] -> {name}[i] : 0 <= i < n }}") for name in "XY")
    scale = Statement(
        "S", ("i",), points, (0, 0), frozenset(), (Access("X", False, read), Access("Y", True, write)),
        Assignment(1, "=", Binary("*", Load(0), Const("2"))), SPAN,
    )  # fmt: skip
    whole = isl.PwAff("[n] -> { [(n)] }")
    arrays = [array(name, 1, declaration=f"float {name}[restrict n]", extents=(whole,)) for name in "XY"]
    scop = made("scale", arrays, [scale], parameters=("n",), context=isl.Set("[n] -> { : n >= 0 }"))
    kernel = polydl.compile(scop.source.text, sizes={"n": n}, optimize=False)
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    kernel(x, y)
    assert (y == 2 * x).all()
