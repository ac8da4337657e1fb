"""Integers wrap around as those of PyTorch, and what has more elements than an int counts is counted in long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from polydl.model.types import I8, I32
from polydl.torch_backend.formulas import add, mul, select
from polydl.torch_backend.groups import groups
from polydl.torch_backend.loop_program import Array, Const, Load, Op
from polydl.torch_backend.wrapping import range_of
from tests.torch_backend.executed import Executed, compiled, traced, wanted

TYPES = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
Function = Callable[..., torch.Tensor]
FUNCTIONS: tuple[Function, ...] = (
    lambda a, b: (a + a) > 0,
    lambda a, b: (a - b).float() * 2,
    lambda a, b: (a + 1) > a,
    lambda a, b: (a * b + a) < (b - a),
    lambda a, b: (-a).double() + a.abs().double(),
    lambda a, b: torch.where(a * a > b, a + b, a - b) // 7,
    lambda a, b: (a**3) % 5 + (a // -1) - (b % -1),
    lambda a, b: torch.maximum(a - b, b - a) * 100,
    lambda a, b: (~a + 1).long() + (a & (b + b)).long(),
    lambda a, b: torch.clamp(a + b, 3, 50).float(),
    lambda a, b: (a - 2 * b).to(torch.int8).float(),
    lambda a, b: (a * b).sum(-1),
    lambda a, b: a.sum(-1, dtype=a.dtype) > b.prod(-1, dtype=b.dtype),
    lambda a, b: (a + b).cumsum(-1, dtype=a.dtype) > 0,
    lambda a, b: (a * 3).amax(-1) - (a * 3).amin(-1),
    lambda a, b: (a @ b.t()) > 0,
    lambda a, b: torch.addmm(b[:, :8], a, b.t()) // 3,
    lambda a, b: torch.zeros_like(a).index_add(0, torch.tensor([0, 2, 0, 0, 5, 0, 7, 0]), b, alpha=3),
    lambda a, b: a > -1,
)


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    ends = torch.iinfo(dtype)
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randint(ends.min, ends.max, (8, 24), generator=draw).to(dtype) for _ in range(2))
    a[0, :8], a[1, :8], b[1, 4:12] = ends.max, ends.min, ends.min
    return a, b


def every(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [f(a, b) for f in FUNCTIONS]


def test_integers_wrap(tmp_path: Path) -> None:
    cases = [operands(dtype) for dtype in TYPES]
    made = [Executed(traced(every, args)) for args in cases]
    compiled(made, tmp_path)
    for args, one in zip(cases, made, strict=True):
        for number, (mine, theirs) in enumerate(zip(one(*args), every(*args), strict=True)):
            assert torch.equal(mine, theirs), (number, args[0].dtype)


def text(f: Function, *args: torch.Tensor) -> str:
    (group,) = Executed(traced(f, args)).groups
    return group.text("f")


def test_what_a_type_holds_is_plain() -> None:
    small = torch.ones(4, 6, dtype=torch.int8)
    plain = text(lambda a: a @ a.t(), small)
    assert "int sum1 = 0;" in plain and "unsigned" not in plain  # 6 * 128 * 128
    assert "(signed char)(a0[i] + a0[i])" in text(lambda a: a + a, small)
    wide = torch.ones(2, 6, dtype=torch.int32)
    assert "unsigned int sum1" in text(lambda a: a.sum(0, dtype=torch.int32), wide)
    assert "unsigned" not in text(lambda a: a.sum(0), wide)


def test_ranges() -> None:
    a = Load(Array("a", I8, ()), ())
    wide = Op("cast", (a,), I32)
    assert range_of(wide) == (-128, 127)
    assert range_of(mul(wide, wide)) == (-128 * 127, 128 * 128)
    assert range_of(select(Op(">", (a, a), I8), add(wide, 1), Const(300, I32))) == (-127, 300)
    assert range_of(add(a, a)) == (-128, 127)  # of the type, which holds no more
    assert range_of(Op("%", (wide, Const(7, I32)), I32)) == (-6, 6)
    assert range_of(Op("/", (wide, Const(7, I32)), I32)) == (-18, 18)


@pytest.mark.parametrize(
    ("f", "has"),
    [
        (lambda x: x ^ 1, ("for (long i = 0; i < 2500000000; i++)", "o0[i] = a0[i] ^ 1")),
        (lambda x: x.flatten()[3:].argmax(), ("long at2", "at2 = i;")),
        (lambda x: x[:, ::2] + 1, ("for (int i", "for (int j")),
        (lambda x: x.t().flatten()[:99].float(), ("for (int i = 0; i < 99; i++)",)),
    ],
)
def test_more_elements_than_an_int_counts(f: Function, has: tuple[str, ...]) -> None:
    with FakeTensorMode():
        x = torch.empty(50_000, 50_000, dtype=torch.uint8)
        nodes = [node for node in traced(f, (x,), mutates=False).graph.nodes if node.op == "call_function"]
    made = "\n".join(one.text("f") for one in groups(nodes, wanted(nodes) or nodes[-1:]))
    assert [one for one in has if one not in made] == [], made
