"""What changes inputs and buffers in place writes what changes, and is what eager PyTorch does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.torch_backend.graph_report import GraphReport

X, PLACE, TWO = torch.randn(2, 3, 1, 4), torch.tensor([3]), torch.tensor([1, 5])


class Buffers(nn.Module):
    """A module that calls a function on two buffers."""

    k: Tensor
    v: Tensor

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.register_buffer("k", torch.arange(2 * 3 * 8 * 4.0).view(2, 3, 8, 4))
        self.register_buffer("v", torch.arange(20.0).view(4, 5))
        self.function = function

    def forward(self) -> Any:
        return self.function(self)


def cache(m: Buffers) -> Any:
    m.k.index_copy_(2, PLACE, X)
    return (m.k[:, :, :8] * X).sum(-1), m.k


def by_assignment(m: Buffers) -> Any:
    old = m.k * 2
    m.k[:, :, PLACE] = X
    return old, m.k.sum()


def twice(m: Buffers) -> Any:
    m.k.index_copy_(2, PLACE, X)
    before = m.k.sum()
    m.k.index_copy_(2, TWO, X.expand(2, 3, 2, 4))
    return before, m.k.mean()


def added(m: Buffers) -> Any:
    m.v.index_put_((torch.tensor([0, 0]), torch.tensor([1, 1])), torch.tensor([5.0, 7.0]), accumulate=True)
    m.v.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 5))
    return m.v * 1


def parts(m: Buffers) -> Any:
    m.v[1, 2:4] = X[0, 0, 0, :2]
    m.v[:, 3].add_(1)
    m.v.diagonal().copy_(X[0, 0, 0])
    m.v[1:3, 1:4][0, 1:] = 7
    return m.v + 1


def scattered(m: Buffers) -> Any:
    m.v.scatter_(0, torch.tensor([[1, 2, 0, 0, 1]]), 2.5)
    return m.v + 1


def shifted(m: Buffers) -> Any:
    m.v[1:] = m.v[:-1].clone()
    return m.v.sum(0)


IN_PLACE = (cache, by_assignment, twice, added, parts, scattered)


def view_before(m: Buffers) -> Any:
    old = m.k[:, :, 3]
    new = m.k.index_copy(2, PLACE, X)
    result = old * 2
    m.k.copy_(new)
    return result


def result_apart(m: Buffers) -> Any:
    new = m.k.index_copy(2, PLACE, X)
    m.k.copy_(new)
    return new


def of_itself(m: Buffers) -> Any:
    new = m.k.index_copy(2, PLACE, m.k[:, :, :1])
    m.k.copy_(new)
    return new.sum()


def old_is_read_later(m: Buffers) -> Any:
    new = m.k.index_copy(2, PLACE, X)
    result = m.k + 1
    m.k.copy_(new)
    return result, new * 2


def returned_view(m: Buffers) -> Any:
    row = m.v[0]
    m.v[0] = 9
    return row, m.v


COPIED = (shifted, view_before, result_apart, of_itself, old_is_read_later, returned_view)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [*IN_PLACE, *COPIED])
def test_buffers_are_changed_as_by_eager_pytorch(function: Callable[[Buffers], Any], dynamic: bool) -> None:
    reports: list[GraphReport] = []
    model = Buffers(function)
    changed = copy.deepcopy(model)
    options = {"groups": 0, "report": reports.append}
    compiled = torch.compile(changed, backend="polydl", dynamic=dynamic, options=options)
    with torch.no_grad():
        for _ in range(2):
            version = changed.k._version, changed.v._version
            expected, found = model(), compiled()
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(changed.k, model.k)
            torch.testing.assert_close(changed.v, model.v)
            assert (changed.k._version, changed.v._version) != version
    if function is result_apart:
        assert found.data_ptr() != changed.k.data_ptr()
    if function is returned_view:
        assert found[0].data_ptr() == changed.v.data_ptr()
    whole = {"aten.index_copy.default", "aten.index_put.default", "aten.slice_scatter.default", "aten.scatter.value"}
    (report,) = reports
    operators = {name for group in report.groups for name in group.operators}
    if function in IN_PLACE:
        assert operators.isdisjoint(whole) and not {one.target for one in report.eager} & whole


def test_an_index_out_of_range_is_the_error_of_eager_pytorch() -> None:
    def wrong(m: Buffers) -> Any:
        m.v[torch.tensor([0, 9])] = 1.0
        return m.v * 1

    model = Buffers(wrong)
    changed = copy.deepcopy(model)
    for run in (model, torch.compile(changed, backend="polydl", options={"groups": 0})):
        with torch.no_grad(), pytest.raises(IndexError, match="index 9 is out of bounds"):
            run()
    assert torch.equal(changed.v, model.v)


def test_inputs_that_share_memory() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        a[1:3] = 5
        b[0] += 1
        return a.sum() + b.sum()

    memory = [torch.arange(8.0) for _ in range(2)]
    compiled = torch.compile(function, backend="polydl", options={"groups": 0})
    with torch.no_grad():
        found, expected = (run(one[:6], one[2:]) for run, one in zip((compiled, function), memory, strict=True))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(memory[0], memory[1])


def test_what_was_changed_is_checked_and_strict_graphs_have_only_loops() -> None:
    for options in ({"check": True}, {"strict": True}):
        torch._dynamo.reset()
        model = Buffers(cache)
        changed = copy.deepcopy(model)
        with torch.no_grad():
            torch.compile(changed, backend="polydl", options={"groups": 0, **options})()
            model()
        torch.testing.assert_close(changed.k, model.k)


def test_a_cache_that_was_a_parameter_before_is_read_anew() -> None:
    """What a graph changes is nothing that is computed ahead."""

    def function(m: Buffers) -> Any:
        scaled = m.v * 2
        m.v[0] = m.v[1] + 1
        return scaled, m.v.sum()

    model = Buffers(function)
    changed = copy.deepcopy(model)
    compiled = torch.compile(changed, backend="polydl", options={"groups": 0})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(), model())
            model.v.add_(1)
            changed.v.add_(1)
