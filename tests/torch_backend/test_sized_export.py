"""Models as C whose sizes a call says: equal to eager PyTorch at each, refused where loops are not those of all."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from polydl.base.errors import InputError, PolyDLError
from polydl.model.types import F32
from polydl.torch_backend import export
from polydl.torch_backend.loop_index import Index, Var, number, of_var
from polydl.torch_backend.loop_program import Array, Const, Load, Loop, Op, Program, SizeName, Store
from polydl.torch_backend.loop_text import c_text
from polydl.torch_backend.sized_programs import DiffersError, Size, fit_of, united
from tests.torch_backend.test_export import Network, Tokens, aligned, library, pointers, run, told

QUICK: dict[str, object] = {"groups": 0}


class Pooled(nn.Module):
    """Two sizes: of images, and of rows of each."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        padded = nn.functional.pad(x, (0, 0, 1, 2), value=0.5)
        return torch.cat((padded, y), 1).softmax(1), (x.mean(1) + x.shape[0]).exp()


def check(folder: Path, model: nn.Module, name: str, exported: Any, sizes: list[int], inputs: list[Tensor]) -> None:
    """Raises AssertionError where C and eager PyTorch differ at these sizes."""
    found = ctypes.CDLL(str(folder / "x.so")) if (folder / "x.so").exists() else library(folder, name)
    getattr(found, f"{name}_error").restype = ctypes.c_char_p
    weights, arena = aligned(exported.weights_bytes), aligned(exported.arena_bytes)
    at = ctypes.c_void_p(weights.data_ptr())
    assert getattr(found, f"{name}_load")(str(folder / f"{name}_weights.bin").encode(), at) == 0
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(model(*inputs))
    outputs = [torch.full(one.shape, 77, dtype=one.dtype) for one in expected]
    given = (ctypes.c_int64 * len(sizes))(*sizes)
    code = getattr(found, f"{name}_run")(
        at, given, pointers(*inputs), pointers(*outputs), ctypes.c_void_p(arena.data_ptr()), 2
    )
    assert told(found, name, code) == "no error"
    for one, wanted in zip(outputs, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("least", [1, 2])
def test_images(least: int, tmp_path: Path) -> None:
    model = Network().eval()
    shapes = {"x": {0: Dim("batch", min=least, max=9)}}
    exported = export(model, torch.randn(3, 3, 10, 10), tmp_path, name="net", options=QUICK, dynamic_shapes=shapes)
    assert "passed" in run("make", "-C", tmp_path, "test", "CFLAGS=-O1 -fopenmp -Wall")
    assert f"/* size n0: dimension 0 of x, {least} to 9 */" in (tmp_path / "net.h").read_text()
    assert "float32[n0][3][10][10]" in (tmp_path / "net.h").read_text()
    for batch in (least, 4, 9):
        check(tmp_path, model, "net", exported, [batch], [torch.randn(batch, 3, 10, 10)])


def test_two_sizes(tmp_path: Path) -> None:
    model = Pooled()
    rows, images = Dim("rows", min=2, max=12), Dim("images", min=2, max=7)
    args = (torch.randn(3, 4, 5), torch.randn(3, 6, 5))
    shapes = ({0: images, 1: rows}, {0: images})
    exported = export(model, args, tmp_path, name="pooled", options=QUICK, dynamic_shapes=shapes)
    for n, m in ((2, 2), (7, 12), (5, 9), (2, 12)):
        check(tmp_path, model, "pooled", exported, [n, m], [torch.randn(n, m, 5), torch.randn(n, 6, 5)])


def test_tokens(tmp_path: Path) -> None:
    """Of any batch, with indices that are checked."""
    model = Tokens().eval()
    args = (torch.randint(0, 11, (2, 7)), torch.tensor(0.5))
    shapes = {"tokens": {0: Dim("batch", min=2, max=6)}, "scale": None, "times": None}
    exported = export(model, args, tmp_path, kwargs={"times": 2}, name="tokens", options=QUICK, dynamic_shapes=shapes)
    for batch in (2, 5, 6):
        check(tmp_path, model, "tokens", exported, [batch], [torch.randint(0, 11, (batch, 7)), torch.tensor(0.3)])
    found = library(tmp_path, "tokens")
    weights, arena, out = aligned(exported.weights_bytes), aligned(exported.arena_bytes), torch.empty(6, 7, 16)
    at, memory = (ctypes.c_void_p(one.data_ptr()) for one in (weights, arena))
    for size, why in ((1, "not among"), (7, "not among"), (3, "outside of its tensor")):
        wrong = torch.full((3, 7), 11)
        code = found.tokens_run(at, (ctypes.c_int64 * 1)(size), pointers(wrong, args[1]), pointers(out), memory, 1)
        assert why in told(found, "tokens", code)


def test_searched(tmp_path: Path) -> None:
    """polydl's code for any size."""
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32), nn.Softmax(-1)).eval()
    shapes = ({0: Dim("batch", min=1, max=64)},)
    exported = export(
        model, torch.randn(16, 64), tmp_path, name="mlp", options={"least_work": 0.0}, dynamic_shapes=shapes
    )
    assert any("polydl_" in (tmp_path / f"{one}.c").read_text().partition("{")[2] for one in exported.groups)
    for batch in (1, 7, 64):
        check(tmp_path, model, "mlp", exported, [batch], [torch.randn(batch, 64)])


