"""Static variables in the unit of a candidate: compilers know of them what they know in the user's file."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.measure import ORIGINAL
from polydl.measure.unit import original_code, passed_arrays, unit_text
from polydl.model.scop import Scop
from tests.compiling import run_compiler

PROGRAM = """
static float grid[{rows}][16], flat[{rows} * 16], scale;
static const float half = 0.5f;
static float *moved;
float visible[{rows}][16];

void f(float image[{rows}][16])
{{
    for (int i = 0; i < {rows}; i++)
        for (int j = 0; j < 16; j++)
            image[i][j] = scale * grid[i][j] + flat[i * 16 + j] + half * visible[i][j] + moved[i];
}}
"""


class Row(ctypes.Structure):
    """`struct polydl_array` of the unit."""

    _fields_ = (
        ("element", ctypes.c_long), ("bytes", ctypes.c_long), ("pointer", ctypes.c_long), ("address", ctypes.c_void_p)
    )  # fmt: skip


def loaded(folder: Path, text: str) -> Scop:
    path = folder / "program.c"
    path.write_text(text)
    return pipeline.only_scop(pipeline.load(path))


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",), ("-O2", "-flto", "-fno-lto")])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_is_written_to_their_places_is_seen(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """No function of the unit's text writes to them, so that a compiler might take them for zeros."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    scop = loaded(tmp_path, PROGRAM.format(rows=9))
    source, library = tmp_path / "unit.c", tmp_path / "unit.so"
    source.write_text(unit_text(scop, ORIGINAL, original_code(scop)))
    run_compiler([compiler, *flags, "-w", "-fPIC", "-shared", "-Xlinker", "-zdefs", source, "-o", library])
    unit, passed = ctypes.CDLL(str(library)), passed_arrays(scop)
    table = (Row * len(passed)).in_dll(unit, "polydl_arrays")
    rng, data = np.random.default_rng(0), {}
    pointers = (ctypes.c_void_p * len(passed))()
    for place, (array, row) in enumerate(zip(passed, table, strict=True)):
        shape = {"moved": (9,), "scale": (), "half": (), "flat": (144,)}.get(array.name, (9, 16))
        data[array.name] = rng.integers(1, 9, shape).astype(np.float32)
        if array.name == "half":
            data["half"][...] = 0.5
        elif row.address and not row.pointer:
            ctypes.memmove(row.address, data[array.name].ctypes.data, data[array.name].nbytes)
        pointers[place] = data[array.name].ctypes.data
    assert {a.name for a in passed if a.static} == {"grid", "flat", "scale", "half", "moved"}
    unit.polydl_entry(pointers, None)
    wanted = data["scale"] * data["grid"] + data["flat"].reshape(9, 16) + 0.5 * data["visible"]
    assert np.array_equal(data["image"], wanted + data["moved"][:, None])


def test_no_pointer_reaches_them(tmp_path: Path) -> None:
    """gcc runs vector code without asking whether the image lies in a static array, as in the user's file."""
    text = (
        "static float rows[512][512];\nvoid f(float image[512][512])\n{\n"
        "    for (int i = 0; i < 512; i++)\n        for (int j = 0; j < 511; j++)\n"
        "            rows[i][j] = image[i][j] + image[i][j + 1];\n}\n"
    )

    def said(static: str) -> str:
        scop = loaded(tmp_path, text.replace("static ", static))
        source = tmp_path / "unit.c"
        source.write_text(unit_text(scop, ORIGINAL, original_code(scop)))
        command = ["gcc", "-O3", "-w", "-fPIC", "-S", "-fopt-info-vec", source, "-o", tmp_path / "unit.s"]
        return run_compiler(command).stderr

    assert "loop vectorized" in said("static ")
    assert "versioned" not in said("static ")
    assert "versioned" in said(""), "others may have the address of a variable that is not static"
