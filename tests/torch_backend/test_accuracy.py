"""Sums, variances and their gradients are as near to those of float64 as eager PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.torch_backend.executed import Executed, compiled, traced

Function = Callable[[torch.Tensor], torch.Tensor]


def gradient(f: Function) -> Function:
    def of(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda y: f(y).sum())(x)

    return of


def drawn(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes, generator=torch.Generator().manual_seed(0))


AFTER_MUCH = torch.ones(300, 3)
AFTER_MUCH[0] = 2**24
"""Whose sum in float sticks at 2^24, one after the other."""
CASES: dict[str, tuple[Function, torch.Tensor]] = {
    "columns of ones": (lambda x: x.sum(0), AFTER_MUCH),
    "rows of ones": (lambda x: x.sum(-1), AFTER_MUCH.t().contiguous()),
    "mean": (lambda x: x.mean(), AFTER_MUCH),
    "columns": (lambda x: x.sum(0), drawn(3000, 5)),
    "several": (lambda x: x.mean((0, 2)), drawn(40, 3, 50) + 100),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=0), drawn(3000, 5)),
    "cumsum": (lambda x: x.cumsum(0), drawn(3000, 2)),
    "variance far from 0": (lambda x: x.var(-1), drawn(4, 500) + 1000),
    "variance": (lambda x: x.var(0, correction=0), drawn(500, 4) - 0.5),
    "deviation of little": (lambda x: x.std(-1), drawn(4, 50) * 1e-30),
    "deviation of much": (lambda x: x.std(-1), drawn(4, 50) * 1e30),
    "deviation, mean": (lambda x: torch.std(x, -1) + x.mean(-1), drawn(4, 50) * 1e25),
    "gradient of deviation of little": (gradient(lambda x: x.std(-1)), drawn(4, 50) * 1e-30),
    "gradient of deviation of much": (gradient(lambda x: x.std(-1)), drawn(4, 50) * 1e30),
    "gradient of variance of little": (gradient(lambda x: x.var(-1)), drawn(4, 50) * 1e-30),
    "gradient of variance of much": (gradient(lambda x: x.var(-1)), drawn(4, 50) * 1e18),
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Executed]:
    made = {name: Executed(traced(f, (x,))) for name, (f, x) in CASES.items()}
    compiled(list(made.values()), tmp_path_factory.mktemp("accuracy"))
    return made


@pytest.mark.parametrize("name", list(CASES))
def test_as_near_as_eager(executed: dict[str, Executed], name: str) -> None:
    f, x = CASES[name]
    exact = f(x.double())

    def error(found: torch.Tensor) -> float:
        return float(((found.double() - exact).abs() / exact.abs().amax()).max())

    mine, eager = error(executed[name](x)), error(f(x))
    assert mine <= max(1.5 * eager, 3 * torch.finfo(torch.float32).eps), (mine, eager)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_elements_have_no_deviation(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.tensor([[0.1] * 7, [1e30] * 7, [3.3e-7] * 7], dtype=dtype)
    made = Executed(traced(lambda x: x.std(-1), (x,)))
    compiled([made], tmp_path)
    found = made(x)
    assert bool((found >= 0).all()) and bool((found <= 1e-15 * x[:, 0]).all())


def test_halves_are_added_up_as_floats(tmp_path: Path) -> None:
    x = torch.full((300, 2), 0.1, dtype=torch.bfloat16)
    made = Executed(traced(lambda x: (x.sum(0), x.mean(0), x.float().cumsum(0)), (x,)))
    compiled([made], tmp_path)
    for mine, theirs in zip(made(x), (x.sum(0), x.mean(0), x.float().cumsum(0)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_added_to_erf_cancels_far_below_zero() -> None:
    """1 + erf(x) is 0 there also where compilers contract the sum with erf's last product: GELU would be 1e22."""
    x = torch.tensor([-math.inf, -1e30, -100.0, -6.0, -0.0, 3.0, 1e30, math.inf]).repeat(32)
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(lambda x: torch.nn.functional.gelu(x), backend="polydl", options={"least_work": 0.0})(x)
    infinite = x.isinf()
    expected = 0.5 * x * (1 + torch.erf(x / 2**0.5))  # of infinities PyTorch's GELU gives NaN in vectors
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-30)
    assert torch.equal(found[infinite].isnan(), x[infinite] < 0)


def test_products_are_rounded_before_they_are_added() -> None:
    """A product less itself is 0 and not what rounding it took away, whose exponential is infinite here."""
    x = torch.tensor([1.1e30, 0.7e30, -1.3e30, 0.9e30] * 16, dtype=torch.float64)
    functions = (lambda x: (x * 3).logsumexp(0), lambda x: x * x - x * x, lambda x: (x * 3).softmax(0))
    torch._dynamo.reset()
    for f in functions:
        torch.testing.assert_close(torch.compile(f, backend="polydl", options={"least_work": 0.0})(x), f(x))
