"""Arrays that hold subscripts are filled with values that stay inside of what they choose from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError
from polydl.measure.index_data import Values, assumed_elements, filled, values_of
from polydl.measure.input_data import describe_buffers, integer_inputs, real_inputs
from polydl.measure.unit import passed_arrays
from polydl.model.scop import Scop
from tests.frontend.reading import region


def made(folder: Path, head: str, loop: str) -> Scop:
    return region(folder, f"for (int i = 0; i < 20; i++) {loop}", f"void f({head})")


def held(scop: Scop, **extents: int) -> dict[str, tuple[int, int, bool]]:
    found = values_of(scop, {name: [extent] for name, extent in extents.items()})
    return {name: (one.least, one.most, one.ordered) for name, one in found.items()}


@pytest.mark.parametrize(
    ("subscript", "least", "most"),
    [
        ("at[i]", 0, 99),
        ("at[i] + 5", -5, 94),
        ("3 - at[i]", -96, 3),
        ("at[i] * 8 + i % 8", 0, 11),
        ("at[i] - i", 19, 99),
        ("(int)at[i] + i", 0, 80),
        ("at[i] & 7", 0, 99),
    ],
)
def test_one_index(tmp_path: Path, subscript: str, least: int, most: int) -> None:
    scop = made(tmp_path, "const int at[20], const float x[100], float y[20]", f"y[i] = x[{subscript}];")
    assert held(scop, x=100) == {"at": (least, most, False)}


def test_the_smallest_array_and_the_type_decide(tmp_path: Path) -> None:
    head = "const unsigned char at[20], const float x[1000], const float w[50], float y[20]"
    assert held(made(tmp_path, head, "y[i] = x[at[i]];"), x=1000) == {"at": (0, 255, False)}
    assert held(made(tmp_path, head, "y[i] = x[at[i]] + w[at[i]];"), x=1000, w=50) == {"at": (0, 49, False)}


def test_several_values_make_one_subscript(tmp_path: Path) -> None:
    scop = made(
        tmp_path, "const int r[20], const int c[20], const float x[100], float y[20]", "y[i] = x[r[i] * 10 + c[i]];"
    )
    assert held(scop, x=100) == {"r": (0, 4, False), "c": (0, 49, False)}


def test_through_scalars_and_from_index_to_index(tmp_path: Path) -> None:
    head = "const int at[20], const int next[50], const float x[100], float y[20]"
    scop = made(tmp_path, head, "{ int k = at[i] + 1; int m = next[k]; if (y[i] > 0) m = 0; y[i] = x[2 * m]; }")
    assert held(scop, x=100, next=50) == {"at": (-1, 48, False), "next": (0, 49, False)}


def test_rows(tmp_path: Path) -> None:
    head = "const int ptr[21], const int *len, const float val[99], const float *p, float y[20]"
    rows = made(tmp_path, head, "for (int k = ptr[i]; k < ptr[i + 1]; k++) y[i] += val[k] + p[k];")
    assert held(rows, val=99, p=7) == {"ptr": (0, 7, True)}
    assert assumed_elements(rows, rows.arrays["p"]) == 16 * 99
    heads = made(tmp_path, head, "for (int k = 0; k <= len[i]; k++) y[i] += val[k];")
    assert held(heads, val=99) == {"len": (0, 98, False)}


def test_no_values_at_all(tmp_path: Path) -> None:
    scop = made(tmp_path, "const int at[20], const float x[10], float y[20]", "y[i] = x[at[i] + i];")
    with pytest.raises(InputError, match="no values keep them inside") as caught:
        held(scop, x=10)
    assert caught.value.hint


def test_values_are_in_range_in_order_and_reproducible() -> None:
    rng = np.random.default_rng(1)
    some = filled(Values(3, 9, ordered=False), rng, 1000)
    assert set(some.tolist()) == set(range(3, 10))
    rows = filled(Values(0, 500, ordered=True), rng, 101)
    assert rows[0] == 0
    assert rows[-1] == 500
    lengths = np.diff(rows)
    assert lengths.min() >= 0
    assert len({*lengths.tolist()} - {5}) > 0, "rows of different lengths"
    assert filled(Values(4, 4, ordered=True), rng, 1).tolist() == [4]


def test_inputs_hold_them_whatever_the_data(tmp_path: Path) -> None:
    head = "const int ptr[21], const short col[99], const float val[99], const float x[7], float y[20]"
    scop = made(tmp_path, head, "for (int k = ptr[i]; k < ptr[i + 1]; k++) y[i] += val[k] * x[col[k]];")
    buffers = describe_buffers(scop, [(a.element.bytes, 0, 0) for a in passed_arrays(scop)])
    for inputs in (integer_inputs(buffers, 7, 4), real_inputs(buffers, 7, -1.0, 1.0)):
        by_name = {b.array.name: values for b, values in zip(buffers, inputs, strict=True)}
        ptr, col = by_name["ptr"].astype("i8"), by_name["col"]
        assert (ptr.min(), ptr.max(), (np.diff(ptr) >= 0).all()) == (0, 99, True)
        assert col.dtype == np.int16
        assert 0 <= int(col.min()) < int(col.max()) <= 6


def test_places_that_a_region_moves_are_reset_before_each_timed_run() -> None:
    """Else `k` runs out of `a` in the second one."""
    source = """
void f(const float a[restrict 100], int k[restrict 1], float b[restrict 50])
{
    for (int i = 0; i < 50; i++) {
        b[i] = a[k[0]];
        k[0] = k[0] + 1;
    }
}
"""
    found = polydl.optimize(source, threads=1, top_k=1, budget=1.0, oracle=False)
    (scop,) = found.scops
    assert scop.report is not None and scop.report.original.samples
    assert not [one for one in scop.report.warnings if "failed" in one]
