"""Calls of functions with loops, one after the other: the layers of a network as one region."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.frontend import Program, load
from polydl.model.scop import Scop

LINEAR = """static void linear{0}(const float x[{1}][{2}], const float w[{2}][{3}], const float b[{3}],
                     float y[{1}][{3}])
{{
    for (int i = 0; i < {1}; i++)
        for (int j = 0; j < {3}; j++) {{
            y[i][j] = b[j];
            for (int k = 0; k < {2}; k++)
                y[i][j] += x[i][k] * w[k][j];
        }}
}}
"""
RELU = """static void relu(float y[24][40])
{
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < 40; j++)
            y[i][j] = y[i][j] > 0.0f ? y[i][j] : 0.0f;
}
"""
FUNCTIONS = f"{LINEAR.format(1, 24, 56, 40)}{RELU}{LINEAR.format(2, 24, 40, 8)}"
HEAD = (
    "void mlp(const float x[restrict 24][56], const float w1[restrict 56][40], const float b1[restrict 40],\n"
    "         const float w2[restrict 40][8], const float b2[restrict 8], float y[restrict 24][8])\n{\n"
    "    static float h[24][40];\n"
)
CALLS = f"{FUNCTIONS}{HEAD}    linear1(x, w1, b1, h);\n    relu(h);\n    linear2(h, w2, b2, y);\n}}\n"


def body(text: str, **names: str) -> str:
    """The loops of a function, with other names."""
    inner = text.partition("{\n")[2].rpartition("}")[0]
    for old, new in names.items():
        inner = inner.replace(f"{old}[", f"{new}[")
    return inner


ONE = (
    HEAD
    + body(LINEAR.format(1, 24, 56, 40), y="h", w="w1", b="b1")
    + body(RELU, y="h")
    + body(LINEAR.format(2, 24, 40, 8), x="h", w="w2", b="b2")
    + "}\n"
)
ANY_SIZE = """void linear(int m, int n, int k, const float x[m][k], const float w[k][n], const float b[n],
            float y[m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            y[i][j] = b[j];
            for (int l = 0; l < k; l++)
                y[i][j] += x[i][l] * w[l][j];
        }
}
"""


def read(folder: Path, text: str) -> Program:
    path = folder / "mlp.c"
    path.write_text(text)
    return load(path, require_sizes=False)


def mlp(folder: Path, text: str) -> Scop:
    (found,) = (one for one in read(folder, text).scops if one.function == "mlp")
    return found


def built() -> Scop:
    """The same in Python."""
    b = polydl.build("mlp")
    x, w1, b1, w2, b2, y = b.arrays(
        "float", x=(24, 56), w1=(56, 40), b1=(40,), w2=(40, 8), b2=(8,), y=(24, 8)
    )  # fmt: skip
    h = b.temporary("h", "float", 24, 40)
    for given, weights, bias, out, width, depth in ((x, w1, b1, h, 40, 56), (h, w2, b2, y, 8, 40)):
        with b.loops(i=24, j=width) as (i, j):
            out[i, j] = bias[j]
            with b.loop("k", depth) as k:
                out[i, j] += given[i, k] * weights[k, j]
        if out is h:
            with b.loops(i=24, j=40) as (i, j):
                h[i, j] = b.select(h[i, j] > 0.0, h[i, j], 0.0)
    return b.scop()


def test_three_functions_are_one_function_and_what_is_built(tmp_path: Path) -> None:
    """The same variants, in the same order."""
    found = [
        [variant.id for variant in polydl.rank(scop, "small", "epyc-zen5", threads=2).variants]
        for scop in (mlp(tmp_path, CALLS), mlp(tmp_path, ONE), built())
    ]
    assert len(found[0]) > 5
    assert found[0] == found[1]
    assert found[0] == found[2]


def test_static_functions_that_are_part_of_a_region_are_none(tmp_path: Path) -> None:
    assert [one.function for one in read(tmp_path, CALLS).scops] == ["mlp"]
    functions = [one.function for one in read(tmp_path, CALLS.replace("static void", "void")).scops]
    assert functions == ["linear1", "relu", "linear2", "mlp"]


def test_the_region_is_from_the_first_call_to_the_last(tmp_path: Path) -> None:
    scop = mlp(tmp_path, CALLS)
    text = scop.source.text[scop.region.start : scop.region.end]
    assert text == "linear1(x, w1, b1, h);\n    relu(h);\n    linear2(h, w2, b2, y);"
    assert "h" not in scop.live_out


def test_one_function_with_sizes_called_twice_beside_loops(tmp_path: Path) -> None:
    """Loop variables keep their names; numbers that the function is given have others of their own."""
    text = f"""{ANY_SIZE}void mlp(int m, int n, int k, const float x[restrict m][k], const float w[restrict k][k],
         const float v[restrict k][n], const float b[restrict k], float h[restrict m][k], float y[restrict m][n])
{{
    linear(m, k, k, x, w, b, h);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < k; j++)
            h[i][j] = h[i][j] > 0.0f ? h[i][j] : 0.0f;
    linear(m, n, k, h, v, b, y);
}}
"""
    scop = mlp(tmp_path, text)
    assert set(scop.parameters) == {"m", "n", "k"}
    assert [s.iterators for s in scop.statements] == [
        ("i", "j"), ("i", "j", "l"), ("i", "j"), ("i", "j"), ("i", "j", "l")
    ]  # fmt: skip


def test_calls_in_functions_that_are_called(tmp_path: Path) -> None:
    layer = "static void layer(const float x[24][56], const float w[56][40], const float b[40], float h[24][40])\n{\n"
    text = CALLS.replace("void mlp", f"{layer}    linear1(x, w, b, h);\n    relu(h);\n}}\nvoid mlp")
    text = text.replace("linear1(x, w1, b1, h);\n    relu(h);", "layer(x, w1, b1, h);")
    assert len(mlp(tmp_path, text).statements) == 5
    assert [one.function for one in read(tmp_path, text).scops] == ["mlp"]


@pytest.mark.parametrize(
    ("function", "call", "why"),
    [
        ("static void g(float y[24][40])\n{{\n    relu(y);\n    g(y);\n}}", "g(h);", "its call of 'g' are unknown"),
        ("static void g(float y[24][40])\n{{\n    if (y[0][0] > 1) return;\n    {0}\n}}", "g(h);", "returns before"),
        ("static void g(float y[24][40])\n{{\n    static int n;\n    {0}\n}}", "g(h);", "variable 'n' is static"),
        ("static void g(float y[24][40])\n{{\n    puts(\"\");\n    {0}\n}}", "g(h);", "its call of 'puts' are unknown"),
        ("static void g(float *y)\n{{\n    for (int i = 0; i < 9; i++) y[i] = 0;\n}}", "g(h);", "'y' has other"),
        ("static void g(double y[24][40])\n{{\n    {0}\n}}", "g(h);", "for 'y' has other dimensions, or another type"),
        ("float x;\nstatic void g(float y[24][40])\n{{\n    x = 1;\n    {0}\n}}", "g(h);", "'x' means something else"),
    ],
)  # fmt: skip
def test_what_is_not_expanded_is_said(tmp_path: Path, function: str, call: str, why: str) -> None:
    """With its place, and the loops beside it are a region without it."""
    loops = body(RELU).strip()
    text = CALLS.replace("void mlp", f"{function.format(loops)}\nvoid mlp").replace("linear2(h, w2, b2, y);", call)
    program = read(tmp_path, f"int puts(const char *);\n{text}")
    (said,) = (one for one in program.unread if why in one.reason)
    assert said.reason.startswith("the call of 'g' is not expanded: ")
    assert said.span is not None
    assert text.splitlines()[said.span.line - 2].strip() == call
    (scop,) = (one for one in program.scops if one.function == "mlp")
    assert len(scop.statements) == 3


def test_a_call_whose_loops_are_no_region_is_said(tmp_path: Path) -> None:
    """Expanded, the accesses leave the array that the function is given."""
    text = CALLS.replace("static float h[24][40]", "static float h[24][40], g[20][40]").replace("relu(h)", "relu(g)")
    program = read(tmp_path, text)
    assert [one.function for one in program.scops] == ["linear1", "relu", "linear2"]
    assert any("leaves its bounds" in one.reason for one in program.unread)


def test_a_call_alone_stays_a_call(tmp_path: Path) -> None:
    text = f"{FUNCTIONS}void mlp(float h[restrict 24][40])\n{{\n    relu(h);\n}}\n"
    assert "mlp" not in [one.function for one in read(tmp_path, text).scops]
