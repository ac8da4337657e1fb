"""Elements and loop bounds that data choose: what may be touched, never more exact than that; what stays refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import islpy as isl
import pytest

from polydl.base.errors import InputErrors
from polydl.dependences.analysis import Kind, dependences
from polydl.model.contraction import contraction
from polydl.model.expr import AffineValue, Binary, Gather, Load
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from tests.frontend.reading import reads, region, same_map, same_set, write

HEAD = "void f(int n, const int at[20], const float x[30], float y[20], const float T[30][8], float A[20][8])"
LOOP = "for (int i = 0; i < 20; i++) "


def only(folder: Path, body: str, head: str = HEAD) -> Statement:
    (statement,) = region(folder, body, head).statements
    return statement


def value(statement: Statement) -> object:
    assert isinstance(statement.body, Assignment)
    return statement.body.value


def test_the_index_is_read_exactly_and_the_element_may_be_any(tmp_path: Path) -> None:
    found = only(tmp_path, LOOP + "y[i] = x[at[i]];")
    (index,), (element,) = reads(found, "at"), reads(found, "x")
    assert index.exact
    assert same_map(index.relation, "{ S0[i] -> at[i] : 0 <= i < 20 }")
    assert not element.exact
    assert same_map(element.relation, "{ S0[i] -> x[a] : 0 <= i < 20 and 0 <= a < 30 }")
    assert write(found).exact
    assert value(found) == Gather(Load(1), (Load(0),))


def test_affine_subscripts_beside_it_stay_exact(tmp_path: Path) -> None:
    found = only(tmp_path, LOOP + "for (int j = 0; j < 8; j++) A[i][j] += T[at[i]][7 - j];")
    (element,) = reads(found, "T")
    assert same_map(element.relation, "{ S0[i, j] -> T[a, 7 - j] : 0 <= i < 20 and 0 <= j < 8 and 0 <= a < 30 }")
    assert isinstance(found.body, Assignment)
    assert found.body.op == "+="
    assert contraction(region(tmp_path, LOOP + "for (int j = 0; j < 8; j++) A[i][j] += T[at[i]][j] * x[j];", HEAD),
                       found) is None  # fmt: skip


def test_sizes_may_stay_symbolic(tmp_path: Path) -> None:
    head = "void f(int n, int v, const int at[n], const float x[v], float y[n])"
    found = only(tmp_path, "for (int i = 0; i < n; i++) y[i] = x[at[i]];", head)
    (element,) = reads(found, "x")
    assert same_map(element.relation, "[n, v] -> { S0[i] -> x[a] : 0 <= i < n and 0 <= a < v }")


def test_without_a_size_it_has_no_end(tmp_path: Path) -> None:
    found = only(tmp_path, LOOP + "y[i] = p[at[i]];", "void f(const int *at, const float *p, float *restrict y)")
    assert same_map(reads(found, "p")[0].relation, "{ S0[i] -> p[a] : 0 <= i < 20 }")


@pytest.mark.parametrize(
    "subscript", ["at[i] + 1", "at[i] % 4", "2 * at[i] - i", "at[at[i]]", "(int)y[i]", "(at[i] < 3 ? 0 : at[i])", "k"]
)
def test_whatever_it_is_computed_with(tmp_path: Path, subscript: str) -> None:
    found = region(tmp_path, LOOP + "{ const int k = at[i]; y[i] = 2 * x[" + subscript + "]; }", HEAD)
    last = found.statements[-1]
    made = value(last)
    assert isinstance(made, Binary)
    assert isinstance(made.right, Gather)
    assert not reads(last, "x")[0].exact


@pytest.mark.parametrize(
    "row", ["const float *row = T[at[i]];", "const float *row = &T[at[i]][0];", "const float *row = T[k];"]
)
def test_a_pointer_to_a_row_that_data_choose(tmp_path: Path, row: str) -> None:
    found = region(
        tmp_path, LOOP + "{ int k = at[i]; " + row + " for (int j = 0; j < 8; j++) A[i][j] = row[j]; }", HEAD
    )
    last = found.statements[-1]
    (element,) = reads(last, "T")
    assert same_map(
        element.relation, f"{{ {last.name}[i, j] -> T[a, j] : 0 <= i < 20 and 0 <= j < 8 and 0 <= a < 30 }}"
    )


def test_a_flat_array_is_read_as_it_is_written(tmp_path: Path) -> None:
    head = "void f(const int at[20], const float flat[240], float A[20][8])"
    found = only(tmp_path, LOOP + "for (int j = 0; j < 8; j++) A[i][j] = flat[at[i] * 8 + j];", head)
    made = value(found)
    assert isinstance(made, Gather)
    (subscript,) = made.subscripts
    assert isinstance(subscript, Binary)
    assert isinstance(subscript.right, AffineValue)
    assert same_set(reads(found, "flat")[0].relation.range(), "{ flat[a] : 0 <= a < 240 }")


def test_sizes_that_only_values_are_made_of_stay_data(tmp_path: Path) -> None:
    body = LOOP + "{ int k = 0; if (y[i] > 0) k = n - i; y[i] = x[at[i]] + k; }"
    assert region(tmp_path, body, HEAD).parameters == ()


CSR = "void f(const int ptr[21], const int col[99], const float val[99], const float x[30], float y[20])"


@pytest.mark.parametrize(
    "loop",
    [
        "for (int k = ptr[i]; k < ptr[i + 1]; k++) y[i] += val[k] * x[col[k]];",
        "{ int k; for (k = ptr[i]; k < ptr[i + 1]; ++k) y[i] += val[k] * x[col[k]]; }",
        "{ int a = ptr[i], b = ptr[i + 1]; for (int k = a; k < b; k++) { int c = col[k]; y[i] += val[k] * x[c]; } }",
    ],
)
def test_rows_of_a_sparse_matrix(tmp_path: Path, loop: str) -> None:
    found = region(tmp_path, LOOP + loop, CSR)
    last = found.statements[-1]
    assert isinstance(last.body, BlackBox)
    assert last.iterators == ("i",)
    assert same_map(write(last).relation, f"{{ {last.name}[i] -> y[i] : 0 <= i < 20 }}")
    assert same_set(reads(last, "x")[0].relation.range(), "{ x[a] : 0 <= a < 30 }")
    assert same_set(reads(last, "val")[0].relation.range(), "{ val[a] : 0 <= a < 99 }")
    assert not [d for d in dependences(found, reads=False) if d.carried_by]
    assert {(use.array, use.holders, use.past, use.ordered) for use in found.indices} == {
        ("val", ("ptr",), 1, frozenset({"ptr"})),
        ("col", ("ptr",), 1, frozenset({"ptr"})),
        ("x", ("col",), 0, frozenset()),
    }


def test_a_row_that_data_choose_may_be_written(tmp_path: Path) -> None:
    found = region(tmp_path, LOOP + "{ float *p = A[at[i]]; p[0] = 1; }", HEAD)
    (statement,) = found.statements
    assert same_set(write(statement).relation.range(), "{ A[a, 0] : 0 <= a < 20 }")
    assert [d for d in dependences(found, reads=False) if d.carried_by]


def test_a_sum_in_a_scalar_is_private_to_the_row(tmp_path: Path) -> None:
    row = "{ float s = 0; for (int k = ptr[i]; k < ptr[i + 1]; k++) s += val[k] * x[col[k]]; y[i] = s; }"
    found = region(tmp_path, LOOP + row, CSR)
    assert [type(s.body) for s in found.statements] == [Assignment, BlackBox, Assignment]
    assert not [d for d in dependences(found, reads=False) if d.carried_by]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{ own[i] = 1; for (int k = 0; k < own[i]; k++) y[k] = 0; }", "data decide the bounds of 'k'"),
        ("{ const float *p = A[m]; m = 0; y[i] = p[0]; }", "'m' decides where the pointer 'p' points, and changes"),
        ("{ const float *p = T[own[i]]; own[i] = 1; y[i] = p[0]; }", "'own' decides where the pointer 'p' points"),
        ("{ int *q = own; q[i] = 1; const float *p = T[own[i]]; y[i] = p[0]; }", "'own' decides where the pointer"),
    ],
)
def test_what_stays_refused(tmp_path: Path, body: str, message: str) -> None:
    head = HEAD.replace("void f(", "void f(int own[20], ")
    with pytest.raises(InputErrors, match=message) as caught:
        region(tmp_path, "int m = at[0]; " + LOOP + body, head)
    assert all(error.hint and error.span is not None for error in caught.value.errors)


def pairs(scop: Scop, kind: Kind) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs (source, target) of the dependences of one kind, in a scop of one statement without parameters."""
    found: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for dependence in dependences(scop, reads=False):
        if dependence.kind is kind:
            points: list[isl.Point] = []
            dependence.relation.wrap().flatten().foreach_point(points.append)
            for point in points:
                at = [int(point.get_coordinate_val(isl.dim_type.set, d).to_python()) for d in range(2)]
                found.add(((at[0],), (at[1],)))
    return found


