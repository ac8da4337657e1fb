"""Linear layers with weights in `torch.sparse_bsr`: loops over rows of blocks, for any pattern, and eager PyTorch where
there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polydl.torch_backend import block_sparse_linears, group_code
from polydl.torch_backend.block_sparse import BlockSparseLinear
from polydl.torch_backend.graph_report import GraphReport

pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
BLOCKS = [(8, 8), (4, 2), (1, 3), (32, 32)]
PATTERNS = ["uniform", "empty rows", "half in one row", "one block", "dense"]


def weight(block: tuple[int, int], pattern: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Of small integers, 12 x 10 blocks."""
    torch.manual_seed(3)
    down, across = 12, 10
    kept = torch.rand(down, across) < 0.3
    if pattern == "empty rows":
        kept[::2] = False
    elif pattern == "half in one row":
        kept[:] = False
        kept[:, 0], kept[5] = True, True
    elif pattern == "one block":
        kept[:] = False
        kept[7, 4] = True
    elif pattern == "dense":
        kept[:] = True
    values = torch.randint(1, 5, (down * block[0], across * block[1]))
    return (values * kept.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)).to(dtype)


def layer(dense: torch.Tensor, block: tuple[int, int], *, bias: bool = True) -> nn.Linear:
    made = nn.Linear(dense.shape[1], dense.shape[0], bias=bias, dtype=dense.dtype)
    made.weight = nn.Parameter(dense.to_sparse_bsr(block), requires_grad=False)
    if bias:
        made.bias.data = torch.arange(dense.shape[0], dtype=dense.dtype) % 5 - 2
    return made


def compiled(model: nn.Module, **options: Any) -> tuple[Any, list[GraphReport]]:
    reports: list[GraphReport] = []
    return torch.compile(model, backend="polydl", options={**options, "report": reports.append}), reports


def integers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-4, 5, shape).to(dtype)


CASES = [(block, "uniform") for block in BLOCKS] + [((8, 8), pattern) for pattern in PATTERNS[1:]]


@pytest.mark.parametrize(("block", "pattern"), CASES)
def test_layers_are_right_for_any_pattern(block: tuple[int, int], pattern: str) -> None:
    dense = weight(block, pattern)
    model = block_sparse_linears(nn.Sequential(layer(dense, block), nn.ReLU()))
    for number, shape in enumerate([(5, dense.shape[1]), (dense.shape[1],), (2, 3, dense.shape[1])]):
        torch.compiler.reset()
        run, reports = compiled(model, threads=1 + number, groups=0 if number else 1, least_work=0)
        x = integers(*shape)
        found = run(x)
        assert reports and not reports[0].eager
        wanted = torch.relu(x @ dense.T + model[0].bias)
        assert torch.equal(found, wanted)
        assert torch.equal(model(x), wanted)


def test_what_follows_is_in_one_group_with_a_microkernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    dense = weight((8, 8), "uniform")
    run, reports = compiled(block_sparse_linears(nn.Sequential(layer(dense, (8, 8)), nn.ReLU())), least_work=0)
    x = integers(64, dense.shape[1])
    assert torch.equal(run(x), torch.relu(x @ dense.T + torch.arange(len(dense)) % 5 - 2))
    ((group,),) = (region.groups for region in reports[0].regions)
    assert {"polydl.linear_blocks.default", "aten.relu.default"} <= set(group.operators)
    assert "_mk_f32_" in group.text


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_stacks_of_layers(dtype: torch.dtype) -> None:
    one, other = weight((4, 2), "uniform", dtype), weight((8, 8), "uniform", dtype)[:, :48]
    first, second, last = layer(one, (4, 2)), layer(other, (8, 8), bias=False), nn.Linear(96, 3, dtype=dtype)
    last.weight.data = integers(3, 96, dtype=dtype)
    given = block_sparse_linears(nn.Sequential(first, nn.Sequential(second), last))
    assert [type(m) for m in given.modules() if isinstance(m, BlockSparseLinear)] == [BlockSparseLinear] * 2
    run, reports = compiled(given, groups=0)
    x = integers(7, 20, dtype=dtype)
    with torch.no_grad():
        hidden = (x @ one.T + first.bias) @ other.T
        torch.testing.assert_close(run(x), last(hidden))
    assert not reports[0].eager


def test_gradients_are_those_of_the_dense_layer() -> None:
    dense = weight((8, 8), "uniform")
    own = block_sparse_linears(layer(dense, (8, 8)))
    run, _ = compiled(own, groups=0)
    x = integers(6, dense.shape[1]).requires_grad_()
    direction = integers(6, len(dense))
    by_x, by_bias = torch.autograd.grad(run(x), [x, own.bias], direction)
    assert torch.equal(by_x, direction @ dense)
    assert torch.equal(by_bias, direction.sum(0))


def test_a_matrix_without_blocks_is_left_to_eager_pytorch() -> None:
    run, reports = compiled(block_sparse_linears(layer(torch.zeros(16, 8), (8, 8))), groups=0)
    x = integers(3, 8)
    assert torch.equal(run(x), (torch.arange(16.0) % 5 - 2).expand(3, 16))
    assert "no elements" in str(reports[0].eager[0])


def test_indices_out_of_range_are_an_error() -> None:
    model = block_sparse_linears(layer(weight((8, 8), "uniform"), (8, 8)))
    assert isinstance(model, BlockSparseLinear)
    model.columns[3] = 10
    run, _ = compiled(model, groups=0)
    with pytest.raises(IndexError, match="is not between"):
        run(integers(4, 80))


def test_other_layers_stay() -> None:
    dense, csr = nn.Linear(4, 4), nn.Linear(4, 4)
    csr.weight = nn.Parameter(csr.weight.detach().to_sparse_csr(), requires_grad=False)
    model = block_sparse_linears(nn.Sequential(dense, csr))
    assert model[0] is dense and model[1] is csr
    with pytest.raises(ValueError, match="sparse_bsr"):
        BlockSparseLinear(dense.weight)
