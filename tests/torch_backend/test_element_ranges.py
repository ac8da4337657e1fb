"""Known ranges of integers hold every element; indices that are known to fit are computed where they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812 (its usual name)

import polydl.torch_backend
from polydl.torch_backend.element_ranges import known_range
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.operator_call import EVERYWHERE

QUICK = {"groups": 0}


def random_integers(seed: int) -> Callable[[Tensor], list[Tensor]]:
    """A function of a tensor of integers that gives each step of a random computation."""
    draw = random.Random(seed)
    steps: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda a, b: a + b, lambda a, b: a - 2 * b, lambda a, b: 7 - a, lambda a, b: a * b, lambda a, b: -a,
        lambda a, b: a.abs(), lambda a, b: a.clamp(-3, 9), lambda a, b: a.clamp(min=2),
        lambda a, b: torch.maximum(a, b), lambda a, b: torch.minimum(a, b), lambda a, b: torch.where(a > b, a, b),
        lambda a, b: a % 5,
        lambda a, b: a.div(3, rounding_mode="floor"), lambda a, b: a & 6, lambda a, b: a.to(torch.int8).long(),
        lambda a, b: a.flip(0), lambda a, b: a[1:].repeat(2)[: a.shape[0]], lambda a, b: a.topk(3)[1].repeat(3)[:8],
        lambda a, b: a.argmax() + b, lambda a, b: a.view(2, 4).split(1)[1].flatten().repeat(2),
        lambda a, b: b[a % 8], lambda a, b: (a.float() * 1.5).long().clamp(0, 3),
    ]  # fmt: skip
    chosen = [(draw.choice(steps), draw.random(), draw.random()) for _ in range(12)]

    def function(x: Tensor) -> list[Tensor]:
        values = [x, torch.arange(8), torch.arange(20, 4, -2)]
        for step, i, j in chosen:
            values.append(step(values[int(i * len(values))], values[int(j * len(values))]))
        return values

    return function


def ranges(gm: fx.GraphModule) -> list[tuple[int, int]]:
    (output,) = gm.graph.find_nodes(op="output")
    return [known_range(node) for node in output.args[0]]


@pytest.mark.parametrize("seed", range(60))
def test_every_element_is_in_the_range(seed: int) -> None:
    torch.manual_seed(seed)
    function = random_integers(seed)
    gm = make_fx(function, tracing_mode="fake")(torch.zeros(8, dtype=torch.int64))
    found = ranges(gm)
    for size in (10, 1 << 62):
        for value, (least, most) in zip(function(torch.randint(-size, size, (8,))), found, strict=True):
            assert least <= int(value.min()) and int(value.max()) <= most


def test_ranges_are_not_wider_than_need_be() -> None:
    def function(x: Tensor) -> list[Tensor]:
        reflected = 55 - (55 - (torch.arange(62) - 3).abs()).abs()
        return [reflected, (x * 2).clamp(0, 9), x.argmin(), x % 4, torch.arange(9, 1, -2), x]

    gm = make_fx(function, tracing_mode="fake")(torch.zeros(8, dtype=torch.int64))
    assert ranges(gm) == [(0, 55), (0, 9), (0, 7), (0, 3), (3, 9), (-(1 << 63), (1 << 63) - 1)]


def test_nothing_is_known_where_sizes_change() -> None:
    gm = make_fx(lambda: torch.arange(8), tracing_mode="fake")()
    (node,) = gm.graph.find_nodes(op="output")[0].all_input_nodes
    node.meta[EVERYWHERE] = (node.meta["val"],)
    assert known_range(node) == (-(1 << 63), (1 << 63) - 1)


X, TABLE = torch.randn(2, 5, 9, 7), torch.randn(31, 7)
KNOWN: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "positions": (lambda x, w: x + F.embedding(torch.arange(x.shape[2]), w), (X, TABLE)),
    "positions backwards": (lambda x: x[..., torch.arange(6, -1, -1)] * 2, (X,)),
    "from the end": (lambda x: x[:, :, torch.arange(-3, 3)] + 1, (X,)),
    "clamped": (lambda w, i: w[i.clamp(0, 30)] * 2, (TABLE, torch.tensor([-7, 3, 99]))),
    "extremes": (lambda x: x.gather(2, x.argmax(2, keepdim=True)) + 1, (X,)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (X,)),
    "bicubic, corners": (lambda x: F.interpolate(x, (4, 11), mode="bicubic", align_corners=True), (X,)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=3, mode="nearest-exact"), (X,)),
    "nearest, smaller": (lambda x: F.interpolate(x, (4, 5), mode="nearest-exact"), (X,)),
    "reflected": (lambda x: F.pad(x, (3, 2, 0, 4), mode="reflect") * 2, (X,)),
    "reflected and cut": (lambda x: F.pad(x, (-1, 2, 3, -2), mode="reflect"), (X,)),
    "reflected volume": (lambda x: F.pad(x, (1, 2, 3, 1, 2, 2), mode="reflect"), (X,)),
    "replicated": (lambda x: F.pad(x, (9, 2, 1, 4), mode="replicate"), (X,)),
    "replicated row": (lambda x: F.pad(x[0], (2, 3), mode="replicate"), (X,)),
}


def explained(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> GraphReport:
    torch._dynamo.reset()
    (graph,) = polydl.torch_backend.explain(function, *inputs, options=QUICK).graphs
    return graph


@pytest.mark.parametrize("name", KNOWN)
def test_known_indices_are_part_of_one_region(name: str) -> None:
    function, inputs = KNOWN[name]
    graph = explained(function, inputs)
    assert graph.eager == () and str(graph).count("\nregion ") == 1
    found = torch.compile(function, backend="polydl", options=QUICK)(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_computed_indices_are_checked_between_two_regions(dynamic: bool) -> None:
    def function(w: Tensor, i: Tensor) -> Tensor:
        return (w * 2)[i * 3 - 1].relu()

    given = torch.tensor([0, 5, 10])
    graph = explained(function, (TABLE, given))
    assert graph.eager == () and str(graph).count("\nregion ") == 2
    compiled = torch.compile(function, backend="polydl", options=QUICK, dynamic=dynamic)
    torch.testing.assert_close(compiled(TABLE, given), function(TABLE, given))
    for wrong in (11, -11):
        with pytest.raises(IndexError):
            compiled(TABLE, given + wrong)


def test_sizes_that_outgrow_a_table_are_an_error() -> None:
    compiled = torch.compile(KNOWN["positions"][0], backend="polydl", options=QUICK, dynamic=True)
    for rows in (9, 12, 31):
        x = torch.randn(2, 5, rows, 7)
        torch.testing.assert_close(compiled(x, TABLE), KNOWN["positions"][0](x, TABLE))
    with pytest.raises(IndexError):
        compiled(torch.randn(2, 5, 32, 7), TABLE)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (torch.randint(0, 255, (1, 3, 4, 5)).byte(),)),
        (lambda x: F.interpolate(x, (3, 3), mode="bicubic", antialias=True), (X,)),
        (lambda x, t: F.nll_loss(x, t, ignore_index=2), (torch.randn(9, 5), torch.arange(9) % 5)),
    ],
)
def test_what_has_parts_without_loops_is_one_operator(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    graph = explained(function, inputs)
    assert graph.groups == () and len(graph.eager) == 1
    compiled = torch.compile(function, backend="polydl", options=QUICK)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
    if inputs[0].is_floating_point():
        both = [inputs[0].clone().requires_grad_() for _ in range(2)]
        for one, run in zip(both, (function, compiled), strict=True):
            run(one, *inputs[1:]).square().sum().backward()
        torch.testing.assert_close(both[1].grad, both[0].grad)