class Squares(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.t()).reshape(-1) + 1


class Rows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((0, 1))


@pytest.mark.parametrize(
    ("model", "x", "dim", "words"),
    [
        (nn.ReLU(), torch.randn(3, 4), Dim("n", min=2), "no upper bound"),
        (nn.Linear(4, 3), torch.randn(3, 4), {1: Dim("n", min=2, max=9)}, "torch.export cannot take"),
        (Squares(), torch.randn(3, 4), Dim("n", min=2, max=9), "not affine"),
        (Rows(), torch.randn(3, 4, 5), {0: Dim("n", min=2, max=9), 1: Dim("m", min=2, max=9)}, "not affine"),
        (nn.ReLU(), torch.randn(3, 4), {}, "names no size"),
    ],
)
def test_what_has_no_code_for_all_sizes(model: nn.Module, x: Tensor, dim: Any, words: str, tmp_path: Path) -> None:
    shapes = (dim if isinstance(dim, dict) else {0: dim},)
    with pytest.raises((InputError, PolyDLError), match=words):
        export(model, x, tmp_path / "out", options=QUICK, dynamic_shapes=shapes)
    assert not (tmp_path / "out").exists()


def program(n: int) -> Program:
    """x[i + 1] / n + (n - 9) for i < 2 n - 1."""
    x, y, i = Array("x", F32, (2 * n,)), Array("y", F32, (2 * n,)), Var(0, 2 * n - 1)
    value = Op("/", (Load(x, (of_var(i) + 1,)), Const(float(n), F32)), F32)
    body = Loop(i, number(0), number(2 * n - 1), [Store(y, (of_var(i) + (n - 9),), value)])
    return Program((x,), (y,), (body,))


def test_programs_of_several_sizes_are_one() -> None:
    points = [(9,), (2,), (5,), (8,)]
    made = united([program(n) for (n,) in points], fit_of(("n0",), points))
    text = c_text(Program(made.inputs, made.outputs, made.body, (), (SizeName(0, 2, 9),)), "f")
    for line in (
        "void f(int n0, const float x[(2 * n0)], float y[restrict (2 * n0)])",
        "#pragma polydl assume(n0 >= 2 && n0 <= 9)",
        "for (int i = 0; i < (2 * n0 - 1); i++) {",
        "y[i + (n0 - 9)] = x[i + 1] / (float)n0;",
    ):
        assert line in text, text


@pytest.mark.parametrize("values", [(81, 4, 25, 64), (4, 1, 2, 4)])
def test_numbers_that_are_not_affine(values: tuple[int, ...]) -> None:
    fit = fit_of(("n0",), [(9,), (2,), (5,), (8,)])
    with pytest.raises(DiffersError, match="not affine"):
        united(list(values), fit)
    with pytest.raises(DiffersError, match="other loops"):
        united([Index(()), *[of_var(Var(0, 2))] * 3], fit)


def test_sizes_are_written_as_c() -> None:
    size = Size.of(3, ("a", "b"), (1, -2, 0))
    assert [str(one) for one in (size, -size, size + 1, Size.of(0, ("a", "b"), (0, 1, 0)))] == [
        "(a - 2 * b)", "(-a + 2 * b)", "(a - 2 * b + 1)", "b",
    ]  # fmt: skip
