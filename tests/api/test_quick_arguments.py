"""Usual arguments are passed without a look at each in words: the same calls, and the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError
from polydl.native.kernel import Kernel

SCALE = """
void scale(int n, float a, const float x[restrict 3][n], float y[restrict 3][n], double *sums)
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < n; j++) {
            y[i][j] = a * x[i][j];
            sums[i] += x[i][j];
        }
}
"""
torch: Any = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def scale(cache: object) -> Kernel:
    made = polydl.compile(SCALE, {"n": 4}, optimize=False)
    made(*numpy())  # the extents are known from here on
    return made


def numpy() -> list[Any]:
    return [2.0, np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32), np.zeros(3)]


def tensors() -> list[Any]:
    return [2.0, *(torch.from_numpy(a) for a in numpy()[1:])]


def put(at: int, value: Callable[[], Any], others: Callable[[], list[Any]] = tensors) -> list[Any]:
    return [value() if i == at else other for i, other in enumerate(others())]


def read_only() -> Any:
    array = np.zeros((3, 4), np.float32)
    array.flags.writeable = False
    return array


def overlapping() -> list[Any]:
    x = torch.zeros(5, 4)
    return [2.0, x[:3], x[2:], torch.zeros(3, dtype=torch.float64)]


def shifted() -> Any:
    return np.zeros(49, np.uint8)[1:].view(np.float32).reshape(3, 4)


USUAL: dict[str, Callable[[], list[Any]]] = {
    "arrays": numpy,
    "tensors": tensors,
    "mixed": lambda: put(1, lambda: np.ones((3, 4), np.float32)),
    "read only": lambda: put(1, read_only, numpy),
    "more elements than are reached": lambda: put(3, lambda: torch.zeros(9, dtype=torch.float64)),
    "a parameter of a module": lambda: put(1, lambda: torch.nn.Parameter(torch.ones(3, 4), requires_grad=False)),
    "a piece of a larger one": lambda: put(1, lambda: torch.ones(7, 4)[2:5]),
}
OTHERS: dict[str, Callable[[], list[Any]]] = {
    "a whole number": lambda: put(0, lambda: 2),
    "text": lambda: put(0, lambda: "2"),
    "another shape": lambda: put(1, lambda: torch.ones(4, 3)),
    "other elements": lambda: put(1, lambda: torch.ones(3, 4, dtype=torch.float64)),
    "other elements in numpy": lambda: put(2, lambda: np.ones((3, 4), np.int32)),
    "columns": lambda: put(1, lambda: torch.ones(4, 3).T),
    "columns in numpy": lambda: put(1, lambda: np.ones((4, 3), np.float32).T),
    "the other byte order": lambda: put(1, lambda: np.ones((3, 4), ">f4")),
    "a list": lambda: put(1, lambda: [[1.0] * 4] * 3),
    "read only and written": lambda: put(2, read_only, numpy),
    "too few": lambda: put(3, lambda: torch.zeros(2, dtype=torch.float64)),
    "with a gradient": lambda: put(1, lambda: torch.ones(3, 4, requires_grad=True)),
    "no memory": lambda: put(1, lambda: torch.ones(3, 4, device="meta")),
    "a view of negated numbers": lambda: put(1, lambda: torch.ones(3, 4, dtype=torch.complex64).conj().imag),
    "of no elements": lambda: put(1, lambda: torch.ones(0, 4)),
    "sparse": lambda: put(1, lambda: torch.ones(3, 4).to_sparse()),
    "overlapping": overlapping,
    "between two elements": lambda: put(1, shifted, numpy),
    "a masked array": lambda: put(1, lambda: np.ma.ones((3, 4), np.float32), numpy),
}


@pytest.mark.parametrize("name", USUAL)
def test_usual_arguments_are_passed_at_once(scale: Kernel, name: str) -> None:
    args = USUAL[name]()
    assert scale._quick is not None
    assert scale._quick.call(tuple(args), None, None, 0) is not None
    scale(*args)
    np.testing.assert_array_equal(np.asarray(args[2]), 2 * np.ones((3, 4)) * np.asarray(args[1]))


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_judged_by_the_other_way(scale: Kernel, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scale._quick is not None
    assert scale._quick.call(tuple(OTHERS[name]()), None, None, 0) is None

    def outcome() -> str:
        args = OTHERS[name]()
        try:
            scale(*args)
        except InputError as error:
            return str(error)
        return str(args[2])

    found = outcome()
    monkeypatch.setattr(scale, "_quick", None)
    assert outcome() == found


def test_every_element_type_is_known(cache: object) -> None:
    for name, c in {
        "bfloat16": "polydl_bf16",
        "float16": "_Float16",
        "int64": "long",
        "uint8": "unsigned char",
    }.items():
        text = f"#include <polydl.h>\nvoid f(const {c} x[4], {c} y[4]) {{ for (int i = 0; i < 4; i++) y[i] = x[i]; }}"
        made = polydl.compile(text, optimize=False)
        dtype = getattr(torch, name)
        made(torch.ones(4, dtype=dtype), torch.zeros(4, dtype=dtype))
        args = torch.arange(4).to(dtype), torch.zeros(4, dtype=dtype)
        assert made._quick is not None
        assert made._quick.call(args, None, None, 0) is not None
        made(*args)
        assert torch.equal(*args)
        other = torch.bfloat16 if name == "float16" else torch.float16
        assert made._quick.call((args[0].to(other), args[1]), None, None, 0) is None


def test_tensors_of_inference_have_no_count(scale: Kernel) -> None:
    with torch.inference_mode():
        args = [2.0, torch.ones(3, 4), torch.zeros(3, 4), torch.zeros(3, dtype=torch.float64)]
    scale(*args)
    assert torch.equal(args[2], torch.full((3, 4), 2.0))


def test_torch_counts_a_change(scale: Kernel) -> None:
    args = tensors()
    before = [t._version for t in args[1:]]
    scale(*args)
    assert [t._version - b for t, b in zip(args[1:], before, strict=True)] == [0, 1, 1]
