"""Transposes and relayouts in squares of vectors: what the loops do, to the bit, in every instruction set; proven."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.kernels.transposes import STRIP_BYTES
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.prove import prove
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from tests.oracle.native import compile_c
from tests.together import asked

FLAGS = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "portable": ("-msse2",),
}
CPU = set(Path("/proc/cpuinfo").read_text().split())


class Relayout(NamedTuple):
    """A program: arrays `to` and `from` with their C types and extents, other parameters, and the loops."""

    to: str
    source: str
    loops: str
    more: str = ""


def plain(kind: str, n: int, m: int, value: str = "from[i][j]", to: str = "", op: str = "=", at: str = "i") -> Relayout:
    """to[j][i] = from[i][j]"""
    loops = f"for (int i = 0; i < {n}; i++) for (int j = 0; j < {m}; j++) to[j][{at}] {op} {value};"
    return Relayout(f"{to or kind} {m} {n}", f"{kind} {n} {m}", loops, "float scale" if "scale" in value else "")


PROGRAMS = {
    "float": plain("float", 83, 71),
    "float in whole squares": plain("float", 64, 32),
    "float in several strips": plain("float", 19, 2 * STRIP_BYTES // 4 + 21),
    "float in several blocks": plain("float", 277, 40),
    "float in whole blocks": plain("float", 128, 32),
    "double": plain("double", 45, 53),
    "double in several blocks": plain("double", 160, 21),
    "int": plain("int", 40, 67),
    "long": plain("long", 21, 30),
    "unsigned short": plain("unsigned short", 70, 99),
    "signed char": plain("signed char", 130, 197),
    "bytes in several blocks": plain("unsigned char", 600, 35),
    "few floats": plain("float", 7, 90),
    "unsigned char of few": plain("unsigned char", 17, 5),
    "bytes in several strips": plain("unsigned char", 65, STRIP_BYTES + 37),
    "bytes rotated": plain("unsigned char", 77, 37, at="77 - 1 - i"),
    "bytes rotated the other way": plain("unsigned char", 50, 37, "from[i][36 - j]"),
    "shorts added": plain("unsigned short", 50, 37, "from[i][j]", op="+="),
    "in blocks of 32 bytes": Relayout(
        "unsigned char 3 7 9 32",
        "unsigned char 3 32 7 9",
        "for (int c = 0; c < 3; c++) for (int h = 0; h < 7; h++) for (int w = 0; w < 9; w++)"
        " for (int k = 0; k < 32; k++) to[c][h][w][k] = from[c][k][h][w];",
    ),
    "scaled": plain("float", 50, 37, "from[i][j] * scale"),
    "rectified": plain("float", 50, 37, "from[i][j] > 0 ? from[i][j] : 0"),
    "added": plain("float", 50, 37, "from[i][j]", op="+="),
    "bytes to float": plain("unsigned char", 50, 37, "from[i][j] * (1.0f / 255)", "float"),
    "float to half in several blocks": plain("float", 350, 37, to="_Float16"),
    "float to bytes in several blocks": plain("float", 600, 21, "fmaxf(from[i][j], 0)", "unsigned char"),
    "float to short": plain("float", 50, 37, "lrintf(fminf(fmaxf(from[i][j], -9.0f), 9.0f))", "short"),
    "rotated": plain("float", 50, 37, at="50 - 1 - i"),
    "rotated the other way": plain("float", 50, 37, "from[i][36 - j]"),
    "channels last": Relayout(
        "float 2 7 9 35",
        "float 2 35 7 9",
        "for (int n = 0; n < 2; n++) for (int c = 0; c < 35; c++) for (int h = 0; h < 7; h++)"
        " for (int w = 0; w < 9; w++) to[n][h][w][c] = from[n][c][h][w];",
    ),
    "channels first": Relayout(
        "float 2 35 7 9",
        "float 2 7 9 35",
        "for (int n = 0; n < 2; n++) for (int h = 0; h < 7; h++) for (int w = 0; w < 9; w++)"
        " for (int c = 0; c < 35; c++) to[n][c][h][w] = from[n][h][w][c];",
    ),
    "in blocks of 16": Relayout(
        "float 3 7 9 16",
        "float 3 16 7 9",
        "for (int c = 0; c < 3; c++) for (int h = 0; h < 7; h++) for (int w = 0; w < 9; w++)"
        " for (int k = 0; k < 16; k++) to[c][h][w][k] = from[c][k][h][w];",
    ),
    "flat": Relayout(
        "float 2000",
        "float 2000",
        "for (int b = 0; b < 2; b++) for (int i = 0; i < 40; i++) for (int j = 0; j < 25; j++)"
        " to[b * 1000 + j * 40 + i] = from[b * 1000 + i * 25 + j];",
    ),
    "with a row and a column of numbers": Relayout(
        "float 37 50",
        "float 50 37",
        "for (int i = 0; i < 50; i++) for (int j = 0; j < 37; j++) to[j][i] = from[i][j] * by[i] + by[j];",
        "float by[60]",
    ),
}
TYPES = {"float": "f4", "double": "f8", "int": "i4", "long": "i8", "short": "i2", "unsigned short": "u2"}
TYPES |= {"_Float16": "f2", "signed char": "i1", "unsigned char": "u1"}


def declared(array: str, name: str) -> tuple[str, str, tuple[int, ...]]:
    kind, *sizes = array.rsplit(maxsplit=sum(word.isdigit() for word in array.split()))
    extents = tuple(map(int, sizes))
    return kind, f"{name}[restrict {extents[0]}]{''.join(f'[{e}]' for e in extents[1:])}", extents


def text(name: str, function: str = "f") -> str:
    one = PROGRAMS[name]
    kind, to, _ = declared(one.to, "to")
    source, where, _ = declared(one.source, "from")
    more = f", {'const ' if '[' in one.more else ''}{one.more}" if one.more else ""
    return (
        "#include <math.h>\n"
        f"void {function}({kind} {to}, const {source} {where}{more})\n"
        f"{{\n#pragma scop\n{one.loops}\n#pragma endscop\n}}\n"
    )


def in_squares(scops: Sequence[Scop], *stream: str, marks: bool = False) -> str:
    """The file with functions in place of loops, plain or with the marks that the proof reads."""
    made = []
    for scop in scops:
        found = canonical(scop).scop
        parts = [ordered(nest, (Vectorize(stream),)) for nest in nests(found, dependences(found, reads=False))]
        made.append((scop, generate(found, program_tree(parts), instances=marks)))
        assert "polydl_transpose_" in made[-1][1].region
    return splice(scops[0].source, made, "")


def scop_of(name: str) -> Scop:
    (scop,) = polydl.load(text(name)).scops
    return scop


def inputs(name: str) -> list[npt.NDArray[np.generic]]:
    rng = np.random.default_rng(1)
    one = PROGRAMS[name]
    made = []
    for array in (one.to, one.source):
        kind, _, extents = declared(array, "")
        made.append(rng.integers(-60 if TYPES[kind][0] != "u" else 0, 100, extents).astype(TYPES[kind]))
    if "[" in one.more:
        made.append(rng.integers(-3, 9, 60).astype("f4"))
    return made


def result(function: Callable[..., object], name: str, behind: int) -> npt.NDArray[np.generic]:
    """`behind`: bytes from the begin of a cache line to the result."""
    arrays = inputs(name)
    room = np.empty(arrays[0].nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + behind
    to = room[first : first + arrays[0].nbytes].view(arrays[0].dtype).reshape(arrays[0].shape)
    to[...] = arrays[0]
    given = [one.ctypes.data_as(ctypes.c_void_p) for one in (to, *arrays[1:])]
    function(*given, *([ctypes.c_float(0.3)] if PROGRAMS[name].more == "float scale" else []))
    return to


@cache
def libraries(names: tuple[str, ...], isa: str, stream: bool) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The programs as they are, and in squares: functions f0, f1, … of one file each."""
    common: tuple[str, ...] = ("-Og", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
    if isa != "avx512":
        common += ("-mno-avx512f",)
    file, written = in_one_file(names, stream)
    return compile_c([file], common), compile_c([written], (*common, *FLAGS[isa]))


@cache
def in_one_file(names: tuple[str, ...], stream: bool) -> tuple[str, str]:
    file = "\n".join(text(name, f"f{number}") for number, name in enumerate(names))
    return file, in_squares(polydl.load(file).scops, *(["to"] if stream else []))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("isa", FLAGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_squares_do_what_the_loops_do(name: str, isa: str, stream: bool, request: pytest.FixtureRequest) -> None:
    if not {flag.removeprefix("-m") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    names = asked(request, "name", isa=isa, stream=stream)
    original, written = (getattr(one, f"f{names.index(name)}") for one in libraries(names, isa, stream))
    expected = result(original, name, 0)
    assert not np.array_equal(expected, inputs(name)[0])
    size = expected.itemsize
    for behind in (0, size, 24, 64 - size, 1):  # the last one is none that C allows for most of them
        np.testing.assert_array_equal(result(written, name, behind), expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_squares_are_proven(name: str) -> None:
    scop = scop_of(name)
    written, marked = (in_squares([scop], "to", marks=marks) for marks in (False, True))
    found = prove(canonical(scop), written, marked)
    assert found.holds, found


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("polydl_lines + 16, 64, width", "polydl_lines + 16, 64, width - 1"),
        ("polydl_lines + 16, 64, width", "polydl_lines + 16, 63, width"),
        ("polydl_lines + 16, 64, width", "polydl_lines + 17, 64, width"),
        ("polydl_e0_j, polydl_lines", "polydl_e0_j + 1, polydl_lines"),
        ("polydl_lines + 16, 80, ", "polydl_lines + 16, 81, "),
        ("squares(i, width", "squares(i - 1, width"),
    ],
)
def test_other_blocks_are_not_proven(right: str, wrong: str) -> None:
    scop = scop_of("float in several blocks")
    written, marked = (in_squares([scop], "to", marks=marks) for marks in (False, True))
    assert right in written and not prove(canonical(scop), written.replace(right, wrong), marked).holds


@pytest.mark.parametrize(
    ("right", "wrong"), [("rows - k, columns", "rows - k - 1, columns"), ("_i, rows", "_i + 1, rows")]
)
def test_pieces_of_other_rows_are_not_proven(right: str, wrong: str) -> None:
    scop = scop_of("signed char")
    written, marked = (in_squares([scop], "to", marks=marks) for marks in (False, True))
    assert right in written and not prove(canonical(scop), written.replace(right, wrong), marked).holds
