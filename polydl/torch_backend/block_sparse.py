"""Linear layers whose weight is a `torch.sparse_bsr` tensor, as an operator that graphs can hold.

Dynamo takes no sparse tensors: it leaves what touches one to eager PyTorch. `block_sparse_linears` puts the arrays of
such a weight in place of it, and one operator, `polydl::linear_blocks`, which eager PyTorch computes with its own
sparse product, and the backend by loops over rows of blocks.
"""

from __future__ import annotations

import torch
from torch import nn


def block_sparse_linears(model: nn.Module) -> nn.Module:
    """Replace, in place, each `nn.Linear` of a model whose weight is a `torch.sparse_bsr` tensor by a module that
    computes the same; returns the model, or what stands for it where it is such a layer itself.

    >>> layer = torch.nn.Linear(8, 8)
    >>> layer.weight = torch.nn.Parameter(layer.weight.detach().to_sparse_bsr((4, 4)))
    >>> block_sparse_linears(torch.nn.Sequential(layer, torch.nn.ReLU()))
    Sequential(
      (0): BlockSparseLinear(in_features=8, out_features=8, block=(4, 4), blocks=4, bias=True)
      (1): ReLU()
    )
    """
    if isinstance(model, nn.Linear):
        return BlockSparseLinear(model.weight, model.bias) if model.weight.layout is torch.sparse_bsr else model
    for name, child in model.named_children():
        setattr(model, name, block_sparse_linears(child))
    return model


class BlockSparseLinear(nn.Module):
    """y = x W^T + bias, W of shape (out_features, in_features) in rows of blocks. The blocks are no parameters: only x
    and the bias get gradients."""

    ends: torch.Tensor
    """(rows of blocks + 1,), int32: row i has the blocks ends[i] <= p < ends[i + 1]."""
    columns: torch.Tensor
    """(blocks,), int32: the column of blocks."""
    values: torch.Tensor
    """(blocks, columns of a block, rows of a block): neighbours in memory are neighbours in y."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Raises ValueError for a weight of another layout, or of more than two dimensions."""
        super().__init__()
        if weight.layout is not torch.sparse_bsr or weight.ndim != 2:
            raise ValueError(f"a weight of two dimensions in torch.sparse_bsr is needed, not one in {weight.layout}")
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        given = weight.detach()
        # Copies: Dynamo takes no views of what is sparse.
        self.register_buffer("ends", given.crow_indices().to(torch.int32, copy=True))
        self.register_buffer("columns", given.col_indices().to(torch.int32, copy=True))
        blocks = given.values().transpose(1, 2)
        self.register_buffer("values", blocks.clone(memory_format=torch.contiguous_format))
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x`: (…, in_features); the result: (…, out_features)."""
        found: torch.Tensor = torch.ops.polydl.linear_blocks(x, self.ends, self.columns, self.values, self.bias)
        return found

    def extra_repr(self) -> str:
        blocks, width, height = self.values.shape
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, block=({height}, {width}), "
            f"blocks={blocks}, bias={self.bias is not None}"
        )


@torch.library.custom_op(
    "polydl::linear_blocks",
    mutates_args=(),
    schema="(Tensor input, Tensor ends, Tensor columns, Tensor values, Tensor? bias) -> Tensor",
)
def linear_blocks(
    given: torch.Tensor,
    ends: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """What `BlockSparseLinear` computes, by PyTorch's product of a sparse and a dense matrix, if there is one."""
    rows, weight = given.reshape(-1, given.shape[-1]), _weight(given, ends, columns, values)
    if values.shape[1] != values.shape[2]:
        weight = weight.to_dense()  # PyTorch has no product with blocks that are not square
    made = (weight @ rows.t()).t()
    made = made if bias is None else made + bias
    return made.reshape(*given.shape[:-1], made.shape[-1]).contiguous()


@linear_blocks.register_fake
def _(
    given: torch.Tensor,
    ends: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    return given.new_empty(*given.shape[:-1], (ends.shape[0] - 1) * values.shape[2])


@torch.library.custom_op(
    "polydl::linear_blocks_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor ends, Tensor columns, Tensor values, int width) -> Tensor",
)
def linear_blocks_backward(
    gradient: torch.Tensor, ends: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, width: int
) -> torch.Tensor:
    """The gradient of what is given, which has rows of `width` elements."""
    weight = _weight(gradient.new_empty(0, width), ends, columns, values)
    return gradient @ weight.to_dense()


@linear_blocks_backward.register_fake
def _(
    gradient: torch.Tensor, ends: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, width: int
) -> torch.Tensor:
    return gradient.new_empty(*gradient.shape[:-1], width)


def _weight(like: torch.Tensor, ends: torch.Tensor, columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """As a tensor in `torch.sparse_bsr` that multiplies rows as long as those of `like`."""
    shape = ((ends.shape[0] - 1) * values.shape[2], like.shape[-1])
    return torch.sparse_bsr_tensor(ends, columns, values.transpose(1, 2).contiguous(), shape, check_invariants=True)


def _setup(ctx, inputs, output):  # type: ignore[no-untyped-def]  # as torch.library calls it
    given, ends, columns, values, bias = inputs
    ctx.save_for_backward(ends, columns, values)
    ctx.width, ctx.biased = given.shape[-1], bias is not None


def _backward(ctx, gradient):  # type: ignore[no-untyped-def]  # as torch.library calls it
    if ctx.needs_input_grad[3]:
        raise RuntimeError("polydl::linear_blocks has no gradient of its blocks")
    own = torch.ops.polydl.linear_blocks_backward(gradient, *ctx.saved_tensors, ctx.width)
    bias = gradient.reshape(-1, gradient.shape[-1]).sum(0) if ctx.biased else None
    return own, None, None, None, bias


linear_blocks.register_autograd(_backward, setup_context=_setup)
