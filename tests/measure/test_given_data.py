"""Data of the user's in place of invented ones: which arrays take them, what they have to be, what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError
from polydl.measure.given_data import given_data
from polydl.measure.index_data import Values, neighbours
from polydl.measure.input_data import Buffer, describe_buffers, integer_inputs, real_inputs, rests_on
from polydl.measure.unit import passed_arrays
from polydl.model.scop import Scop
from tests.frontend.reading import region

HEAD = "const int *start, const int *list, const int corner[20][2], const float *x, float y[20]"
LOOP = "for (int k = start[i]; k < start[i + 1]; k++) y[i] += x[list[k]] + x[corner[i][0]] + x[corner[i][1]];"


def made(folder: Path) -> Scop:
    return region(folder, f"for (int i = 0; i < 20; i++) {LOOP}", f"void f({HEAD})")


def buffers(scop: Scop, data: dict[str, Any]) -> dict[str, Buffer]:
    rows = [(a.element.bytes, 0, 0) for a in passed_arrays(scop)]
    return {b.array.name: b for b in describe_buffers(scop, rows, given_data(scop, data))}


START, LIST = np.arange(0, 63, 3, dtype=np.int32), np.arange(60, dtype=np.int32) % 77
CORNER = np.arange(40, dtype=np.int32).reshape(20, 2)


def test_data_are_in_their_places_and_say_how_long_arrays_are(tmp_path: Path) -> None:
    scop = made(tmp_path)
    np.save(tmp_path / "list.npy", LIST)
    found = buffers(scop, {"start": START, "list": tmp_path / "list.npy", "corner": CORNER.reshape(-1)})
    assert {name: b.shape for name, b in found.items()} == {
        "start": (21,), "list": (60,), "corner": (20, 2), "x": (60,), "y": (20,),
    }  # fmt: skip
    for inputs in (integer_inputs([*found.values()], 7, 4), real_inputs([*found.values()], 7, -1.0, 1.0)):
        by_name = dict(zip(found, inputs, strict=True))
        for name, values in (("start", START), ("list", LIST), ("corner", CORNER)):
            np.testing.assert_array_equal(by_name[name], values)
            assert by_name[name].flags.writeable
    assert rests_on([*found.values()]).startswith(
        "given subscripts in 'start' (data for 'start'), 'list' (--data list="
    )


def test_what_is_invented_is_said(tmp_path: Path) -> None:
    found = buffers(made(tmp_path), {"corner": CORNER})
    said = rests_on([*found.values()])
    assert said.startswith(
        "given subscripts in 'corner' (data for 'corner'); invented subscripts in 'start', 'list', of"
    )
    assert said.endswith("--data start=FILE.npy takes real ones")
    plain = region(tmp_path, "for (int i = 0; i < 20; i++) y[i] = 2;", "void f(float y[20])")
    assert rests_on([*buffers(plain, {}).values()]) == ""


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("corner", CORNER.astype(np.int64), r"the elements are int64, and 'corner' has int \(int32\)"),
        ("corner", CORNER[:10], r"holds an array of shape \(10, 2\), and 'corner' has \(20, 2\) at these sizes"),
        ("corner", CORNER.T.copy(), r"shape \(2, 20\), and 'corner' has \(20, 2\)"),
        ("start", START[:9], r"shape \(9,\), and 'start' has \(21,\)"),
        ("list", LIST - 1, "holds -1: as a subscript of 'x' the values have to be in 0"),
        ("start", START[::-1].copy(), "data for 'start' decreases"),
        ("y", np.zeros(20), r"the elements are float64, and 'y' has float \(float32\)"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_data_that_do_not_fit(tmp_path: Path, name: str, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        buffers(made(tmp_path), {"list": LIST, name: values})
    assert caught.value.hint and caught.value.span is not None


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no such file"), (b"corner", "this is no .npy file")], ids=["none", "text"]
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "corner.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"--data corner=.*corner.npy: {message}"):
        given_data(made(tmp_path), {"corner": path})


MESH = """
void gather(int n, const int at[restrict n][8], const double px[restrict n], double y[restrict n])
{
    for (int e = 0; e < n; e++) {
        double s = 0;
        for (int c = 0; c < 8; c++)
            s += px[at[e][c]];
        y[e] = s;
    }
}
"""


def test_optimize_says_on_what_its_times_rest(tmp_path: Path) -> None:
    path = tmp_path / "mesh.c"
    path.write_text(MESH)
    np.save(tmp_path / "at.npy", np.arange(8 * 512, dtype=np.int32).reshape(512, 8) % 512)
    how: dict[str, Any] = {"sizes": {"n": 512}, "space": "small", "top_k": 1}
    (done,) = polydl.optimize(path, data={"at": tmp_path / "at.npy"}, **how).scops
    assert done.verdict.endswith(f", on given subscripts in 'at' (--data at={tmp_path / 'at.npy'})")
    (done,) = polydl.optimize(path, **how).scops
    assert "on invented subscripts in 'at', of neighbours as in a mesh numbered well" in done.verdict
    with pytest.raises(InputError, match="no scop has an array 'to'"):
        polydl.optimize(path, data={"to": tmp_path / "at.npy"}, **how)


def test_neighbours_are_near_and_everywhere() -> None:
    rng = np.random.default_rng(1)
    found = neighbours(Values(-5, 994, ordered=False), rng, 8000)
    assert found.min() >= -5 and found.max() == 994
    assert np.all(np.abs(found + 5 - np.arange(8000) // 8) <= 111), "a cube of 10 x 10 x 10"
    assert len(np.unique(found)) > 900
    rows = neighbours(Values(0, 500, ordered=True), rng, 101)
    assert np.all(np.diff(rows) >= 0) and (rows[0], rows[-1]) == (0, 500)
    assert neighbours(Values(3, 3, ordered=False), rng, 4).tolist() == [3] * 4
