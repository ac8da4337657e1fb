"""The interpreter of Scops, held against values computed by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.oracle.scop_numbers import Undefined, Unsupported
from polydl.oracle.scop_run import Place, Run, Where, row_major, sized


class Bytes:
    """One object for each array."""

    def __init__(self, objects: Sequence[bytes]) -> None:
        self.objects = [bytearray(one) for one in objects]

    def load(self, place: Place, size: int) -> bytes:
        self._inside(place, size)
        return bytes(self.objects[place.object][place.offset : place.offset + size])

    def store(self, place: Place, data: bytes) -> None:
        self._inside(place, len(data))
        self.objects[place.object][place.offset : place.offset + len(data)] = data

    def _inside(self, place: Place, size: int) -> None:
        if not 0 <= place.offset <= len(self.objects[place.object]) - size:
            raise Undefined("outside")


def run(tmp_path: Path, text: str, sizes: Mapping[str, int], data: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a program leaves in memory: by name of an array, or of the array that it is a view of."""
    path = tmp_path / "k.c"
    path.write_text(text)
    (scop,) = load(path, require_sizes=False).scops
    return left(scop, sizes, data)


def left(scop: Scop, sizes: Mapping[str, int], data: Mapping[str, bytes]) -> dict[str, bytes]:
    there = sized(scop, sizes)
    assert there is not None
    names = [*data, *sorted({a.spelled for a in there.arrays.values()} - data.keys())]
    memory = Bytes([data.get(name, bytes(64)) for name in names])
    where: dict[str, Where] = {
        name: row_major(array, Place(names.index(array.spelled), 0)) for name, array in there.arrays.items()
    }
    Run(there, memory, where).run()
    return {name: bytes(one) for name, one in zip(names, memory.objects, strict=True)}


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def test_loops_run_in_their_order(tmp_path: Path) -> None:
    text = "void f(int n, int x[restrict n]) { for (int i = n - 2; i >= 0; i--) { x[i] = x[i] + 10 * x[i + 1]; } }"
    assert run(tmp_path, text, {"n": 4}, {"x": ints(1, 2, 3, 4)})["x"] == ints(4321, 432, 43, 4)


def test_statements_of_one_loop_take_turns(tmp_path: Path) -> None:
    text = """void f(int n, int x[restrict n], int y[restrict n]) {
      for (int i = 1; i < n; i++) { x[i] = y[i - 1] + 1; y[i] = 2 * x[i]; } }"""
    found = run(tmp_path, text, {"n": 4}, {"x": bytes(16), "y": ints(1, 0, 0, 0)})
    assert (found["x"], found["y"]) == (ints(0, 2, 5, 11), ints(1, 4, 10, 22))


def test_arithmetic_is_that_of_c(tmp_path: Path) -> None:
    text = """void f(int n, unsigned char a[restrict n], int b[restrict n], float x[restrict n]) {
      for (int i = 0; i < n; i++) { a[i] = a[i] + 250; b[i] /= -2; x[i] = x[i] * 3.0f > 1 ? x[i] + 0.1 : -x[i]; } }"""
    data = {"a": bytes((1, 5, 6)), "b": ints(7, -7, 1), "x": floats(1.0, 0.25, 0.0)}
    found = run(tmp_path, text, {"n": 3}, data)
    assert list(found["a"]) == [251, 255, 0]
    assert found["b"] == ints(-3, 3, 0)
    assert found["x"] == floats(1.1, -0.25, -0.0)


def test_linear_arrays_lie_as_their_address_says(tmp_path: Path) -> None:
    text = """void f(int n, int m, int *restrict p) {
      for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) p[i * m + j] = 10 * i + j; }"""
    assert run(tmp_path, text, {"n": 2, "m": 3}, {"p": bytes(24)})["p"] == ints(0, 1, 2, 10, 11, 12)


def test_members_share_the_bytes_of_their_structure(tmp_path: Path) -> None:
    text = """struct p { float x; int n; float y; };
      void f(int n, struct p p[restrict n]) { for (int i = 0; i < n; i++) { p[i].y = p[i].x + p[i].n; p[i].n = i; } }"""
    before = struct.pack("<fiffif", 1.5, 2, 0, 3.5, 4, 0)
    assert run(tmp_path, text, {"n": 2}, {"p": before})["p"] == struct.pack("<fiffif", 1.5, 0, 3.5, 3.5, 1, 7.5)


def test_data_choose_what_is_read(tmp_path: Path) -> None:
    text = """void f(int n, const int at[restrict n], const float t[restrict 4][2], float y[restrict n]) {
      for (int i = 0; i < n; i++) y[i] = t[at[i]][1]; }"""
    data = {"at": ints(3, 0, 3), "t": floats(0, 1, 2, 3, 4, 5, 6, 7), "y": bytes(12)}
    assert run(tmp_path, text, {"n": 3}, data)["y"] == floats(7, 1, 7)


def test_a_microkernel_is_what_its_loops_compute(tmp_path: Path) -> None:
    text = """void scale(int n, const float *x, float *y);
      void f(float x[restrict 2][3], float y[restrict 2][3]) {
      #pragma scop
        for (int i = 0; i < 2; i++)
      #pragma polydl microkernel loops(for (int k = 0; k < 3; k++) y[i][k] += 2 * x[i][k];)
          scale(3, &x[i][0], &y[i][0]);
      #pragma endscop
      }""".replace("\n      #", "\n#")
    found = run(tmp_path, text, {}, {"x": floats(1, 2, 3, 4, 5, 6), "y": floats(*[1] * 6)})
    assert found["y"] == floats(3, 5, 7, 9, 11, 13)


def test_what_the_context_excludes_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text("""void f(int n, float x[restrict n]) {
#pragma scop
#pragma polydl assume(n >= 4)
  for (int i = 0; i < n; i++) x[i] = 0;
#pragma endscop
}""")
    (scop,) = load(path, require_sizes=False).scops
    assert sized(scop, {"n": 3}) is None
    with pytest.raises(Unsupported, match="'n' has no value"):
        sized(scop, {})


def test_kept_text_and_overflow_say_so(tmp_path: Path) -> None:
    text = "void f(int n, int x[restrict n]) { for (int i = 0; i < n; i++) x[i] = x[i] + 1; }"
    with pytest.raises(Undefined, match=r"S0\[1\]: 2147483647 \+ 1 overflows 'int'"):
        run(tmp_path, text, {"n": 2}, {"x": ints(0, 2**31 - 1)})
    kept = "void f(int n, int x[restrict n]) { for (int i = 0; i < n; i++) { if (x[i] > 3) break; x[i] = 2; } }"
    with pytest.raises(Unsupported, match="kept"):
        run(tmp_path, kept, {"n": 2}, {"x": ints(0, 9)})