@pytest.mark.parametrize(
    ("statement", "reading", "writing"),
    [
        ("a[i] = a[at[i]] + 1;", lambda at, i: at[i], lambda i: i),
        ("a[i] = a[at[i] / 2] + 1;", lambda at, i: at[i] // 2, lambda i: i),
        ("a[3 - i] = a[at[i]] + 1;", lambda at, i: at[i], lambda i: 3 - i),
        ("if (at[i] > 0) a[i] = a[at[i]] + 1;", lambda at, i: at[i] if at[i] > 0 else None, lambda i: i),
        ("for (int k = at[i]; k < 3; k++) a[i] += a[k];", lambda at, i: at[i] if at[i] < 3 else None, lambda i: i),
    ],
)
def test_no_contents_of_the_index_break_a_dependence(
    tmp_path: Path,
    statement: str,
    reading: Callable[[Sequence[int], int], int | None],
    writing: Callable[[int], int],
) -> None:
    """Of an array that is read through an index and written: whatever the index holds, each pair of iterations that
    touch one element is among the dependences."""
    size = 4
    found = region(
        tmp_path, f"for (int i = 0; i < {size}; i++) {statement}", f"void f(const int at[{size}], int a[{size}])"
    )
    raw: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    war: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for at in itertools.product(range(size), repeat=size):
        for i, j in itertools.combinations(range(size), 2):
            if reading(at, j) == writing(i):
                raw.add(((i,), (j,)))
            if reading(at, i) == writing(j):
                war.add(((i,), (j,)))
    assert raw <= pairs(found, Kind.RAW)
    assert war <= pairs(found, Kind.WAR)
    assert raw
    assert {d.carried_by for d in dependences(found, reads=False) if d.carried_by} == {"i"}
